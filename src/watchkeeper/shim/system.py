"""What the shim needs of the kernel: signals, locks, identity, the subreaper, holes in files, and time that counts sleep."""

import errno
import fcntl
import os
import sys
import time

from . import libc

TYPE_CHECKING = False  # `typing` takes longer to import than all of this program
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Iterable
else:
    # The C module under `signal`. That one wraps every number in an enum, which costs a fifth of the start.
    import _signal

SIGCHLD = int(_signal.SIGCHLD)
SIGCONT = int(_signal.SIGCONT)
SIGHUP = int(_signal.SIGHUP)
SIGINT = int(_signal.SIGINT)
SIGKILL = int(_signal.SIGKILL)
SIGSTOP = int(_signal.SIGSTOP)
SIGTERM = int(_signal.SIGTERM)
SIGUSR1 = int(_signal.SIGUSR1)

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_FALLOC_KEEP_SIZE_AND_PUNCH_HOLE = 1 | 2
_STAT_FIELDS = 20
_ARGUMENTS_START = 45
"""Where `arg_start` is among the fields that follow the command's name in /proc/PID/stat."""


# Signals


def signal_number(name: str) -> int | None:
    """The number of a signal by its name without SIG, such as INT; None if there is none."""
    number = getattr(_signal, f"SIG{name}", None)
    return int(number) if isinstance(number, int) and not name.startswith("_") else None


def wake_on(numbers: "Iterable[int]") -> int:
    """From now on these signals only make the returned descriptor readable: it gives their numbers as bytes."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    for number in numbers:
        _signal.signal(number, _ignore)
    for number in (SIGHUP, SIGINT):
        # A shim has no terminal and no parent that signals it. These signals are meant for another process.
        _signal.signal(number, _signal.SIG_IGN)
    _signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    allow_signals()
    return reader


def _ignore(_number: int, _frame: object) -> None:
    """The wake-up descriptor reports it."""


def block_signals() -> None:
    """Hold back every signal, so that between fork and exec none meets a handler that is not the child's."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, _signal.valid_signals())


def allow_signals() -> None:
    """Hold back none, whatever we inherited."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def reset_signals() -> None:
    """Give every signal its default meaning and let them come; what Python ignores for itself (PIPE) is not for an agent to inherit."""
    _signal.set_wakeup_fd(-1)
    for number in _signal.valid_signals():
        if number not in {SIGKILL, SIGSTOP}:
            try:
                _signal.signal(number, _signal.SIG_DFL)
            except (OSError, ValueError):
                continue  # reserved by the C library
    allow_signals()


def signal_through_pidfd(pid: int, ticks: int, number: int) -> None:
    """Signal the process that has this pid and this start time, and no other. Raises ProcessLookupError, OSError."""
    fd = os.pidfd_open(pid)
    try:
        if start_ticks(pid) != ticks:
            raise ProcessLookupError(errno.ESRCH, "it is another process by now")
        _signal.pidfd_send_signal(fd, number)
    finally:
        os.close(fd)


# Who is who


def take_lock(directory: int) -> int | None:
    """Take the execution's lock for life; None if another shim holds it. The kernel drops it however we die. Raises OSError."""
    fd = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
    try:
        # struct flock: l_type, l_whence, padding, l_start and l_len 0 for the whole file, l_pid 0.
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, fcntl.F_WRLCK.to_bytes(2, sys.byteorder) + bytes(30))
    except (BlockingIOError, PermissionError):
        os.close(fd)
        return None
    return fd


def boot_id() -> str:
    """Which boot this is; empty where the system does not tell."""
    return _read("/proc/sys/kernel/random/boot_id").strip()


def pid_namespace() -> str:
    """In which pid namespace pids are meant; empty where the system does not tell."""
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - pathlib would cost start-up time
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, 8192).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def stat(pid: int) -> tuple[str, int, int] | None:
    """State, parent and start ticks of a process, or None if there is none. The command may hold blanks and brackets, so fields count from the last `)`."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (fields[0], int(fields[1]), int(fields[19])) if len(fields) >= _STAT_FIELDS else None


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 where the system does not tell."""
    found = stat(pid)
    return found[2] if found is not None else 0


def command(pid: int, longest: int = 200) -> str:
    """A process's command line, for people."""
    return _read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()[:longest]


# What only the C library gives


def become_subreaper() -> bool:
    """Have every orphan below us become our child; False where the system cannot."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int) -> bool:
    """Have the kernel send this signal to us when our parent dies; survives exec, unless the program is set-uid."""
    return _prctl(_PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> bool:
    return libc.call("prctl", option, value, 0, 0, 0)[0] == 0


def punch_hole(fd: int, start: int, length: int) -> None:
    """Give a range of a file back to the disk; its size and all offsets stay. Raises OSError."""
    result, number = libc.call("fallocate", fd, _FALLOC_KEEP_SIZE_AND_PUNCH_HOLE, start, length)
    if result != 0:
        raise OSError(number, os.strerror(number))


# What we are called


def set_title(title: bytes) -> None:
    """Set the name in process lists: the first word alone, and the whole title. A failure is harmless.

    The words that we were started with are overwritten where they are; the kernel shows what is there.
    """
    try:
        fields = _read("/proc/self/stat").rpartition(")")[2].split()
        start, end = int(fields[_ARGUMENTS_START]), int(fields[_ARGUMENTS_START + 1])
        words = title.replace(b" ", b"\0", 1)[: end - start - 1]
        for path, data, at in (
            ("/proc/self/comm", title.partition(b" ")[0], 0),
            ("/proc/self/mem", words.ljust(end - start, b"\0"), start),
        ):
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.lseek(fd, at, os.SEEK_SET)
                os.write(fd, data)
            finally:
                os.close(fd)
    except (OSError, ValueError, IndexError):
        pass


# Faults


def describe(problem: BaseException) -> str:
    """What went wrong and where, without `traceback`: when it is needed, the Python that we were started from may be gone."""
    at, places = problem.__traceback__, list[str]()
    while at is not None:
        places.append(f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}")
        at = at.tb_next
    return f"{type(problem).__name__}: {problem} ({' > '.join(places)})"


# Time


def boottime() -> float:
    """Seconds since boot, time asleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def now() -> str:
    """The time of day in UTC, ISO 8601, without the cost of importing datetime."""
    whole, fraction = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{fraction // 1000:06d}+00:00"
