"""What this machine gives, whatever the database: the state directory, its clocks, its sockets, its one daemon. `parts` joins the rest to it."""

import os
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.errors import SettingsError
from watchkeeper.settings import Settings, user_file

if TYPE_CHECKING:
    from watchkeeper.ports.clock import Clock, ClockMemory
    from watchkeeper.ports.service import DaemonHost
    from watchkeeper.ports.unit import Unit
    from watchkeeper.runtimes.settings_file import SettingsFile
    from watchkeeper.runtimes.state_directory import StateDirectory


class ThisMachine:
    """Each part is made when it is first asked for."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], *, writes: bool) -> None:
        """`writes`: the state directory is created if it is missing."""
        self.settings = settings
        self.environ = environ
        self._writes = writes
        self._nofile: int | None = None

    @cached_property
    def state(self) -> "StateDirectory":
        """The state directory. Raises StateDirectoryUnusable."""
        from watchkeeper.runtimes.state_directory import StateDirectory, locate

        # A machine with a shared database has everything to look at before anything was kept here.
        return StateDirectory.open(locate(self.environ), create=self._writes or self.settings.store_url is not None)

    @property
    def node(self) -> str:
        """The id of this machine, whether or not others share the database. Raises StateDirectoryUnusable."""
        return self.state.node()

    @property
    def known_node(self) -> str | None:
        """The id of this machine; None if nothing has run here yet. Raises StateDirectoryUnusable."""
        return self.state.known_node()

    def settings_file(self) -> "SettingsFile":
        """The user's own settings, for changing them. Raises SettingsError where there is no home."""
        from watchkeeper.runtimes.settings_file import SettingsFile

        path = user_file(self.environ)
        if path is None:
            raise SettingsError("There is no place for your settings: HOME is not set.", hint="Set it.")
        return SettingsFile(path)

    @property
    def state_path(self) -> Path:
        """Where the state directory is, whether it is there or not. Raises StateDirectoryUnusable."""
        from watchkeeper.runtimes.state_directory import locate

        return locate(self.environ)

    @cached_property
    def host_name(self) -> str:
        """What people call this machine."""
        return os.uname().nodename

    @cached_property
    def system_clock(self) -> "Clock":
        """The clocks of this machine."""
        from watchkeeper.runtimes.system import SystemClock

        return SystemClock()

    @cached_property
    def sockets(self) -> Path:
        """The directory of our sockets."""
        from watchkeeper.runtimes.sockets import socket_directory

        return socket_directory(self.state.path)

    @property
    def wake_address(self) -> Path:
        """Where the daemon listens for hints."""
        return self.sockets / "wake.sock"

    def clear_sockets(self) -> int:
        """Remove sockets without a listener, and directories of earlier versions for them; returns how many. Raises OSError."""
        from watchkeeper.runtimes.dead_sockets import clear

        return clear(self.sockets, self.environ)

    def left_over_sockets(self) -> int:
        """How many socket directories of earlier versions are unused. Looks only."""
        from watchkeeper.runtimes.dead_sockets import left_over

        return sum(1 for _ in left_over(self.environ, time.time()))

    @cached_property
    def clock_memory(self) -> "ClockMemory":
        """What the clocks of this machine said. Raises StateDirectoryUnusable."""
        from watchkeeper.runtimes.clock_file import ClockFile

        return ClockFile(self.state.path)

    @cached_property
    def daemon_host(self) -> "DaemonHost":
        """The one daemon of this state directory, from outside and from inside."""
        from watchkeeper.runtimes.daemon_host import LocalDaemonHost

        return LocalDaemonHost(self.state.path, lambda: self.wake_address, self.environ)

    @cached_property
    def unit(self) -> "Unit":
        """The daemon as a service of the user's systemd. Raises StateDirectoryUnusable."""
        from watchkeeper.runtimes.state_directory import is_usual
        from watchkeeper.runtimes.systemd import SystemdUnit

        path = self.state.path
        return SystemdUnit(path, self.environ, usual=is_usual(path, self.environ))

    def login(self, argv: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run an agent program's own login on the terminal; its exit code."""
        from watchkeeper.harnesses.sign_in import run_login

        return run_login(argv, environment)

    def notify_parent(self, word: str) -> None:
        """Report to the process that started this daemon that it is ready, or why not."""
        from watchkeeper.runtimes.daemon_host import notify_parent

        notify_parent(word)
