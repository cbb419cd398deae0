"""The daemon as a service: installed, and taken away again with a list of what is left."""

from shlex import quote
from typing import TYPE_CHECKING

from watchkeeper.cli import daemon, render
from watchkeeper.errors import DaemonError, NoDatabase, Refused, StateError

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.unit import Unit

_PRINT = "`wk daemon install --print` prints the unit for you to place yourself; `wk daemon start` needs no service."


def install(call: "Call", *, now: bool, force: bool, as_json: bool) -> None:
    """Write the unit and have it started at every login.

    Raises:
        DaemonError: systemd cannot be reached, or did not take it.
        Refused: a foreign file has the name, or ours was changed.
    """
    from watchkeeper.ports.unit import UnitState

    unit = call.writing.unit
    problem = unit.unreachable()
    if problem:
        raise DaemonError(
            f"Your systemd cannot be reached ({render.clean(problem)}): nothing was written.", hint=_PRINT
        )
    was = unit.state()
    if was in {UnitState.FOREIGN, UnitState.CHANGED} and not force:
        whose = "was not written by Watchkeeper" if was is UnitState.FOREIGN else "was changed since it was written"
        raise Refused(f"'{unit.path}' {whose}: it was left alone.", hint="Look at it; --force replaces it.")
    try:
        unit.install()
    except OSError as error:
        raise DaemonError(f"'{unit.path}' cannot be written ({error.strerror}).", hint=_PRINT) from error
    if now:
        _start(call, unit)
    if as_json:
        call.terminal.document({"unit": unit.name, "path": str(unit.path), "was": was.value, "started": now})
        return
    word = "is installed already" if was is UnitState.SAME else "was installed"
    call.terminal.say(f"The service {unit.name} {word}: {render.clean(str(unit.path))}")
    call.terminal.say(
        "The daemon runs as a service now." if now else "It starts at your next login; now: wk daemon install --now"
    )
    if not unit.lingers():
        call.terminal.prose(
            "After your last logout the system ends what you started, agents too. To keep them: loginctl enable-linger"
        )


def _start(call: "Call", unit: "Unit") -> None:
    """Have the service be the daemon; one that was started otherwise leaves first, its agents continue."""
    from watchkeeper.daemon import client

    _ = client.stop(call.writing, "leave")
    unit.start()
    _ = client.start(call.writing)  # waits until it listens


def uninstall(call: "Call", *, as_json: bool) -> None:
    """Take the service away, and say what is left and how to remove it.

    Raises:
        Refused: the file is not ours.
        DaemonError: the file cannot be deleted.
    """
    from watchkeeper.ports.unit import UnitState

    try:
        unit = call.reading.unit
        was = unit.state()
    except StateError:
        if as_json:
            call.terminal.document({"removed": False, "problem": None, "left": []})
        else:
            call.terminal.say("There is no service, and no state directory.")
        return
    if was is UnitState.FOREIGN:
        raise Refused(f"'{unit.path}' was not written by Watchkeeper: it was left alone.", hint="Look at it.")
    problem = ""
    if was is not UnitState.ABSENT:
        try:
            problem = unit.remove()
        except OSError as error:
            raise DaemonError(f"'{unit.path}' cannot be deleted ({error.strerror}).", hint="Delete it.") from error
    left = _left(call)
    if as_json:
        rows = [{"what": what, "where": where, "remove": remove} for what, where, remove in left]
        call.terminal.document({"removed": was is not UnitState.ABSENT, "problem": problem or None, "left": rows})
        return
    call.terminal.say(
        "No service was installed." if was is UnitState.ABSENT else f"The service {unit.name} was taken away."
    )
    if problem:
        call.terminal.note(
            f"Your systemd did not take part ({render.clean(problem)}); it forgets the unit at its next start."
        )
    call.terminal.say("What is left, and how to remove it:")
    for what, where, remove in left:
        call.terminal.say(f"  {what}{f': {where}' if where else ''}")
        call.terminal.say(f"      {remove}")  # whole, however narrow the terminal is: it is there to be copied


def _left(call: "Call") -> list[tuple[str, str, str]]:
    """What stays: agents, the daemon, what is kept on disk, the program."""
    parts = call.reading
    home = parts.state.path
    rows: list[tuple[str, str, str]] = []
    info = daemon.running(call)
    agents = _agents(call)
    if agents:
        rows.append((render.counted(agents, "agent"), "at work, under their shims", "wk stop ID…"))
    if info is not None:
        rows.append(("daemon", f"pid {info.pid}", "wk daemon stop"))
    rows += [
        (f"backup {path.name}", str(home), f"rm {quote(str(path))}")
        for path in sorted(home.glob("wk.db.before-restore-*"))
    ]
    accounts = home / "accounts"
    if accounts.is_dir():
        rows.append(("homes of accounts, with sign-ins", str(accounts), "wk account rm --delete-home …"))
    rows.append(("tasks, logs and everything else", str(home), f"rm -r {quote(str(home))}"))
    settings = _settings_file(call)
    if settings:
        rows.append(("settings", settings, f"rm {quote(settings)}"))
    rows.append(("the program", "", "as it was installed: pip, pipx or uv uninstall watchkeeper"))
    return [(render.clean(what), render.clean(where), render.clean(remove)) for what, where, remove in rows]


def _agents(call: "Call") -> int:
    """How many agents may be at work."""
    try:
        return len(call.reading.store.read(lambda tx: tx.runs.live()))
    except NoDatabase:
        return 0


def _settings_file(call: "Call") -> str:
    from watchkeeper.settings import user_file

    file = user_file(call.environ)
    return str(file) if file is not None and file.exists() else ""
