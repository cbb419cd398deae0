"""Starting shims and talking to them."""

import json
import os
import socket
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from runtimes.stage import Stage

from watchkeeper.domain.model import EndReason, StopHow
from watchkeeper.ports.runtime import ShimUnreachable
from watchkeeper.runtimes import control, proc
from watchkeeper.runtimes.boot import boot_id

SHIM = """
import json, os, sys
print("complaint", file=sys.stderr)
fds = sorted(int(name) for name in os.listdir("/proc/self/fd"))
with open(sys.argv[1] + "/born", "w") as out:
    json.dump({"pid": os.getpid(), "session": os.getsid(0), "cwd": os.getcwd(), "environment": dict(os.environ), "isolated": sys.flags.isolated,
               "site": sys.flags.no_site, "input": os.read(0, 1).decode(), "fds": fds}, out)
start = lambda: None
"""


def install(tmp_path: Path) -> None:
    """Put a shim of our own where the stage's runtime expects the image."""
    (tmp_path / "image.py" / "shim").mkdir(parents=True)
    (tmp_path / "image.py" / "shim" / "__main__.py").write_text(SHIM)


@pytest.fixture
def born(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a shim finds around it when it starts."""
    monkeypatch.setenv("SECRET_KEY", "x")
    monkeypatch.setenv("WATCHKEEPER_CRASH_LOG", str(tmp_path / "points"))
    install(tmp_path)
    run = stage.prepared()
    os.set_inheritable(os.open("/dev/null", os.O_RDONLY), True)
    stage.runtime.start_shim(run)
    (shim,) = stage.runtime._shims
    shim.wait(timeout=30)
    stage.runtime.reap()
    assert stage.runtime._shims == []
    assert proc.stat_of(shim.pid) is None
    assert (stage.directory(run) / "shim.err").read_text() == "complaint\n"
    assert "shim.spawn.after" in (tmp_path / "points").read_text()
    return json.loads((stage.directory(run) / "born").read_text())


def test_a_shim_is_born_with_nothing_of_ours(born: dict[str, Any]) -> None:
    """A session of its own, no input, no descriptors, and an environment of next to nothing; and it leaves no zombie."""
    assert born["session"] == born["pid"]
    assert (born["cwd"], born["isolated"], born["site"], born["input"]) == ("/", 1, 1, "")
    # 3 is the listing of the descriptors itself.
    assert born["fds"] == [0, 1, 2, 3]
    assert set(born["environment"]) - {"LC_CTYPE"} == {"PATH", "WATCHKEEPER_CRASH_LOG"}


def test_a_shim_is_not_started_in_another_directory(stage: Stage, tmp_path: Path) -> None:
    """The prepared one was moved and something else has its name."""
    install(tmp_path)
    run = stage.prepared()
    stage.directory(run).rename(stage.state / "aside")
    stage.directory(run).mkdir()
    with pytest.raises(OSError, match="not there"):
        stage.runtime.start_shim(run)
    assert list(stage.directory(run).iterdir()) == []


def test_a_shim_needs_a_place_for_its_socket(stage: Stage, tmp_path: Path) -> None:
    """A directory that was cleared away is made again; one that others can enter is not used."""
    install(tmp_path)
    run = stage.prepared()
    stage.sockets.chmod(0o777)
    with pytest.raises(OSError, match="other users"):
        stage.runtime.start_shim(run)
    stage.sockets.rmdir()
    stage.runtime.start_shim(run)
    stage.runtime._shims[0].wait(timeout=30)
    assert stage.sockets.is_dir()


@contextmanager
def listening(address: Path, answer: bytes) -> Generator[list[bytes]]:
    """A shim that answers once with `answer`."""
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(address))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                with connection.makefile("rb") as lines:
                    heard.append(lines.readline())
                if heard[0]:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield heard
        thread.join(30)


@pytest.mark.parametrize(
    ("how", "why", "said"),
    [
        (StopHow.STOP, EndReason.STOP, {"do": "stop", "grace_s": 3.0, "how": "stop"}),
        (StopHow.STOP, EndReason.EARLY_FAIL, {"do": "stop", "grace_s": 3.0, "how": "early_fail"}),
        (StopHow.KILL, EndReason.KILL, {"do": "kill"}),
    ],
)
def test_a_shim_is_told_with_its_token(stage: Stage, how: StopHow, why: EndReason, said: dict[str, object]) -> None:
    """At the address in its spec, whatever ours would be today."""
    run = stage.prepared()
    stage.runtime._sockets = Path("/nowhere")
    with listening(stage.sockets / "exec1.sock", b'{"ok": true}\n') as heard:
        stage.runtime.end(run, how, grace_s=3.0, why=why)
    token = (stage.directory(run) / "token").read_text()
    assert json.loads(heard[0]) == {"token": token, **said}


@pytest.mark.parametrize("answer", [b'{"ok": false, "error": "wrong token"}\n', b"", b"{\n", b"[]\n", b'{"ok": 1}\n'])
def test_any_other_answer_is_no_answer(stage: Stage, answer: bytes) -> None:
    """Only `ok` means that it was heard."""
    run = stage.prepared()
    with listening(stage.sockets / "exec1.sock", answer), pytest.raises(ShimUnreachable):
        stage.runtime.end(run, StopHow.STOP, grace_s=None, why=EndReason.STOP)


def test_a_shim_that_is_not_there_is_unreachable(stage: Stage) -> None:
    """No socket, a dead socket, no directory, a torn spec."""
    run = stage.prepared()

    def unreachable() -> None:
        with pytest.raises(ShimUnreachable):
            stage.runtime.end(run, StopHow.STOP, grace_s=None, why=EndReason.STOP)

    unreachable()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(stage.sockets / "exec1.sock"))
    unreachable()
    stage.write(run, "spec.json", b"{")
    unreachable()
    stage.directory(run).rename(stage.state / "aside")
    unreachable()


LISTENER = """
import socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen(0)
print("listening", flush=True)
if sys.argv[2] == "idle":
    sys.stdin.read()
connection, _ = server.accept()
connection.recv(65536)
busy_until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < busy_until:
    pass
connection.sendall(b'{"ok": true}\\n')
"""


def _listener(stage: Stage, busy_s: str) -> str:
    """The address of a process that is busy before it answers, or that is idle and never answers."""
    address = str(stage.sockets / "other")
    child = stage.start(sys.executable, "-c", LISTENER, address, busy_s)
    assert child.process.stdout is not None
    assert child.process.stdout.readline() == "listening\n"
    return address


def test_an_idle_shim_is_not_waited_for_for_long(stage: Stage) -> None:
    """It hears and does not answer; the later requests find its queue full."""
    address = _listener(stage, "idle")
    for _ in range(4):
        with pytest.raises(ShimUnreachable):
            control.ask(address, "t", {"do": "status"}, patience_s=0.1)


def test_a_busy_shim_gets_the_time_that_it_needs(stage: Stage) -> None:
    """It wants to run all the time, so its silence proves nothing."""
    address = _listener(stage, "0.6")
    assert control.ask(address, "t", {"do": "status"}, patience_s=0.1) == {"ok": True}


def test_a_shim_that_is_busy_without_end_is_given_up(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It turns in a loop."""
    monkeypatch.setattr(control, "LONGEST_S", 0.5)
    address = _listener(stage, "1000")
    with pytest.raises(ShimUnreachable, match="too long"):
        control.ask(address, "t", {"do": "status"}, patience_s=0.1)


def test_the_token_is_shown_to_our_own_user_only(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user listens at the address: nothing is sent."""
    with listening(stage.sockets / "theirs", b'{"ok": true}\n') as heard:
        # Only the listener is another user; the directory of the address is ours.
        monkeypatch.setattr(control.os, "geteuid", iter([os.geteuid(), 4711]).__next__)
        with pytest.raises(ShimUnreachable, match="user"):
            control.ask(str(stage.sockets / "theirs"), "t", {"do": "status"})
    assert heard == [b""]


def test_boot_id_is_a_word() -> None:
    """One line, without its end."""
    assert len(boot_id().split()) == 1
