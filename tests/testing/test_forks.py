"""A command that is forked behaves as one that is started."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import forks
from support.forks import run_program, start_program
from support.readable import wait_readable

_SHOWS = """
import atexit, json, locale, os, resource, signal, sys, threading, time

streams = [
    [each.fileno(), each.name, each.mode, each.encoding, each.errors, each.line_buffering, each.isatty(), each.closed]
    for each in (sys.stdin, sys.stdout, sys.stderr)
]
umask = os.umask(0)
os.umask(umask)
shown = {
    "arguments": sys.argv,
    "variables": dict(os.environ),
    "directory": os.getcwd(),
    "path": sys.path,
    "name": __name__,
    "executable": [sys.executable, sys.prefix],
    "streams": streams,
    "descriptors": [each for each in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{each}")],
    "umask": umask,
    "limits": [resource.getrlimit(each) for each in range(16)],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "handled": {each.name: repr(signal.getsignal(each)) for each in sorted(signal.valid_signals()) if each < 32},
    "group and session": [os.getpgrp(), os.getsid(0)],
    "locale": locale.setlocale(locale.LC_ALL),
    "zone": [time.tzname, time.timezone],
    "threads": threading.active_count(),
    "read": sys.stdin.read(),
}
print(json.dumps(shown))
print("to standard error", file=sys.stderr)
atexit.register(print, "after all")
threading.Thread(target=lambda: print("from a thread", threading.main_thread().join())).start()
sys.exit(int(sys.argv[1]))
"""
_SLOWLY = "import sys\nprint('begun', flush=True)\nsys.stdin.read()\nsys.exit(3)\n"
_BUFFERS = (
    "import sys\nfor each in (sys.stdin, sys.stdout):\n    print(each.isatty(), each.line_buffering, file=sys.stderr)\n"
)


@pytest.fixture(autouse=True)
def _earlier_server() -> None:
    """A server that is older than the test, so that it has nothing of what the test changes."""
    _ = forks._server()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Variables as rigs give them."""
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(tmp_path), "TZ": "Europe/Berlin"}


def _module(directory: Path, text: str) -> str:
    (directory / "shows.py").write_text(text, encoding="utf-8")
    return "shows"


def test_a_forked_process_is_as_a_fresh_one(tmp_path: Path, environ: dict[str, str]) -> None:
    """Arguments, variables, descriptors, limits, streams, signals and the way it ends: all as after `exec`."""
    module = _module(tmp_path, _SHOWS)
    reader, writer = os.pipe()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    del environ["PATH"]
    umask = os.umask(0o027)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        arguments = ["7", "an argument", "\udcff"]
        fresh = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env=environ, cwd=tmp_path, input="ä\n".encode(), capture_output=True, pass_fds=(writer,), check=False,
        )  # fmt: skip
        forked = run_program(
            arguments, env=environ, cwd=tmp_path, given="ä\n".encode(), module=module, pass_fds=(writer,)
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        _ = os.umask(umask)
        os.close(reader)
        os.close(writer)
    assert forked.stdout.splitlines()[1:] == [b"from a thread None", b"after all"]
    assert json.loads(forked.stdout.splitlines()[0]) == json.loads(fresh.stdout.splitlines()[0])
    assert (forked.returncode, forked.stdout, forked.stderr) == (7, fresh.stdout, fresh.stderr)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "raise SystemExit",
        "raise SystemExit('a word')",
        "raise SystemExit(256 + 3)",
        "1 / 0",
        "import os; os._exit(9)",
        "import os; os.kill(os.getpid(), 9)",
        "print('lost'); import os; os.close(1); os.open('/dev/full', os.O_WRONLY)",
    ],
)
def test_it_ends_as_a_fresh_one(tmp_path: Path, environ: dict[str, str], text: str) -> None:
    """The same exit code or signal, the same output, and as much on standard error."""
    module = _module(tmp_path, text)
    fresh = subprocess.run(
        [sys.executable, "-m", module], env=environ, cwd=tmp_path, capture_output=True, stdin=subprocess.DEVNULL,
        check=False,
    )  # fmt: skip
    forked = run_program([], env=environ, cwd=tmp_path, module=module)
    assert (forked.returncode, forked.stdout) == (fresh.returncode, fresh.stdout)
    assert forked.stderr.splitlines()[-1:] == fresh.stderr.splitlines()[-1:]


def test_a_terminal_is_written_line_by_line(tmp_path: Path, environ: dict[str, str]) -> None:
    """Python decides by the stream when it opens it."""
    module = _module(tmp_path, _BUFFERS)
    ours, theirs = os.openpty()
    streams: dict[str, Any] = {"stdin": theirs, "stdout": theirs, "stderr": subprocess.PIPE}
    fresh = subprocess.run([sys.executable, "-m", module], env=environ, cwd=tmp_path, check=True, **streams)
    with start_program([], env=environ, cwd=tmp_path, module=module, **streams) as child:
        assert child.communicate(timeout=30)[1] == fresh.stderr == b"True True\nTrue True\n"
    os.close(ours)
    os.close(theirs)


def test_it_can_be_waited_for_and_signalled(tmp_path: Path, environ: dict[str, str]) -> None:
    """A child that works has no status; one that was killed has that of the signal, and its pid is its own until it was asked for."""
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with start_program([], env=environ, cwd=tmp_path, module=_module(tmp_path, _SLOWLY), **pipes) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"begun\n"
        assert child.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            _ = child.wait(0.01)
        child.kill()
        assert wait_readable(child.stdout.fileno(), within_s=10)
        assert Path(f"/proc/{child.pid}").exists(), "it is not reaped before a test asks for its status"
        assert (child.wait(10), child.poll()) == (-signal.SIGKILL, -signal.SIGKILL)
        assert not Path(f"/proc/{child.pid}").exists()


def test_a_missing_directory_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    """As `Popen` refuses it."""
    with pytest.raises(FileNotFoundError):
        _ = start_program(["--version"], env=environ, cwd=tmp_path / "none")


@pytest.mark.parametrize("name", ["PYTHONOPTIMIZE", "LC_ALL", "LD_PRELOAD"])
def test_what_changes_the_start_of_python_gets_a_fresh_one(tmp_path: Path, environ: dict[str, str], name: str) -> None:
    """Such a variable acts when Python starts, so no fork could have it."""
    with start_program(["--version"], env={**environ, name: ""}, cwd=tmp_path, stdout=subprocess.PIPE) as child:
        assert child.args == [sys.executable, "-m", "watchkeeper", "--version"]
        assert child.communicate()[0].startswith(b"watchkeeper ")


def test_an_answer_that_no_test_took_is_not_taken_for_another(tmp_path: Path, environ: dict[str, str]) -> None:
    """A test that runs out of time while it waits for an answer leaves that answer in the socket."""
    module = _module(tmp_path, _SLOWLY)
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with (
        start_program([], env=environ, cwd=tmp_path, module=module, **pipes) as works,
        start_program(["--version"], env=environ, cwd=tmp_path, stdout=subprocess.DEVNULL) as ended,
    ):
        assert wait_readable(os.pidfd_open(ended.pid), within_s=10)
        control = forks._server()._control
        _ = control.send(json.dumps({"number": 0, "status_of": ended.pid}).encode())
        assert works.poll() is None, "the status of the other one"
        assert works.stdin is not None
        works.stdin.close()
        assert works.wait(10) == 3
        ended.returncode = 0  # its status was taken above
