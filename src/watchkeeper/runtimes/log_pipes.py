"""The pipes between agents and their logs, seen from the supervisor.

While a shim lives it alone moves bytes from pipe to log. When it was killed, what is in the pipe lives on for as long as any process has it open:

    the run is seen to live ─▶ hold its pipes open ─▶ the shim dies ─▶ drain while its survivors are ended ─▶ no writer is left ─▶ remove the pipes

So nothing is lost as long as the shim, a daemon or a process of the agent's lives. Where none did, the kernel has thrown away what was in the pipe. Then the
pipes stay in the directory, and that shows that the end of the output may be missing.
"""

import contextlib
import os
import select
import stat
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.runtimes import atomic
from watchkeeper.runtimes.locks import HeldLock, hold_lock
from watchkeeper.shim import pipes
from watchkeeper.shim.output import Output

_LOCK = "drain.lock"
_POLL_MS = 100
_PAUSE_S = 0.02
_ENDING_S = 1.0
"""So long a writer may still be there in the end: the kernel closes the files of a process that was killed one after another, its lock before its pipes."""
_HELD_BACK_S = 10.0
"""So long a log that takes nothing, on a full disk, is waited for in the end. Its run is not settled meanwhile."""


class LogPipes:
    """The pipes of executions. Safe to use from several threads."""

    def __init__(self, *, lingers: bool = True) -> None:
        """Hold none yet. `lingers`: what writes on after everything that could be ended was, is drained for as long as this process lives."""
        self._lingers = lingers
        self._guard = threading.Lock()
        self._held: dict[str, dict[str, int]] = {}
        self._drains: dict[str, _Drain] = {}
        """Those that were begun here and whose runs are still being swept."""

    def hold(self, execution_id: str, directory: int) -> None:
        """Keep an execution's pipes open from now on; twice is fine. Raises OSError."""
        with self._guard:
            if execution_id not in self._held and (ends := _open(directory)):
                self._held[execution_id] = ends

    def release(self, execution_id: str) -> None:
        """Let go of them; twice is fine."""
        with self._guard:
            ends = self._held.pop(execution_id, {})
        _close(ends)

    @contextmanager
    def draining(self, execution_id: str, directory: int, limit: int, may_begin: Callable[[], bool]) -> Generator[None]:
        """While the body ends an agent's survivors, move what they write into its logs, and what is left of it afterwards. Then let go of the pipes.

        Args:
            execution_id: whose pipes.
            directory: the execution directory's descriptor, kept open by the caller.
            limit: how much of each log is kept, in bytes.
            may_begin: whether the shim is known to be dead; asked again and again until it says so. Two that drain would write over one another.

        Raises:
            OSError: the system is in trouble.
        """
        with self._guard:
            other = self._drains.get(execution_id)
            drain = None if other is not None else self._begun(execution_id, directory, limit)
        if drain is None:
            yield
            if other is not None:
                # Two loops may sweep one run. What this one says of the log must not be older than what the other one still moves into it.
                other.wait()
            return
        drain.begin(may_begin)
        try:
            yield
        finally:
            try:
                drain.finish(lingers=self._lingers)
            finally:
                with self._guard:
                    del self._drains[execution_id]

    def _begun(self, execution_id: str, directory: int, limit: int) -> "_Drain | None":
        """A drain of the pipes that were held, or that are opened now; None: there are none, or another process drains them. Raises OSError."""
        known = self._held.pop(execution_id, None)
        ends = _open(directory) if known is None else known
        try:
            lock = hold_lock(Path(f"/proc/self/fd/{directory}") / _LOCK) if ends else None
            drain = None if lock is None else _Drain(os.dup(directory), limit, ends, lock, known=known is not None)
        except OSError:
            _close(ends)
            raise
        if drain is None:
            _close(ends)
        else:
            self._drains[execution_id] = drain
        return drain


