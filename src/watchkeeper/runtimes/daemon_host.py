"""The daemon's lock, record, inbox and start.

`daemon.lock` is an OFD lock held for life: whether a daemon runs is asked of the kernel, not of a record. `daemon.json` only says who it is, and is believed
only while the lock is held and the process it names is the one it says.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, cast

from watchkeeper.crash import crashpoint
from watchkeeper.domain.lock_state import LockState
from watchkeeper.errors import DaemonError, describe_os_error
from watchkeeper.ports.service import DaemonInfo, DaemonRequest, LastWords, SpawnAnswer
from watchkeeper.runtimes import atomic, proc
from watchkeeper.runtimes.locks import HeldLock, hold_lock, probe
from watchkeeper.runtimes.state_directory import HOME

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from watchkeeper.ports.service import Inbox

READY_FD = "WATCHKEEPER_READY_FD"
"""Names the descriptor on which a starting daemon says `ready`, or its one sentence on why not."""

_LOCK = "daemon.lock"
_RECORD = "daemon.json"
_LAST_WORDS = "daemon-ended.json"
_PASSED_ON = ("HOME", "PATH", "LANG", "LC_ALL", "USER", "LOGNAME", "TZ", "TMPDIR")
_NEVER_PASSED = ("WATCHKEEPER_RUN", "WATCHKEEPER_EXECUTION")
_PASSED_PREFIXES = ("XDG_", "WATCHKEEPER_", "PYTHON", "PG")
"""PG…: how the driver of PostgreSQL finds server and password. Agents get none of them."""
_POLL_S = 0.02
_STOPPED = frozenset({"T", "t"})
"""What `/proc` says of a process that a signal or a debugger has stopped."""


class LocalDaemonHost:
    """The daemon of a state directory on this machine."""

    def __init__(self, state: Path, wake: Callable[[], Path], environ: Mapping[str, str]) -> None:
        """`wake` tells where a daemon that we would start listens; a running one says so itself."""
        self._state = state
        self._wake = wake
        self._environ = environ
        self._held: _Held | None = None

    def is_held(self) -> bool:
        """Whether the lock is held."""
        return probe(self._state / _LOCK) is LockState.HELD

    def info(self) -> DaemonInfo | None:
        """Who holds the lock, if the record names a living process that is who it says."""
        if not self.is_held():
            return None
        info = self._read()
        stat = None if info is None else proc.stat_of(info.pid)
        if info is None or stat is None or not stat.alive or stat.start_ticks != info.start_ticks:
            return None
        return info._replace(frozen=stat.state in _STOPPED)

    @contextmanager
    def hold(self, info: DaemonInfo) -> Generator[None]:
        """Take the lock and write the record. Raises DaemonError if another process holds it."""
        lock = hold_lock(self._state / _LOCK)
        if lock is None:
            raise DaemonError(
                "A daemon for this state directory is running already.", hint="`wk daemon status` shows it."
            )
        # By descriptor, so that what we write is written there even if the directory is moved.
        held = _Held(lock, atomic.open_directory(self._state.resolve()), info.pid)
        try:
            self._held = held
            lost = self.lost()
            if lost:
                raise DaemonError(lost, hint="Start it again: wk daemon start")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_LAST_WORDS, dir_fd=held.directory)
            self.describe(info)
            yield
        finally:
            held.forget_record()
            self._held = None
            os.close(held.directory)
            lock.close()

    @contextmanager
    def keep_away(self) -> Generator[None]:
        """Take the lock without a record. Raises DaemonError if another process holds it."""
        lock = hold_lock(self._state / _LOCK)
        if lock is None:
            raise DaemonError("The daemon runs: nothing was changed.", hint="`wk daemon stop` first; agents continue.")
        try:
            yield
        finally:
            lock.close()

    def lost(self) -> str:
        """Compare the lock file and the directory at our path with those that we hold."""
        held = self._held
        if held is None:
            return "This process is not the daemon."
        try:
            found = self._state.stat()
        except (FileNotFoundError, NotADirectoryError):
            return f"The state directory {self._state} was moved or deleted."
        mine = os.fstat(held.directory)
        if (found.st_dev, found.st_ino) != (mine.st_dev, mine.st_ino):
            return f"Another directory has taken the place of the state directory {self._state}."
        if not held.lock.is_named(self._state / _LOCK):
            return f"The daemon's lock file {self._state / _LOCK} was deleted or replaced, so it keeps no other daemon away."
        return ""

    def leave_words(self, words: LastWords) -> None:
        """Write them into the directory that we hold, wherever it is now."""
        held = self._held
        if held is not None:
            record = {"pid": words.pid, "at": words.at.isoformat(), "detail": words.detail}
            atomic.replace(held.directory, _LAST_WORDS, atomic.encode(record), point="daemon.ended")

    def last_words(self) -> LastWords | None:
        """Read them."""
        from watchkeeper.domain import former_names  # noqa: PLC0415 - lists do not need it

        try:
            with atomic.directory(self._state.resolve()) as fd:
                stored = cast("object", json.loads(atomic.read_limited(fd, _LAST_WORDS, 65536)))
            if not isinstance(stored, dict):
                return None
            record = former_names.fields(cast("dict[str, object]", stored))
            at = datetime.fromisoformat(str(record["at"]))
            return LastWords(pid=int(cast("int", record["pid"])), at=at, detail=str(record["detail"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def describe(self, info: DaemonInfo) -> None:
        """Write the record. Raises OSError."""
        held = self._held
        if held is None or self.lost():
            return  # there may be another daemon's record
        record = {
            "pid": info.pid,
            "start_ticks": info.start_ticks,
            "boot_id": info.boot_id,
            "started_at": info.started_at.isoformat(),
            "incarnation": info.incarnation,
            "version": info.version,
            "wake": info.wake,
            "ending": info.ending,
            "store": info.store,
            "trouble": info.trouble,
        }
        atomic.replace(held.directory, _RECORD, atomic.encode(record), point="daemon.record")

    def listen(self) -> Inbox:
        """Bind the inbox."""
        from watchkeeper.runtimes.inbox import DatagramInbox  # noqa: PLC0415 - only a daemon listens
        from watchkeeper.runtimes.sockets import ensure_socket_directory  # noqa: PLC0415 - as above

        address = self._wake()
        ensure_socket_directory(address.parent)
        return DatagramInbox(address)

    def send(self, request: DaemonRequest) -> bool:
        """Send a datagram to where the running daemon says it listens."""
        import socket  # noqa: PLC0415 - commands that only look send nothing

        from watchkeeper.runtimes.sockets import reach  # noqa: PLC0415 - as above

        info = self._read()
        address = info.wake if info is not None else str(self._wake())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
            try:
                with reach(address) as name:
                    _ = out.sendto(request.value.encode("ascii"), name)
            except BlockingIOError:
                if request is not DaemonRequest.LOOK:
                    return False  # full of hints: a hint more is not needed, an order would be lost
            except OSError:
                return False
        # Anyone of our user may listen at an address, and a daemon that lost its lock may still do so.
        return self.is_held()

    def spawn(self, within_s: float) -> SpawnAnswer:
        """Start `wk daemon run` in a session of its own, with an environment that holds nothing of the caller's secrets."""
        import subprocess  # noqa: PLC0415 - most commands find a daemon

        reader, writer = os.pipe()
        try:
            log = os.open(self._state / "daemon.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                crashpoint("daemon.spawn.before")
                process = subprocess.Popen(
                    [sys.executable, "-m", "watchkeeper", "daemon", "run"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env={**self._environment(), READY_FD: str(writer)},
                    pass_fds=(writer,),
                    start_new_session=True,
                )
                crashpoint("daemon.spawn.after")
            finally:
                os.close(log)
        except OSError as error:
            os.close(reader)
            what = error.filename or "the daemon"
            msg = f"The daemon could not be started ({what}: {describe_os_error(error)})."
            raise DaemonError(msg, hint="When that is mended: `wk daemon start`.") from error
        finally:
            os.close(writer)
        try:
            return self._heard(reader, within_s)
        finally:
            os.close(reader)
            process.returncode = 0  # it is not ours to wait for: it outlives us

    def _heard(self, reader: int, within_s: float) -> SpawnAnswer:
        """What the new daemon said. A closed pipe without a word means that it died before it could speak."""
        import select  # noqa: PLC0415 - as in `spawn`

        poller = select.poll()
        poller.register(reader, select.POLLIN | select.POLLHUP)
        if not poller.poll(within_s * 1000):
            return SpawnAnswer.STARTING
        word = os.read(reader, 4096).decode("utf-8", "replace").strip()
        if word == "ready":
            return SpawnAnswer.READY
        if self.is_held():
            return SpawnAnswer.ALREADY
        raise DaemonError(
            word or "The daemon ended while it started.", hint=f"Its log is {self._state / 'daemon.log'}."
        )

    def kill(self) -> bool:
        """SIGKILL the recorded daemon through a checked pidfd."""
        import signal  # noqa: PLC0415 - nothing else here sends any

        info = self.info()
        if info is None:
            return False
        found = proc.signal_checked(info.pid, info.start_ticks, info.boot_id, signal.SIGKILL)
        return found is proc.SignalResult.REACHED and self.wait_gone(5.0)

    def wait_gone(self, within_s: float) -> bool:
        """Poll the lock; the kernel has no event for it."""
        deadline = time.monotonic() + within_s
        while self.is_held():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _environment(self) -> dict[str, str]:
        """Agents get their own captured environment; the daemon needs only to find its files and programs.

        It begins in `/`, so the state directory is named in full, however the caller named it.
        """
        passed = {
            name: value
            for name, value in self._environ.items()
            if (name in _PASSED_ON or name.startswith(_PASSED_PREFIXES)) and name not in _NEVER_PASSED
        }
        return {**passed, HOME: str(self._state.absolute())}

    def _read(self) -> DaemonInfo | None:
        try:
            with atomic.directory(self._state.resolve()) as fd:
                return _read_record(fd)
        except OSError:
            return None


class _Held:
    """What a daemon holds for life."""

    def __init__(self, lock: HeldLock, directory: int, pid: int) -> None:
        self.lock = lock
        self.directory = directory
        self._pid = pid

    def forget_record(self) -> None:
        """Remove the daemon's record if it is ours: where the lock file was deleted, it may be another one's."""
        with contextlib.suppress(OSError):
            info = _read_record(self.directory)
            if info is None or info.pid == self._pid:
                os.unlink(_RECORD, dir_fd=self.directory)


def _read_record(fd: int) -> DaemonInfo | None:
    try:
        return _parse(atomic.read_limited(fd, _RECORD, 65536))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _parse(raw: bytes) -> DaemonInfo:
    record = cast("dict[str, object]", json.loads(atomic.unsealed(raw)))
    return DaemonInfo(
        pid=int(cast("int", record["pid"])),
        start_ticks=int(cast("int", record["start_ticks"])),
        boot_id=str(record["boot_id"]),
        started_at=datetime.fromisoformat(str(record["started_at"])),
        incarnation=int(cast("int", record["incarnation"])),
        version=str(record["version"]),
        wake=str(record["wake"]),
        ending=str(record.get("ending", "")),
        store=str(record.get("store", "")),
        trouble=str(record.get("trouble", "")),
    )


def begin_unlimited() -> tuple[int, tuple[str, ...]]:
    """Put off what a daemon inherited from its starter: the limits, and if a command started it the niceness and the weight for the out-of-memory killer.

    Returns the soft limit of open files as it was, and what could not be put off.

    Raises:
        DaemonError: what remains is too little for a daemon to work with.
    """
    from watchkeeper.runtimes.inheritance import put_off  # noqa: PLC0415 - only a daemon does it

    own = put_off(priority=READY_FD in os.environ)
    if own.too_low:
        raise DaemonError(
            f"The daemon cannot work under the limits of this shell: {', '.join(own.too_low)}.",
            hint="Start it from one without them: `wk daemon start`. What was handed over waits until then.",
        )
    return own.nofile, own.kept


def notify_parent(word: str) -> None:
    """Report `ready`, or why not, to the process that started this daemon; does nothing if none waits."""
    fd = os.environ.pop(READY_FD, None)
    if fd is None:
        return
    with contextlib.suppress(OSError, ValueError):
        _ = os.write(int(fd), word.encode("utf-8", "replace"))
        os.close(int(fd))
