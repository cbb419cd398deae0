"""Change one of a person's own settings: what it may be, and what stands in the way of another database."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, cast

from watchkeeper.app.parts import Caller, Parts
from watchkeeper.app.secrets import refuse_words
from watchkeeper.domain.leave_database import check_leave
from watchkeeper.domain.model import FINAL_TASK_STATES
from watchkeeper.errors import (
    BadTask,
    DatabaseMoved,
    DatabaseUnusable,
    HarnessError,
    SettingsError,
    UnknownHarness,
    WatchkeeperError,
)
from watchkeeper.ports.harness import declared
from watchkeeper.ports.service import DaemonHost
from watchkeeper.settings import ACCOUNT, KEYS, unknown, value_of

_STORE = "store.url"
_DEFAULT_STORE = "sqlite"


class OwnSettings(Protocol):
    """A person's own file of settings."""

    @property
    def path(self) -> Path:
        """Where it is, or would be."""
        ...

    def set(self, key: str, value: object) -> None:
        """Write a setting into it. Raises SettingsError."""
        ...

    def unset(self, key: str) -> bool:
        """Take a setting out of it; False if it was not there. Raises SettingsError."""
        ...


class SettingParts(Parts, Protocol):
    """The parts that these use cases need beside all others'."""

    @cached_property
    def daemon_host(self) -> DaemonHost:
        """The daemon of this machine."""
        ...

    @property
    def known_node(self) -> str | None:
        """The id of this machine; None if nothing has run here yet. Raises StateDirectoryUnusable."""
        ...

    def settings_file(self) -> OwnSettings:
        """The person's own file. Raises SettingsError where there is no home."""
        ...

    def has_content(self, url: str) -> bool:
        """Whether the database at `url` holds anything. Raises DatabaseUnusable, SettingsError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSettingRequest:
    """A setting that a person wants changed."""

    key: str
    typed: str | None
    """The value as it was typed; None: take the setting out of the file, so that the default holds."""
    directory: str
    """Where the person is, absolute: settings of a repository may win there."""
    check: bool = True
    """Refuse another database if it, or the present one, cannot be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSettingResult:
    """What a change of a setting came to."""

    file: Path
    changed: bool
    """False: it was to be taken out, and was not there."""
    left_tasks: int = 0
    """Tasks that have not ended and stay in the database that is left."""
    is_filled: bool | None = None
    """Whether the database that was chosen holds anything; None: it was not looked at."""
    wins: str = ""
    """The origin of a value that wins over the new one in that directory; empty if none does."""
    daemon_keeps: bool = False
    """A daemon runs, and keeps the old value until it is restarted."""


def change(parts: SettingParts, caller: Caller, request: ChangeSettingRequest) -> ChangeSettingResult:
    """Write a setting into the person's own file, or take it out.

    Raises:
        SettingsError: there is no such setting, or its value is wrong or holds a secret.
        Refused: agents of this machine, or its daemon, are using the present database.
        DatabaseUnusable: and its kinds: a database cannot be reached.
    """
    key, typed = request.key, request.typed
    text = None if typed is None else _checked(parts, caller, key, typed)
    left, filled = _switch(parts, key, typed or _DEFAULT_STORE, check=request.check and typed is not None)
    file = parts.settings_file()
    if text is None:
        if not file.unset(key):
            return ChangeSettingResult(file=file.path, changed=False)
    else:
        file.set(key, text)
    now = next((each for each in parts.settings_in(request.directory, ()).values if each.key == key), None)
    beaten = typed is not None and now is not None and not now.origin.startswith("user ")
    return ChangeSettingResult(
        file=file.path,
        changed=True,
        left_tasks=left,
        is_filled=filled,
        wins=now.origin if beaten and now is not None else "",
        daemon_keeps=_daemon_runs(parts) and not key.startswith("run."),
    )


def _checked(parts: Parts, caller: Caller, key: str, typed: str) -> object:
    """What the file is to hold. Raises SettingsError for a wrong value, a secret, the name of no harness, and a value that a harness refuses."""
    value = value_of(key, typed, "as typed").value
    if key != _STORE:
        try:
            refuse_words([(f"The value of {key}", typed)], caller.environ)
            if key == "run.harness":
                _ = parts.harness(typed)
            _check_option(parts, caller, key, typed)
        except (BadTask, UnknownHarness) as wrong:
            raise SettingsError(str(wrong), hint=wrong.hint) from wrong
        except HarnessError:
            pass  # it cannot be loaded, or its program may be installed later: `wk doctor` says why
    if isinstance(value, tuple):
        return list(cast("tuple[str, ...]", value))
    is_count = isinstance(value, int) and key in KEYS and KEYS[key].kind != "size"
    return value if is_count else typed


def _check_option(parts: Parts, caller: Caller, key: str, typed: str) -> None:
    """Have a harness check a value of an option of its own, as it does before a task. Raises SettingsError, BadTask, HarnessError."""
    name, _, option = key.removeprefix("harness.").partition(".")
    if not key.startswith("harness.") or option == ACCOUNT:
        return
    harness = parts.harness(name)
    known = declared(harness).options
    if known is not None and option not in known:
        raise unknown(key, "as typed", [f"harness.{name}.{each}" for each in known])
    if option != "program":
        _ = harness.find(caller.environ, {option: typed})


def _switch(parts: SettingParts, key: str, typed: str, *, check: bool) -> tuple[int, bool | None]:
    """Check a change of database: how many open tasks stay behind, and whether the new one holds anything. Other settings change none."""
    url = value_of(key, typed, "as typed").value if key == _STORE else None
    if key != _STORE or url == parts.settings.store_url:
        return 0, None
    left = _leave(parts, check=check)
    return left, parts.has_content(url) if check and isinstance(url, str) else None


def _leave(parts: SettingParts, *, check: bool) -> int:
    """How many open tasks stay in the present database."""
    check_leave(daemon_runs=_daemon_runs(parts), live_runs=0)
    try:
        store = parts.existing_store
    except DatabaseMoved:
        return 0
    except (
        DatabaseUnusable,
        SettingsError,
    ) as problem:  # also where the driver is missing, or does not understand the URL
        if not check:
            return 0
        problem.hint = (
            f"{problem.hint} Running agents there would lose their daemon; --no-check leaves it all the same.".strip()
        )
        raise
    if store is None:
        return 0
    node = parts.known_node
    live, counts = store.read(lambda tx: (tx.runs.live(node), tx.tasks.counts()))
    check_leave(daemon_runs=False, live_runs=0 if node is None and store.is_shared else len(live))
    return sum(count for state, count in counts.items() if state not in FINAL_TASK_STATES)


def _daemon_runs(parts: SettingParts) -> bool:
    """Whether a daemon runs here; one that cannot be seen does not."""
    try:
        return parts.daemon_host.info() is not None
    except (WatchkeeperError, OSError):
        return False
