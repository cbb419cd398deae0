"""The shim: `python -I -S <hash>.pyz <execution directory>`. It outlives the daemon, so it imports the standard library only.

    lock ─▶ spec ─▶ decide ─▶ fork ─▶ proc.json ─▶ release ─▶ … exit.json ─▶ … gone.json ─▶ unlock by dying

The order is the protocol; `docs/execution-directory.md` says why each step stands where it does.
"""

import errno
import os
import sys

from . import ladder, records, spec, supervisor, system
from .crash import crashpoint

DONE, LOCKED, DECIDED, BAD_SPEC, NOT_WRITABLE, FAULT = 0, 3, 4, 5, 6, 70
_ARGUMENTS = 2


def main(arguments: list[str]) -> int:
    """Run one execution; returns the shim's own exit code."""
    if len(arguments) != _ARGUMENTS:
        supervisor.complain("usage: shim <execution directory>")
        return FAULT
    os.umask(0o077)
    _tidy_descriptors()
    wakeup = system.wake_on((system.SIGCHLD, system.SIGTERM, system.SIGUSR1))
    path = os.path.abspath(os.fsencode(arguments[1]))  # noqa: PTH100 - pathlib would cost start-up time
    system.set_title(b"wk-shim " + path)
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        crashpoint("shim.lock.before")
        lock = system.take_lock(directory)
        crashpoint("shim.lock.after")
        if lock is None:
            return LOCKED
        wanted = spec.load(directory)
        token = spec.load_token(directory)
        proves = system.become_subreaper()
        ladder.reserve_space(directory)
        if not records.publish(directory, "decide", _decision()):
            ladder.release_reserve(directory)
            return DECIDED
        _supervise(supervisor.Supervisor(directory, path, wanted, token, wakeup), directory, proves=proves)
    except spec.BadSpec as problem:
        supervisor.complain(f"the spec cannot be used: {problem}")
        return BAD_SPEC
    except OSError as problem:
        supervisor.complain(f"{os.fsdecode(path)} cannot be used: {problem}")
        return NOT_WRITABLE
    return DONE


def _supervise(shim: supervisor.Supervisor, directory: int, *, proves: bool) -> None:
    """Do it all. Raises OSError if the system refused something before the agent was let go; why is on record for people, as far as that can be."""
    try:
        shim.run(proves=proves)
    except OSError as problem:
        try:  # noqa: SIM105 - contextlib would cost start-up time
            records.write(directory, "refused.json", {"errno": problem.errno or errno.EIO, "at": system.now()})
        except OSError:
            pass  # the missing record shows that nothing was launched
        raise


def _decision() -> dict[str, object]:
    return {
        "by": "shim",
        "boot_id": system.boot_id(),
        "pid_namespace": system.pid_namespace(),
        "pid": os.getpid(),
        "start_ticks": system.start_ticks(os.getpid()),
        "at": system.now(),
    }


def _tidy_descriptors() -> None:
    """Open the three standard descriptors and close every other: the agent would hold a leaked one for hours."""
    while True:
        fd = os.open(os.devnull, os.O_RDWR)
        if fd > 2:  # the standard three
            break
    try:
        for name in os.listdir("/dev/fd"):  # noqa: PTH208 - pathlib would cost start-up time
            if int(name) > 2:
                try:
                    os.close(int(name))
                except OSError:
                    continue  # it was the listing itself
    except OSError:
        os.close(fd)  # no such listing here


def start() -> None:
    """The zipapp's entry."""
    try:
        code = main(sys.argv)
    except BaseException as problem:  # noqa: BLE001 - the code is part of the contract, whatever happened
        supervisor.complain(f"a fault of the shim's own: {system.describe(problem)}")
        code = FAULT
    # Nothing is to be flushed or finalised, and the lock goes with the process.
    os._exit(code)
