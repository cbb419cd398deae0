"""What the shim needs of the kernel: locks, identity, the subreaper, holes in files, and time that counts sleep."""

import ctypes
import fcntl
import os
import struct
import sys
import time

IS_LINUX = sys.platform == "linux"

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_FALLOC_KEEP_SIZE_AND_PUNCH_HOLE = 1 | 2
_LOCK = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def take_lock(directory: int) -> int | None:
    """Take the execution's lock for life; None if another shim holds it. The kernel drops it however we die. Raises OSError."""
    fd = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
    try:
        if IS_LINUX:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _LOCK)
        else:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - pathlib would cost start-up time
            return file.read()
    except OSError:
        return ""


def stat(pid: int) -> tuple[str, int, int] | None:
    """State, parent and start ticks of a process, or None if there is none. The command may hold blanks and brackets, so fields count from the last `)`."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (fields[0], int(fields[1]), int(fields[19])) if len(fields) > 19 else None


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 where the system does not tell."""
    found = stat(pid)
    return found[2] if found is not None else 0


def command(pid: int, longest: int = 200) -> str:
    """A process's command line, for people."""
    return _read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()[:longest]


def become_subreaper() -> bool:
    """Have every orphan below us become our child; False where the system cannot."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal_number: int) -> bool:
    """Have the kernel send this signal to us when our parent dies; survives exec, unless the program is set-uid."""
    return _prctl(_PR_SET_PDEATHSIG, signal_number)


def _prctl(option: int, value: int) -> bool:
    if not IS_LINUX:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0)


def punch_hole(fd: int, start: int, length: int) -> None:
    """Give a range of a file back to the disk; its size and all offsets stay. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    answer = libc.fallocate(fd, _FALLOC_KEEP_SIZE_AND_PUNCH_HOLE, ctypes.c_longlong(start), ctypes.c_longlong(length))
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def boottime() -> float:
    """Seconds since boot, time asleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if IS_LINUX else time.monotonic()


def now() -> str:
    """The time of day in UTC, ISO 8601, without the cost of importing datetime."""
    whole, fraction = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{fraction // 1000:06d}+00:00"
