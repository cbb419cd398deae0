"""A process that has imported all of Watchkeeper and forks a child for each command: what `support.forks` starts and talks to.

    test ──(a request and its descriptors)──▶ fork server ──fork──▶ `python -m watchkeeper …`
         ◀──(the child's pid; its status, when the test asks)──

A child does what a fresh `python -m watchkeeper` does, after the imports. It gets arguments, variables, directory, descriptors, limits and umask from the
request, as `exec` would hand them over. The server reaps a child only when the test asks for its status, so a pid stays valid for as long as one of
`subprocess` would. The server ends when the test process does.
"""

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import resource
import runpy
import socket
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

MOST = 4096
"""Bytes of an answer, and of a message to the server: a request for a child is longer, so it stands in a file of its own."""
_MOST_DESCRIPTORS = 16
LIMITS = sorted({number for name, number in vars(resource).items() if name.startswith("RLIMIT_")})
"""The limits of a process that a child gets from the test process."""
_OUT_OF_THE_WAY = 100
"""Descriptors that are on their way to their numbers are held above this one."""

_NOT_FLUSHED = 120
"""Python's exit code when it cannot write what is left of the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a child is to run, and with what."""

    request: dict[str, Any]
    directory: int
    descriptors: tuple[int, ...]


def import_everything() -> None:
    """Import every module of the program but those that run when they are imported."""
    import watchkeeper

    for module in pkgutil.walk_packages(watchkeeper.__path__, "watchkeeper."):
        if not module.name.endswith(".__main__"):
            _ = importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def serve(control: socket.socket) -> Job | None:
    """Answer requests; returns a job in a new child, and None in the server when the test process has ended."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, MOST, _MOST_DESCRIPTORS)
        if not data:
            return None
        message = json.loads(data)
        if "status_of" in message:
            found, status = os.waitpid(message["status_of"], os.WNOHANG)
            answer = {"code": os.waitstatus_to_exitcode(status) if found else None}
        else:
            try:
                pid = os.fork()
            except OSError as problem:
                answer = {"errno": problem.errno}
            else:
                if pid == 0:
                    return _job(*descriptors)
                answer = {"pid": pid}
            for each in descriptors:
                os.close(each)
        control.sendall(json.dumps({"number": message["number"], **answer}).encode())


def _job(request: int, directory: int, *descriptors: int) -> Job:
    with open(request, encoding="ascii") as file:
        _ = file.seek(0)
        return Job(request=json.load(file), directory=directory, descriptors=descriptors)


def become(job: Job) -> None:
    """Take over everything that `exec` would have handed over."""
    os.fchdir(job.directory)
    numbers: list[int] = job.request["numbers"]
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY) for each in job.descriptors]
    for each, number in zip(moved, numbers, strict=True):
        os.dup2(each, number)
    kept = sorted({0, 1, 2, *numbers})
    for low, high in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(low + 1, high)
    _ = os.umask(job.request["umask"])
    os.environ.clear()
    os.environ.update(job.request["env"])
    time.tzset()
    _open_standard_streams()
    for number, limits in zip(LIMITS, job.request["limits"], strict=True):
        if resource.getrlimit(number) != tuple(limits):
            resource.setrlimit(number, tuple(limits))
    sys.argv[1:] = job.request["arguments"]
    sys.path[0] = os.getcwd()  # noqa: PTH109 - what Python itself does for `-m`


def _open_standard_streams() -> None:
    """Open them as Python does when it starts: whether a stream is a terminal decides how it is buffered."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        was = getattr(sys, name)
        buffering = 1 if number == 2 or os.isatty(number) else -1
        stream = open(number, mode, buffering, encoding=was.encoding, errors=was.errors, closefd=False)  # noqa: SIM115 - open until the end
        getattr(stream, "buffer").raw.name = f"<{name}>"  # noqa: B009 - `raw` is not declared
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def run(module: str) -> int:
    """Run the module as `python -m` does; returns the exit code, after the end of its threads and the functions that it registered for its end.

    Python would take all modules apart after that, which takes longer than most commands. The program does not rely on it: it keeps nothing open in a module,
    and it excludes what is left from the last collection (`watchkeeper.__main__`).
    """
    code = 0
    try:
        _ = runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as problem:  # noqa: BLE001 - what Python does with an exception that no code handles
        sys.excepthook(type(problem), problem, problem.__traceback__)
        code = 1
    getattr(threading, "_shutdown")()  # noqa: B009 - what Python calls at its end
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except OSError as problem:
            sys.excepthook(OSError, problem, None)
            code = _NOT_FLUSHED
    return code


def main() -> None:
    """Serve; a child runs the program and ends with it."""
    control = socket.socket(fileno=int(sys.argv[1]))
    import_everything()
    control.sendall(b"ready")
    job = serve(control)
    control.close()
    if job is not None:
        become(job)
        os._exit(run(job.request["module"]) & 0xFF)


if __name__ == "__main__":
    main()
