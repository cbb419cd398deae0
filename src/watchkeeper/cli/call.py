"""What a command gets: the environment it was called in, the joined parts, and the terminal."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.cli.render import Terminal, clean
from watchkeeper.errors import NoDatabase, NoSuchTask, SettingsError, StateDirectoryUnusable
from watchkeeper.ports.service import inside_agent

if TYPE_CHECKING:
    from watchkeeper.compose import Watchkeeper
    from watchkeeper.domain.task_record import Task
    from watchkeeper.ports.runtime import Runtime
    from watchkeeper.ports.store import Store

NOTHING_YET = 'No tasks yet. `wk run "…"` hands one over; `wk demo` shows the whole way without any model.'


class Call:
    """One call of `wk`."""

    def __init__(self, environ: Mapping[str, str], cwd: Path, terminal: Terminal, *, debug: bool = False) -> None:
        """Nothing is opened yet."""
        self.environ = environ
        self.cwd = cwd
        self.terminal = terminal
        self.debug = debug
        self.flags: Mapping[str, object] = {}
        """Settings that the command line sets, by their keys; looked at when the parts are joined."""
        self.settings_from = cwd
        """In which directory the settings are looked for."""
        self.heeds_repository = False
        """Whether the repository's file counts, and every setting must be right. Looking and ending must work whatever somebody wrote there."""
        self._warned = False

    @cached_property
    def reading(self) -> "Watchkeeper":
        """The parts, for looking only. Raises SettingsError."""
        return self._open(writes=False)

    @cached_property
    def writing(self) -> "Watchkeeper":
        """The parts, for changing something; what is missing is created when it is first used. Raises SettingsError."""
        return self._open(writes=True)

    def _open(self, *, writes: bool) -> "Watchkeeper":
        """What must always work passes over what is wrong in the settings, and says so once."""
        from watchkeeper.compose import Watchkeeper

        wrong: list[SettingsError] = []
        parts = Watchkeeper.open(
            self.settings_from, self.environ, self.flags, writes=writes, repository=self.heeds_repository,
            passed_over=None if self.heeds_repository else wrong,
        )  # fmt: skip
        if wrong and not self._warned:
            more = f" (and {len(wrong) - 1} more: wk config show)" if len(wrong) > 1 else ""
            self.terminal.note(f"wk: Passed over in your settings: {self.terminal.conceal(clean(str(wrong[0])))}{more}")
        self._warned = self._warned or bool(wrong)
        return parts

    @property
    def has_state(self) -> bool:
        """Whether there is a state directory, wherever the database is. Raises StateDirectoryUnusable."""
        try:
            _ = self.reading.state
        except StateDirectoryUnusable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return False
            raise
        return True

    @property
    def store(self) -> "Store | None":
        """The database, or None if nothing was ever written. Raises StateError."""
        try:
            return self.reading.store
        except NoDatabase:
            return None
        except StateDirectoryUnusable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def find(self, typed: str) -> "tuple[Store, str]":
        """The database, and the whole id of the task that was meant.

        Raises:
            NoSuchTask: there is none.
            AmbiguousId: there are several.
        """
        from watchkeeper.app.views.lookup import resolve

        store = self.store
        if store is None:
            raise NoSuchTask(f"There is no task '{clean(typed)[:64]}', nor any other.", hint=NOTHING_YET)
        return store, store.read(lambda tx: resolve(tx, typed))

    def runtime(self) -> "Runtime":
        """The runtime, for looking at evidence."""
        return self.reading.runtime

    def has_seen(self, task: "Task") -> None:
        """Record that a person has looked at a task as it was shown, if it failed. An agent's look does not count; nothing fails because of this."""
        if not self.inside_agent:
            from watchkeeper.app.see import see

            see(lambda: self.reading.store, lambda: self.reading.clock, task)

    @property
    def inside_agent(self) -> bool:
        """Whether an agent of ours calls."""
        return inside_agent(self.environ)

    @property
    def person(self) -> str:
        """Who calls, for the record."""
        import getpass

        try:
            return getpass.getuser()
        except (KeyError, OSError):
            return "somebody"
