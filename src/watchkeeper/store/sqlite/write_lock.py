"""Whose turn it is to write: an exclusive `flock` that every writer takes before it begins its transaction.

SQLite alone lets writers barge: with a few at once one may wait a second while another commits thousands of times. Here they queue in the kernel, and who
waits too long can name the holder, because a holder writes its name into the file. A holder that itself waits for a program that takes no turns says that, too,
so that it is not taken for the culprit. The database stays correct without the write lock; it is about fairness.

    try at once ──got it──▶ hold
        └─taken──▶ a thread waits in the kernel, in line; we wait for the thread, so Ctrl-C works and the wait is bounded
                      └─given up──▶ the thread lets go again as soon as it gets the lock

While it is held SIGTSTP is blocked: Ctrl-Z in the middle of a commit would stop every other writer until `fg`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from watchkeeper.errors import DatabaseBusy, DatabaseUnusable

if TYPE_CHECKING:
    import signal

WAIT_S = 10.0
"""How long a writer waits for its turn; transactions take milliseconds."""

_LABEL_BYTES = 96
_WAITS = " waits"
_PLAIN_WORD = r"[a-z][a-z-]{0,19}"


def _label(*, waits: bool = False) -> bytes:
    """Who holds it, in a fixed length: pid, program and verb, never a typed argument. `waits`: for a program that takes no turns."""
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    program = "wk" if program == "__main__.py" else program
    verb = sys.argv[1] if len(sys.argv) > 1 and re.fullmatch(_PLAIN_WORD, sys.argv[1]) else ""
    if (program, *sys.argv[1:3]) == ("wk", "daemon", "run"):
        program, verb = "wk-daemon", ""
    room = _LABEL_BYTES - 1 - len(_WAITS)
    detail = f"{os.getpid()} {program} {verb}".strip().encode("utf-8", "replace")[:room]
    return (detail + (_WAITS.encode() if waits else b"")).ljust(_LABEL_BYTES - 1) + b"\n"


class _Waiter:
    """A place in the kernel's line for the lock, held by a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mutex = threading.Lock()
        self._done = threading.Event()
        self._given_up = False
        self._fd: int | None = None
        self._error: OSError | None = None
        threading.Thread(target=self._stand, name="write.lock", daemon=True).start()

    def _stand(self) -> None:
        fd: int | None = None
        try:
            fd = _open(self._path)
            fcntl.flock(fd, fcntl.LOCK_EX)
        except OSError as error:
            self._error = error
        with self._mutex:
            if self._error is None and not self._given_up:
                self._fd = fd
            elif fd is not None:
                os.close(fd)
        self._done.set()

    def wait(self, wait_s: float) -> int | None:
        """The locked descriptor, or None after `wait_s`. Raises OSError."""
        try:
            _ = self._done.wait(wait_s)
        except BaseException:  # Ctrl-C: leave the line, and raise it again
            fd = self._leave()
            if fd is not None:
                os.close(fd)
            raise
        fd = self._leave()
        if self._error is not None:
            raise self._error
        return fd

    def _leave(self) -> int | None:
        with self._mutex:
            self._given_up = True
            return self._fd


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


class WriteLock:
    """The write lock of one store. Not for two threads at once; between processes it orders the writers."""

    def __init__(self, path: Path, wait_s: float = WAIT_S) -> None:
        """Use the file `path`, which is made when it is first needed; wait at most `wait_s` seconds for a turn."""
        self._path = path
        self.wait_s = wait_s
        self._fd: int | None = None
        self._mask: set[int | signal.Signals] | None = None
        self._has_turn = False
        self._waits = False

    def __enter__(self) -> Self:
        """Take a turn.

        Raises:
            DatabaseBusy: another process holds it for too long.
            DatabaseUnusable: the file cannot be opened.
        """
        import signal  # noqa: PLC0415 - who only reads takes no turns

        self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP}))
        try:
            self._take()
        except OSError as error:
            self._unmask()
            raise DatabaseUnusable(
                f"'{self._path}' cannot be opened ({error.strerror}).",
                hint="Look at the permissions of the state directory, and whether its disk is full or read-only.",
            ) from error
        except BaseException:
            self._unmask()
            raise
        self._has_turn = True
        return self

    def __exit__(self, *_: object) -> None:
        """Let the next one in."""
        self._has_turn = False
        try:
            if self._fd is not None:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._unmask()

    def close(self) -> None:
        """Let go of the file."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def __del__(self) -> None:
        """Close the file of a store that was dropped without `close`; a bare descriptor would stay open for as long as the process lives."""
        self.close()

    def _take(self) -> None:
        if self._fd is None:
            self._fd = _open(self._path)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fd = _Waiter(self._path).wait(self.wait_s)
            if fd is None:
                raise self._busy() from None
            self.close()
            self._fd = fd
        self._say(waits=False)

    def _say(self, *, waits: bool) -> None:
        self._waits = waits
        if self._fd is not None:
            with contextlib.suppress(OSError):  # a full disk must not keep a process from taking turns
                _ = os.pwrite(self._fd, _label(waits=waits), 0)

    def waits(self) -> None:
        """We wait for a program that takes no turns. Where it is not our turn nothing is said."""
        if self._has_turn and not self._waits:
            self._say(waits=True)

    def goes_on(self) -> None:
        """What we waited for is there."""
        if self._waits:
            self._say(waits=False)

    def _busy(self) -> DatabaseBusy:
        holder = ""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                holder = os.pread(self._fd, _LABEL_BYTES, 0).decode("utf-8", "replace").strip("\x00 \n")
        named = holder.removesuffix(_WAITS)
        pid, _, command = named.partition(" ")
        who = f"process {pid} ({command})" if command and _is_there(pid) else ""
        if who and named != holder:
            return DatabaseBusy(
                f"The database is held by another program for more than {self.wait_s:g} s; {who} waits for it, too.",
                hint="Nothing was changed. Close what else has it open (a database browser, a backup), and try again.",
            )
        return DatabaseBusy(
            f"The database is held by {who or 'another process'} for more than {self.wait_s:g} s.",
            hint="Nothing was changed. Try again; if that process is suspended (Ctrl-Z), resume it (fg).",
        )

    def _unmask(self) -> None:
        import signal  # noqa: PLC0415 - as above

        mask, self._mask = self._mask, None
        if mask is not None and signal.SIGTSTP not in mask:
            _ = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})


def _is_there(pid: str) -> bool:
    """Whether there is such a process, where that can be told: the name of one that was killed stays until the next one takes a turn."""
    processes = Path("/proc")
    return pid.isdecimal() and ((processes / pid).exists() or not (processes / "self").exists())
