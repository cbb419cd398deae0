"""Named points at which a test may kill this process, always compiled in, inert in ordinary life.

A durable step (commit, link, rename, sync, spawn, signal) has a point before and a point after it. The environment arms one:

    WATCHKEEPER_CRASH_AT=name        die at the first time the point is reached
    WATCHKEEPER_CRASH_AT=name:3      die at the third
    WATCHKEEPER_CRASH_GATE=/a/file   points count only while this file is there, so that a test begins where its story does
    WATCHKEEPER_CRASH_ONCE=/a/file   die only if this file can be made now: of all processes that reach the point, one dies
    WATCHKEEPER_CRASH_SIGNAL=STOP    stop instead of dying, so that a test can let this process come back late (SIGCONT)
    WATCHKEEPER_CRASH_ERRNO=11       do not die: every time, be refused the step with this error
    WATCHKEEPER_CRASH_LOG=/a/file    append the name of every point that is reached, one a line

"Die" is SIGKILL to ourselves: nothing is flushed, no handler runs, exactly as after `kill -9`. The shim, which
imports none of our modules, has the same few lines with the same variables.
"""

import os

_hits: dict[str, int] = {}


def crashpoint(name: str) -> None:
    """Die here, or raise OSError, if the environment says so; otherwise do nothing.

    Points are named `part.step.before` and `part.step.after`, for example `launch.rename.after`.
    """
    log = os.environ.get("WATCHKEEPER_CRASH_LOG")
    armed = os.environ.get("WATCHKEEPER_CRASH_AT")
    if (log is None and armed is None) or not _is_open():
        return
    _hits[name] = _hits.get(name, 0) + 1
    if log is not None:
        with open(log, "a", encoding="utf-8") as out:  # noqa: PTH123 - one append, atomic for a short line
            out.write(name + "\n")
    refusal = os.environ.get("WATCHKEEPER_CRASH_ERRNO")
    if refusal is not None and armed == name:
        raise OSError(int(refusal), os.strerror(int(refusal)))
    if armed in {name, f"{name}:{_hits[name]}"} and (armed != name or _hits[name] == 1) and _may_die():
        import signal  # noqa: PLC0415 - needed only in tests

        name = os.environ.get("WATCHKEEPER_CRASH_SIGNAL", "KILL")
        os.kill(os.getpid(), signal.Signals[f"SIG{name}"])  # noqa: TID251 - the one process that may be killed without a check is this one


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
