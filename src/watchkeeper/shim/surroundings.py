"""The child's last steps before it becomes the agent: into the directory that was approved and no other, with what the caller had and not what the shim has."""

import errno
import fcntl
import os
import resource

from . import system
from .spec import Spec

_GET_GENERATION = 0x80087601
"""FS_IOC_GETVERSION: tells directories apart that had the same inode number one after the other."""
_MOST_READ = 4096

NOT_GIVEN = "The agent did not get"
"""How a complaint begins that a person is shown."""


def enter(spec: Spec, step: list[bytes]) -> None:
    """Enter the working directory by a descriptor, so that it cannot be replaced between the look and the step inside.

    `step` receives the name of each step before it is tried. Raises OSError: ESTALE if it is another directory than the approved one, or is on another branch.
    """
    step[0] = b"chdir"
    fd = os.open(spec.cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    if spec.cwd_inode is not None:
        seen = os.fstat(fd)
        # Another boot gives out other numbers for devices.
        device = spec.cwd_device if spec.cwd_boot == system.boot_id() else seen.st_dev
        known = spec.cwd_generation
        is_approved = (seen.st_dev, seen.st_ino) == (device, spec.cwd_inode)
        if not is_approved or (known is not None and _generation(fd, known) != known):
            step[0] = b"directory"
            raise OSError(errno.ESTALE, "it is another directory")
    os.fchdir(fd)
    os.close(fd)
    if spec.head_file is not None and spec.head is not None:
        step[0] = b"branch"
        if _read(spec.head_file) != spec.head:
            raise OSError(errno.ESTALE, "something else is checked out")


def _generation(directory: int, known: "int | None") -> "int | None":
    """The directory's own; `known` where it cannot be asked."""
    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return known
    try:
        answer = bytearray(8)
        fcntl.ioctl(fd, _GET_GENERATION, answer)
        return int.from_bytes(answer[:4], "little")
    except OSError:
        return known
    finally:
        os.close(fd)


def _read(path: bytes) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        text = os.read(fd, _MOST_READ)
        os.close(fd)
    except OSError:
        return b""
    return text.strip()


def take_priority(spec: Spec) -> None:
    """Take the caller's niceness and weight for the out-of-memory killer. A refusal is reported and is not an error. Standard error is still the shim's."""
    if spec.nice is not None:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, spec.nice)
        except OSError as problem:
            _complain(f"nice {spec.nice}", problem)
    if spec.oom_score_adj is not None:
        try:
            fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(fd, b"%d" % spec.oom_score_adj)
            finally:
                os.close(fd)
        except OSError as problem:
            _complain(f"oom_score_adj {spec.oom_score_adj}", problem)


def ready_limits(spec: Spec) -> "list[tuple[int, int, int]]":
    """Set the caller's limits, as far as possible: a lower hard limit of this process that cannot be raised stays. Set last: they apply to this process too."""
    found = list[tuple[int, int, int]]()
    for name, (soft, hard) in spec.limits.items():
        number = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if isinstance(number, int):  # else this system has no such limit
            most = _hard(number, name, soft, hard)
            found.append((number, most if _above(soft, most) else soft, most))
    if spec.nofile is not None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        found.append((resource.RLIMIT_NOFILE, hard if _above(spec.nofile, hard) else spec.nofile, hard))
    return found


def _hard(number: int, name: str, soft: int, hard: int) -> int:
    """The hard limit that can be had, raised by now if ours was lower."""
    ours = resource.getrlimit(number)
    if not _above(hard, ours[1]):
        return hard
    try:
        resource.setrlimit(number, (ours[0], hard))
    except (OSError, ValueError) as problem:
        if _above(soft, ours[1]):
            _complain(f"the limit {name} {_shown(soft)}, only {_shown(ours[1])}", problem)
        return ours[1]
    return hard


def set_limits(limits: "list[tuple[int, int, int]]") -> None:
    """Set them. Raises OSError."""
    for number, soft, hard in limits:
        resource.setrlimit(number, (soft, hard))


def _above(one: int, other: int) -> bool:
    return other != resource.RLIM_INFINITY and (one == resource.RLIM_INFINITY or one > other)


def _shown(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)


def _complain(what: str, problem: Exception) -> None:
    try:  # noqa: SIM105 - contextlib would cost start-up time
        os.write(2, f"{system.now()} {NOT_GIVEN} {what}: {problem}\n".encode("utf-8", "replace"))
    except OSError:
        pass
