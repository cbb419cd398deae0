"""Who has the files of an execution open.

A descriptor outlives everything else by which a process is known: parent, session, environment. It is looked at through `/proc/PID/fd`, whose links are read
and never followed, because following one into a dead network mount would wait forever. The name of an execution is random, so it is enough that a path has
it, wherever the directory is mounted, and also when it was deleted.
"""

import os

_ACCESS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)
_DELETED = " (deleted)"


def writes_below(pid: int, execution_id: str) -> bool:
    """Whether a process can write, through a descriptor that it has, to a file of that execution. False if it has gone or is kept from us. Raises OSError.

    A process that only reads (`tail -f` of a log) does not belong to the agent.
    """
    try:
        names = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - names are what is wanted
        return any(_is_of(_link(pid, name), execution_id) and _can_write(pid, name) for name in names)
    except _GONE:
        return False


def _link(pid: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{name}").removesuffix(_DELETED)  # noqa: PTH115 - hot path
    except FileNotFoundError:
        return ""  # it was closed just now


def _is_of(path: str, execution_id: str) -> bool:
    return path.rpartition("/")[0].rpartition("/")[2] == execution_id


def _can_write(pid: int, name: str) -> bool:
    try:
        with open(f"/proc/{pid}/fdinfo/{name}", "rb") as file:  # noqa: PTH123 - hot path
            lines = file.read().splitlines()
    except FileNotFoundError:
        return False
    flags = next((line.split()[1] for line in lines if line.startswith(b"flags:")), b"0")
    return int(flags, 8) & _ACCESS != os.O_RDONLY
