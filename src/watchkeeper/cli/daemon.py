"""The daemon, as commands see it: found for reads, started for writes."""

import time
from collections import Counter
from typing import TYPE_CHECKING, cast

from watchkeeper.cli.render import counted
from watchkeeper.errors import WatchkeeperError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchkeeper.app.views.health import Health
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.service import DaemonInfo

_FIRST_LOOK_S = 2.0
_SAY_AGAIN_S = 60.0

_PAGE, _PAGES = 500, 40
"""How many pages of so many entries of the journal are searched for a daemon's own start: many agents run at once, and produce many entries."""


def running(call: "Call") -> "DaemonInfo | None":
    """The daemon that runs, if one does. Looks only."""
    from watchkeeper.daemon import client

    try:
        return client.running(call.reading)
    except (WatchkeeperError, OSError):
        return None


def is_there(call: "Call") -> bool:
    """Whether a daemon runs, begins or ends. Where that cannot be told, one is taken to be there. Looks only."""
    try:
        return call.reading.daemon_host.is_held()
    except (WatchkeeperError, OSError):
        return True


def is_stopped(call: "Call") -> bool:
    """Whether a daemon runs and does nothing, because its process was stopped (SIGSTOP, Ctrl-Z). Looks only."""
    try:
        info = call.reading.daemon_host.info()
    except (WatchkeeperError, OSError):
        return False
    return info is not None and info.frozen


def ensure(call: "Call", done: str, *, starts: bool = True) -> None:
    """Have a daemon run after something was written, and poke it. `done` says what was written, so that a failure here is not taken for one there.

    `starts`: what was written wants something started, which a daemon that is ending does not do.

    Raises:
        WatchkeeperError: no daemon runs and none could be started; what was written stays written.
    """
    from watchkeeper.daemon import client

    try:
        answer = client.ensure(call.writing)
    except WatchkeeperError as error:
        error.args = (f"{done}, but no daemon runs to act on it: {error}",)
        raise
    if answer is client.Ensured.STARTING:
        call.terminal.note("The daemon is still starting; `wk daemon status` shows when it is there.")
    elif answer is client.Ensured.ENDING and starts:
        call.terminal.note(f"{done}: {ENDS}")


ENDS = (
    "the daemon is ending and starts nothing new. What waits is for the next one; "
    "when this one has ended, start it: wk daemon start"
)
NONE = "No daemon runs, so nothing new is started or settled until one does"


class DaemonWatcher:
    """Checks during a wait whether there is still a daemon for the awaited tasks, and reports again and again when there is none."""

    def __init__(self, call: "Call") -> None:
        """Begin; what holds now has been said."""
        self._call = call
        self._next = time.monotonic() + _FIRST_LOOK_S

    def check(self) -> None:
        """Look if it is time to, and say what is new, or what has not been said for long."""
        now = time.monotonic()
        if now < self._next:
            return
        detail = self._describe()
        if detail:
            self._call.terminal.note(detail)
        self._next = now + (_SAY_AGAIN_S if detail else _FIRST_LOOK_S)

    def _describe(self) -> str:
        try:
            host = self._call.reading.daemon_host
            if not host.is_held():
                return f"{NONE}. Start it: wk daemon start"
            info = host.info()
        except (WatchkeeperError, OSError):
            return ""
        return f"{ENDS[0].upper()}{ENDS[1:]}" if info is not None and info.ending else ""


def poke(call: "Call") -> bool:
    """Have a running daemon look; False if none runs. Starts none."""
    from watchkeeper.ports.service import DaemonRequest

    try:
        return call.writing.daemon_host.send(DaemonRequest.LOOK)
    except OSError:
        return False


def describe_frozen(info: "DaemonInfo") -> str:
    """How a suspended daemon is described."""
    return f"The daemon is stopped (SIGSTOP) and does nothing: kill -CONT {info.pid}"


def warn_if_none(call: "Call", waiting: int) -> None:
    """Say so if something waits for a daemon and none runs."""
    if waiting and running(call) is None:
        say_none(call, waiting)


def say_none(call: "Call", waiting: int) -> None:
    """The same, where it is known already that none runs."""
    if waiting:
        waits = counted(waiting, "task waits", "tasks wait")
        call.terminal.note(f"{NONE}; {waits} for it. Start it: wk daemon start")


def warn_for(call: "Call", health: "Health") -> None:
    """The same, for everything."""
    warn_if_none(call, health.waiting_for_a_daemon())


def plain(info: "DaemonInfo | None") -> dict[str, object]:
    """What is known of the daemon, as JSON values."""
    if info is None:
        return {
            "running": False,
            "pid": None,
            "started_at": None,
            "incarnation": None,
            "version": None,
            "ending": None,
            "trouble": None,
            "frozen": False,
        }
    return {
        "running": True,
        "pid": info.pid,
        "started_at": info.started_at.isoformat(),
        "incarnation": info.incarnation,
        "version": info.version,
        "ending": info.ending or None,
        "trouble": info.trouble or None,
        "frozen": info.frozen,
    }


def found_by_newest(call: "Call") -> dict[str, str]:
    """What the newest daemon said, when it started, of each run that it found, such as `adopted` or `lost`; empty if that is long ago."""
    store = call.store
    if store is None:
        return {}
    own = call.reading.state.known_node()
    last = store.read(lambda tx: tx.journal.last())
    for first in range(last - _PAGE, last - _PAGE * _PAGES, -_PAGE):
        page = store.read(lambda tx, first=first: tx.journal.after(max(0, first), _PAGE))
        for entry in reversed(page):
            if entry.kind == "daemon.started" and entry.data.get("machine") in {None, own}:
                found = entry.data.get("found")
                runs = cast("dict[object, object]", found) if isinstance(found, dict) else {}
                return {str(run): str(word) for run, word in runs.items()}
        if first <= 0:
            break
    return {}


def describe_found(found: "Mapping[str, str]") -> str:
    """How many runs a daemon found of each word: `298 adopted, 2 lost`."""
    return ", ".join(f"{count} {word}" for word, count in Counter(found.values()).most_common())
