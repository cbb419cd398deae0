"""What a command gets: the environment it was called in, the joined parts, and the terminal."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.cli.render import Terminal, clean
from watchkeeper.errors import NoDatabase, NoSuchTask, SettingsError, StateDirectoryUnusable, UsageError
from watchkeeper.ports.service import inside_agent

if TYPE_CHECKING:
    from watchkeeper.compose import Watchkeeper
    from watchkeeper.domain.inheritance import Inheritance
    from watchkeeper.domain.task_record import Task
    from watchkeeper.domain.working_directory import WorkingDirectory
    from watchkeeper.ports.runtime import Runtime
    from watchkeeper.ports.store import Store
    from watchkeeper.ports.workspace import Checkout

NOTHING_YET = 'No tasks yet. `wk run "…"` hands one over; `wk demo` shows the whole way without any model.'


class Call:
    """One call of `wk`."""

    def __init__(
        self,
        environ: Mapping[str, str],
        cwd: Path | None,
        terminal: Terminal,
        *,
        debug: bool = False,
        umask: int | None = None,
    ) -> None:
        """Nothing is opened yet.

        Args:
            environ: the caller's environment.
            cwd: None where the directory of the caller was deleted; most commands do not need one.
            terminal: where people read.
            debug: show where an error comes from.
            umask: the caller's; None: this process still has it.
        """
        self.environ = environ
        self._cwd = cwd
        self.terminal = terminal
        self.debug = debug
        self.umask = umask
        self._places: dict[str, WorkingDirectory | None] = {}
        self._checkouts: dict[str, Checkout | None] = {}
        self.flags: Mapping[str, object] = {}
        """Settings that the command line sets, by their keys; looked at when the parts are joined."""
        self.settings_from = cwd or Path("/")
        """In which directory the settings are looked for."""
        self.heeds_repository = False
        """Whether the repository's file counts, and every setting must be right. Looking and ending must work whatever somebody wrote there."""
        self._warned = False
        self._opened: list[Watchkeeper] = []
        self.names_damage = False
        """The command itself says which records cannot be read."""

    @property
    def cwd(self) -> Path:
        """The directory of the caller. Raises UsageError where it was deleted."""
        if self._cwd is None:
            raise UsageError("The directory you are in was deleted.", hint="`cd` to one that exists.")
        return self._cwd

    def named(self, file: Path) -> Path:
        """A file that was named on the command line, from the root. Raises UsageError where that takes the caller's directory, and it was deleted."""
        return file if file.is_absolute() else self.cwd / file

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
        parts.on_slow = lambda sentence: self.terminal.note(f"wk: {self.terminal.conceal(clean(sentence))}")
        if self._opened:
            parts.harnesses = self._opened[0].harnesses  # so that a program is asked once for its version
        self._opened.append(parts)
        return parts

    @cached_property
    def inherited(self) -> "Inheritance":
        """What an agent inherits from the caller, beside the environment."""
        from watchkeeper.environment import inherited

        return inherited(self.umask)

    def checkout(self, directory: str) -> "Checkout | None":
        """The checkout that a directory is in; git is asked once in a call, however many tasks are handed over."""
        if directory not in self._checkouts:
            self._checkouts[directory] = self.reading.workspace.checkout(directory)
        return self._checkouts[directory]

    def place(self, directory: str, machine: str) -> "WorkingDirectory | None":
        """Which directory that is, and what is checked out there: one look in a call, however many tasks are handed over. `machine`: the id of this one."""
        from dataclasses import replace

        if directory not in self._places:
            found = self.reading.workspace.identify(directory)
            self._places[directory] = None if found is None else replace(found, machine=machine)
        return self._places[directory]

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

    def tell_damage(self) -> None:
        """Say on the error output that records were met that cannot be read, so that no list looks whole that is not."""
        met = [each for parts in self._opened for each in parts.met.all()]
        if met and not self.names_damage:
            more = f" and {len(met) - 1} more" if len(met) > 1 else ""
            about = f" of task {met[0].task_id}" if met[0].task_id else ""
            self.terminal.note(
                f"wk: A record of the database cannot be read and was passed over: {clean(met[0].name)}{about}{more}. See: wk store repair"
            )

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
