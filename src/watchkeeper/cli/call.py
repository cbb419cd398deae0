"""What a command gets: the environment it was called in, the joined parts, and the terminal."""

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper import errors
from watchkeeper.cli.render import Terminal, clean
from watchkeeper.errors import SettingsError, StateDirectoryUnusable, UsageError
from watchkeeper.ports.service import inside_agent

if TYPE_CHECKING:
    from watchkeeper.app.parts import Caller
    from watchkeeper.compose import Watchkeeper
    from watchkeeper.domain.task_record import Task
    from watchkeeper.ports.runtime import Runtime
    from watchkeeper.ports.store import Store

NOTHING_YET = errors.NOTHING_YET


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
        strict: bool = False,
    ) -> None:
        """Nothing is opened yet.

        Args:
            environ: the caller's environment.
            cwd: None where the directory of the caller was deleted; most commands do not need one.
            terminal: where people read.
            debug: show where an error comes from.
            umask: the caller's; None: this process still has it.
            strict: every setting must be right. Without it wrong ones are ignored and named once, because looking and ending must always work.
        """
        self.environ = environ
        self._cwd = cwd
        self.terminal = terminal
        self.debug = debug
        self._umask = umask
        self._strict = strict
        self.settings_from = cwd or Path("/")
        """In which directory the settings are looked for."""
        self._warned = False
        self._opened: list[Watchkeeper] = []
        self.names_damage = False
        """The command itself says which records cannot be read."""

    def strictly(self) -> "Call":
        """The same call, with every setting required to be right."""
        call = Call(self.environ, self._cwd, self.terminal, debug=self.debug, umask=self._umask, strict=True)
        call._opened = self._opened
        return call

    @property
    def cwd(self) -> Path:
        """The directory of the caller. Raises UsageError where it was deleted."""
        if self._cwd is None:
            raise UsageError("The directory you are in was deleted.", hint="`cd` to one that exists.")
        return self._cwd

    def directory(self, typed: str) -> str:
        """A directory that was named on the command line, from the root. Raises UsageError where the caller's directory was deleted."""
        return os.path.abspath(self.cwd / Path(typed).expanduser())  # noqa: PTH100 - resolve() would replace the symlinks that the person named

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

        wrong: list[SettingsError] | None = None if self._strict else []
        parts = Watchkeeper.open(self.settings_from, self.environ, writes=writes, repository=False, passed_over=wrong)
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
    def caller(self) -> "Caller":
        """The person who calls, as use cases take one."""
        from watchkeeper.app.parts import Caller
        from watchkeeper.environment import inherited

        return Caller(by=self.person, environ=self.environ, inherits=inherited(self._umask))

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
        return self.reading.existing_store

    def report_damage(self) -> None:
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
        from watchkeeper.app.views.lookup import find

        task_id = find(self.store, typed)
        return self.reading.store, task_id

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
        """Whether the caller is an agent under Watchkeeper."""
        return inside_agent(self.environ)

    @property
    def person(self) -> str:
        """Who calls, for the record."""
        import getpass

        try:
            return getpass.getuser()
        except (KeyError, OSError):
            return "somebody"