class _Drain:
    """Drains on a thread of its own, which owns all that it needs, until it learns that what can be ended has ended."""

    def __init__(self, directory: int, limit: int, ends: dict[str, int], lock: HeldLock, *, known: bool) -> None:
        """`known`: the pipes have been open all the time, so nothing that was in them was lost."""
        self._directory = directory
        self._limit = limit
        self._ends = ends
        self._lock = lock
        self._known = known
        self._lingers = False
        self._over = threading.Event()
        self._settled = threading.Event()
        self._problem: OSError | None = None

    def begin(self, may_begin: Callable[[], bool]) -> None:
        """Drain as soon as that may be."""
        threading.Thread(target=self._run, args=(may_begin,), name="wk-drain", daemon=True).start()

    def wait(self) -> None:
        """Wait until what there is has been moved, or could not be."""
        _ = self._settled.wait()

    def finish(self, *, lingers: bool) -> None:
        """Come back when what there is has been moved. Raises OSError if it could not be."""
        self._lingers = lingers
        self._over.set()
        _ = self._settled.wait()
        if self._problem is not None:
            raise self._problem

    def _run(self, may_begin: Callable[[], bool]) -> None:
        try:
            self._work(may_begin)
        except OSError as problem:
            self._problem = problem
            self._say(f"what this execution prints is not drained any more: {problem}")
        finally:
            _close(self._ends)
            os.close(self._directory)
            self._lock.close()
            self._settled.set()

    def _work(self, may_begin: Callable[[], bool]) -> None:
        while not may_begin():
            if self._over.wait(_PAUSE_S):
                return  # the shim lives, and drains them itself
        output = Output(self._directory, self._limit, self._ends, self._say)
        try:
            self._drain(output)
        finally:
            for log in output.logs.files():
                os.close(log)

    def _drain(self, output: Output) -> None:
        crashpoint("drain.begin.before")
        began = [stream.end for stream in output.streams]
        _ = output.flush()
        # A pipe that was opened only now, which is empty and has no other holder: what was in it is gone.
        lost = not self._known and any(
            stream.ended and stream.end == end for stream, end in zip(output.streams, began, strict=True)
        )
        poller = select.poll()
        for end in self._ends.values():
            poller.register(end, select.POLLIN)
        while not self._over.is_set():
            self._take(output, poller)
        flushed = self._take_all(output)
        until = time.monotonic() + _ENDING_S
        while flushed and not _have_ended(output) and time.monotonic() < until:
            flushed = self._take(output, poller)
        while self._lingers and not (flushed and _have_ended(output)):
            self._settled.set()  # its run is settled without waiting for it
            flushed = self._take(output, poller)
        crashpoint("drain.end.before")
        if flushed and not lost and _have_ended(output):
            output.forget_pipes()
        crashpoint("drain.end.after")

    def _take(self, output: Output, poller: select.poll) -> bool:
        """Move what comes, or wait a little for it; False if a log takes nothing."""
        found = poller.poll(_POLL_MS)
        ready = [end for end, events in found if events & select.POLLIN]
        taken = [output.take(end) for end in ready]
        if found and not (taken and all(taken)):
            time.sleep(_PAUSE_S)  # no writer is left, or a log takes nothing
            return output.flush()
        if found:
            time.sleep(max(output.rest_s(end) for end in ready))  # beyond its limit a log is taken at a bounded pace
        else:
            output.bound()
        return True

    def _take_all(self, output: Output) -> bool:
        """Move what was there when it was over; False if a log does not take it."""
        until = time.monotonic() + _HELD_BACK_S
        while not (flushed := output.flush()) and time.monotonic() < until:
            time.sleep(_PAUSE_S)
        flushed = output.flush() and flushed  # this one sees that nothing more can come
        output.bound()
        return flushed

    def _say(self, sentence: str) -> None:
        """Beside what the dead shim said."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            fd = os.open("shim.err", flags, atomic.FILE_MODE, dir_fd=self._directory)
            try:
                _ = os.write(fd, f"{sentence}\n".encode())
            finally:
                os.close(fd)


def _have_ended(output: Output) -> bool:
    """Whether no process has a pipe open for writing."""
    return all(stream.ended for stream in output.streams)


def are_left(directory: int) -> bool:
    """Whether an execution's pipes are still in its directory. Once it is over, the end of its output may be missing then. Raises OSError."""
    for stream in pipes.NAMES:
        with contextlib.suppress(FileNotFoundError):
            _ = os.stat(pipes.pipe_name(stream), dir_fd=directory, follow_symlinks=False)
            return True
    return False


def _open(directory: int) -> dict[str, int]:
    """Our end of each pipe that is there: none for an execution whose agent writes its logs itself. Raises OSError."""
    ends: dict[str, int] = {}
    try:
        for stream in pipes.NAMES:
            end = _open_one(directory, pipes.pipe_name(stream))
            if end is not None:
                ends[stream] = end
    except OSError:
        _close(ends)
        raise
    return ends


def _open_one(directory: int, name: str) -> int | None:
    try:
        found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return None
    try:
        if not stat.S_ISFIFO(os.fstat(found).st_mode):
            return None
        path = f"/proc/self/fd/{found}"
        # Agents may only write it, so it is made readable for this moment.
        os.chmod(path, 0o600)  # noqa: PTH101 - exactly what was opened, not what has the name now
        try:
            return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        finally:
            os.chmod(path, pipes.PIPE_MODE)  # noqa: PTH101 - as above
    finally:
        os.close(found)


def _close(ends: dict[str, int]) -> None:
    for end in ends.values():
        os.close(end)
