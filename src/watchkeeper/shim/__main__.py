"""The shim: `python -I -S <hash>.pyz <execution directory>`. It outlives the daemon, so it imports the standard library and nothing of ours.

    lock ─▶ spec ─▶ decide ─▶ fork ─▶ proc.json ─▶ release ─▶ … exit.json ─▶ … gone.json ─▶ unlock by dying

The order is the protocol; `docs/execution-directory.md` says why each step stands where it does.
"""

import os
import signal
import sys

from . import records, spec, supervisor, system
from .crash import crashpoint

DONE, LOCKED, DECIDED, BAD_SPEC, NOT_WRITABLE = 0, 3, 4, 5, 6


def main(arguments: list[str]) -> int:
    """Run one execution; returns the shim's own exit code."""
    path = os.path.abspath(arguments[1])  # noqa: PTH100 - pathlib would cost start-up time
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        crashpoint("shim.lock.before")
        lock = system.take_lock(directory)
        crashpoint("shim.lock.after")
    except OSError as problem:
        sys.stderr.write(f"{path}: {problem}\n")
        return NOT_WRITABLE
    if lock is None:
        return LOCKED
    try:
        wanted = spec.load(directory)
        token = records.read_bytes(directory, "token").strip()
    except (spec.BadSpec, OSError) as problem:
        sys.stderr.write(f"spec.json cannot be used: {problem}\n")
        return BAD_SPEC
    return _run(directory, path, wanted, token)


def _run(directory: int, path: str, wanted: spec.Spec, token: bytes) -> int:
    wakeup = _catch_signals()
    system.become_subreaper()
    try:
        supervisor.reserve_space(directory)
        if not records.publish(directory, "decide", _decision()):
            return DECIDED
        supervisor.Supervisor(directory, path, wanted, token, wakeup).run()
    except OSError as problem:
        sys.stderr.write(f"{system.now()} the execution directory cannot be used: {problem}\n")
        return NOT_WRITABLE
    return DONE


def _decision() -> dict[str, object]:
    return {
        "by": "shim",
        "boot_id": system.boot_id(),
        "pid_namespace": system.pid_namespace(),
        "pid": os.getpid(),
        "start_ticks": system.start_ticks(os.getpid()),
        "at": system.now(),
    }


def _catch_signals() -> int:
    """Turn the signals that concern us into bytes on a pipe."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def start() -> None:
    """The zipapp's entry."""
    # os._exit: nothing is to be flushed or finalised, and the lock goes with the process.
    os._exit(main(sys.argv))
