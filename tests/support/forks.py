"""`python -m watchkeeper …` without the time that its imports take: children of a fork server that behave as those of `subprocess.Popen` do.

Most of what a command costs is its imports. A test that starts commands only to get somewhere takes `start_program` from here; a test of how a process starts
takes `subprocess`. Where a variable changes how Python itself starts, `start_program` starts a fresh Python, too.
"""

import atexit
import contextlib
import functools
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.fork_server import LIMITS, MOST
from support.readable import wait_readable

_START_S = 60.0
_LANGUAGE = "C.UTF-8"
_OF_PYTHON_OR_LIBC = ("PYTHON", "LC_", "LANGUAGE", "LD_", "MALLOC_", "GLIBC_")


class ForkServer:
    """One server, and the way to talk to it. Threads may share it."""

    def __init__(self) -> None:
        """Start it and wait until it has imported everything."""
        self._guard = threading.Lock()
        self._number = 0
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("fork_server.py")), str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                env={"PATH": os.environ["PATH"], "LANG": _LANGUAGE},
            )
        assert wait_readable(self._control.fileno(), _START_S), "the fork server neither became ready nor ended"
        assert self._control.recv(MOST) == b"ready", "the fork server ended while it imported the program"

    def ask(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Send a message and return the answer."""
        with self._guard:
            self._number += 1
            _ = socket.send_fds(
                self._control, [json.dumps({"number": self._number, **message}).encode()], list(descriptors)
            )
            while data := self._control.recv(MOST):
                answer = json.loads(data)
                if answer["number"] == self._number:  # any other is for a test that ran out of time while it waited
                    return answer
        raise AssertionError("the fork server ended")

    def close(self) -> None:
        """End it. Its children continue, as those of any process that ends."""
        self._control.close()
        _ = self._process.wait()


@functools.cache
def _server() -> ForkServer:
    """The one of this process; it ends with it."""
    made = ForkServer()
    _ = atexit.register(made.close)
    return made


class _Forked(subprocess.Popen[Any]):
    """A child of the fork server. `Popen` makes the pipes and reads them; this starts the process and waits for its end."""

    _end = -1
    """A descriptor that can be read when the process has ended."""
    _waitpid_lock: threading.Lock
    """What `Popen` makes for the threads that wait for one process."""

    def _execute_child(  # the order of the arguments is the same in every Python from 3.11 to 3.14
        self, args: list[str], executable: object, preexec_fn: object, close_fds: object,
        pass_fds: tuple[int, ...], cwd: Path | None, env: dict[str, str], startupinfo: object, creationflags: object,
        shell: object, p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int,
        *_others: object,
    ) -> None:  # fmt: skip
        """Start the process. Raises OSError."""
        given = {0: p2cread, 1: c2pwrite, 2: errwrite}
        streams = [number if end == -1 else end for number, end in given.items()]
        request = {
            "module": args[0],
            "arguments": [os.fsdecode(each) for each in args[1:]],
            "env": env,
            "numbers": [*given, *pass_fds],
            "umask": _umask(),
            "limits": [resource.getrlimit(number) for number in LIMITS],
        }
        with os.fdopen(os.memfd_create("request"), "wb", buffering=0) as file, _directory(cwd) as directory:
            _ = file.write(json.dumps(request).encode())
            answer = _server().ask({}, [file.fileno(), directory, *streams, *pass_fds])
        if "errno" in answer:
            raise OSError(answer["errno"], os.strerror(answer["errno"]))
        self.pid = int(answer["pid"])
        self._child_created = True
        self._end = os.pidfd_open(self.pid)
        for theirs, ours in ((p2cread, p2cwrite), (c2pwrite, c2pread), (errwrite, errread)):
            if ours != -1:
                os.close(theirs)
        if (null := getattr(self, "_devnull", None)) is not None:
            os.close(null)
        self._closed_child_pipe_fds = True

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):
            try:
                self._take_status()
            except OSError:  # at the end of this process the server may have ended already
                if _deadstate is None:
                    raise
                self.returncode = _deadstate
            finally:
                self._waitpid_lock.release()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        with self._waitpid_lock:
            if self.returncode is None:
                if not wait_readable(self._end, timeout):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
                self._take_status()
        assert self.returncode is not None
        return self.returncode

    def _take_status(self) -> None:
        if self.returncode is None and wait_readable(self._end, 0):
            self.returncode = _server().ask({"status_of": self.pid})["code"]
            os.close(self._end)


@contextlib.contextmanager
def _directory(path: Path | None) -> Generator[int]:
    """A descriptor of that directory. Raises OSError, as `Popen` does for a directory that it cannot enter."""
    descriptor = os.open(path or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _umask() -> int:
    """The umask, without a change of it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))


def start_program(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    module: str = "watchkeeper",
    **given: Any,
) -> "subprocess.Popen[Any]":
    """Start `python -m watchkeeper` with these arguments and variables; `given` may name streams, their encoding, and `pass_fds`. Raises OSError."""
    special = {name for name in env if name.startswith(_OF_PYTHON_OR_LIBC)}
    if special or env.get("LANG") != _LANGUAGE:
        return subprocess.Popen([sys.executable, "-m", module, *arguments], env=env, cwd=cwd, **given)
    return _Forked([module, *arguments], env=dict(env), cwd=cwd, **given)


def run_program(
    arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, given: bytes = b"", timeout: float = 60, **also: Any
) -> "subprocess.CompletedProcess[bytes]":
    """Run it to its end and return what it printed. Raises TimeoutExpired after `timeout` seconds, and kills it first."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start_program(arguments, env=env, cwd=cwd, **pipes, **also) as process:
        try:
            out, err = process.communicate(given, timeout=timeout)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)
