"""The way from an agent to its logs: a named pipe for each stream, which the agent writes, and a bounded file, which only the supervisor writes.

    agent ──write──▶ stdout.pipe ──splice──▶ stdout.log

A pipe cannot be truncated or sought, so nothing that an agent does to its descriptors reaches what is in the file. The kernel keeps what is in the pipe for as
long as any process has it open, so a shim that is killed loses none of it: the next supervisor continues. And splice(2) moves bytes from pipe to file in one
call, so that being killed between two instructions loses no byte and doubles none.
"""

import errno
import fcntl
import os
import stat

from . import records, system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("stdout", "stderr")
PIPE_MODE = 0o200
"""An agent may open its own output again, to write. To read it would be to take bytes away."""

_SIZES = {"stderr": 16 * 1024}
"""In bytes; smaller than the usual 64 KiB. The kernel lets one user have only so many pages of pipes, and a thousand agents have two thousand pipes."""

_AT_ONCE = 1024 * 1024
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM, errno.EINTR})
"""The file takes more as soon as there is room. Until then the bytes stay in the pipe, and the agent waits when that is full."""

_PATIENCE_S = 10.0
"""After so long a file that takes nothing, for whatever other reason, keeps the agent waiting no longer: what it writes is dropped, and said to be."""


def log_name(stream: str) -> str:
    """The file of a stream."""
    return f"{stream}.log"


def pipe_name(stream: str) -> str:
    """The pipe of a stream."""
    return f"{stream}.pipe"


def open_log(directory: int, stream: str) -> int:
    """The log of a stream, to be written at any place. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(log_name(stream), flags, records.MODE, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", log_name(stream))
    return fd


def make(directory: int, stream: str) -> tuple[int, int]:
    """Make a stream's pipe; returns our end and the agent's. Raises OSError where the file system has no pipes.

    Both ends read and write: ours never sees an end of file, and the agent's is a reader too, so that no process of its tree gets SIGPIPE when we die. They
    are opened one by one, so that an agent that makes its own end non-blocking does not change ours, nor that of its other stream.
    """
    name = pipe_name(stream)
    records.forget(directory, name)
    os.mkfifo(name, records.MODE, dir_fd=directory)
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    ours = os.open(name, flags | os.O_NONBLOCK, dir_fd=directory)
    try:
        agents = os.open(name, flags, dir_fd=directory)
    except OSError:
        os.close(ours)
        raise
    os.fchmod(ours, PIPE_MODE)
    if stream in _SIZES:
        try:  # noqa: SIM105 - contextlib would cost start-up time
            fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, _SIZES[stream])
        except OSError:
            pass  # it is as large as it is
    return ours, agents


class Stream:
    """One pipe and its log, as seen by the process that moves bytes from one to the other."""

    def __init__(self, name: str, pipe: int, log: int, lost: "Callable[[str, int, int], None]") -> None:
        """`name` is the log's; `lost` is called with each range that was not written, or not by us. Raises OSError."""
        self.name = name
        self.pipe = pipe
        self.log = log
        self._lost = lost
        self.end = os.fstat(log).st_size
        """Where the next byte goes."""
        self.problem: OSError | None = None
        """What keeps it from being written; None while nothing does."""
        self.ended = False
        """Whether, at the last look, no process had it open for writing."""
        self._troubled_at = 0.0
        self._splices = hasattr(os, "splice")

    def take(self, most: int | None = None) -> bool:
        """Move what there is, at most as much as the pipe holds or `most` bytes, into the log; False if it is held back: `problem` says why. Never waits."""
        left = capacity(self.pipe) if most is None else most
        size = os.fstat(self.log).st_size
        if size < self.end:
            self._lost(self.name, size, self.end)  # the file itself was cut short
        while left > 0:
            try:
                moved = self._move_or_drop(min(left, _AT_ONCE))
            except BlockingIOError:
                self.ended = False
                break
            if moved is None:
                return False
            self.ended = moved == 0
            if self.ended:
                break
            left -= moved
        self.problem = None
        return True

    def _move_or_drop(self, most: int) -> int | None:
        """Move bytes; 0 when no writer is left, None if they are held back. Raises BlockingIOError when there is nothing now."""
        try:
            return self._move(most)
        except BlockingIOError:
            raise
        except OSError as problem:
            return self._drop(most) if self._give_up(problem) else None

    def _move(self, most: int) -> int:
        if self._splices:
            try:
                moved = os.splice(self.pipe, self.log, most, offset_dst=self.end, flags=os.SPLICE_F_NONBLOCK)
            except OSError as problem:
                if problem.errno not in {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}:
                    raise
                self._splices = False  # a file system without it
                moved = self._copy(most)
        else:
            moved = self._copy(most)
        self.end += moved
        return moved

    def _copy(self, most: int) -> int:
        """The same in two steps: a kill between them loses up to 64 KiB, which nothing can make good."""
        data = os.read(self.pipe, min(most, 65536))
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self.log, data[written:], self.end + written)
        except OSError:
            # They are not in the pipe any more.
            self._lost(self.name, self.end + written, self.end + len(data))
        return len(data)

    def _give_up(self, problem: OSError) -> bool:
        if self.problem is None:
            self._troubled_at = system.boottime()
        self.problem = problem
        return problem.errno not in _NO_ROOM and system.boottime() - self._troubled_at >= _PATIENCE_S

    def _drop(self, most: int) -> int:
        """Take bytes out of the pipe that the log does not take."""
        dropped = len(os.read(self.pipe, min(most, 65536)))
        if dropped:
            self._lost(self.name, self.end, self.end + dropped)
            self.end += dropped
        return dropped


def capacity(pipe: int) -> int:
    """How much a pipe holds at most: whatever was in it when it was asked is among so many bytes."""
    try:
        return fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    except OSError:
        return 65536
