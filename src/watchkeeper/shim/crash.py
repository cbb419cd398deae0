"""The same crash points as the rest of the program has, with the same variables; the shim imports nothing of it."""

import os

from . import system

_hits: dict[str, int] = {}


def crashpoint(name: str) -> None:
    """Die, stop or fail here if the environment says so; otherwise do nothing."""
    log = os.environ.get("WATCHKEEPER_CRASH_LOG")
    armed = os.environ.get("WATCHKEEPER_CRASH_AT")
    if (log is None and armed is None) or not _is_open():
        return
    _hits[name] = _hits.get(name, 0) + 1
    if log is not None:
        with open(log, "a", encoding="utf-8") as out:  # noqa: PTH123 - pathlib would cost start-up time
            out.write(name + "\n")
    refusal = os.environ.get("WATCHKEEPER_CRASH_ERRNO")
    if refusal is not None and armed == name:
        raise OSError(int(refusal), os.strerror(int(refusal)))
    if armed in {name, f"{name}:{_hits[name]}"} and (armed != name or _hits[name] == 1) and _may_die():
        os.kill(os.getpid(), system.signal_number(os.environ.get("WATCHKEEPER_CRASH_SIGNAL", "KILL")) or system.SIGKILL)


def _is_open() -> bool:
    """With `WATCHKEEPER_CRASH_GATE`, points count only while this file is there."""
    gate = os.environ.get("WATCHKEEPER_CRASH_GATE")
    return gate is None or os.path.exists(gate)  # noqa: PTH110 - pathlib would cost start-up time


def _may_die() -> bool:
    """With `WATCHKEEPER_CRASH_ONCE`, only the process that creates the file dies."""
    once = os.environ.get("WATCHKEEPER_CRASH_ONCE")
    if once is None:
        return True
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True
