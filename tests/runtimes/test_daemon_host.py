"""A daemon's lock, record, inbox and start: who is believed to be the daemon, and when it is not the daemon any more."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runtimes.stage import AT

from watchkeeper.errors import DaemonError
from watchkeeper.ports.service import DaemonInfo, DaemonRequest, LastWords, SpawnAnswer
from watchkeeper.runtimes import atomic, daemon_host, proc
from watchkeeper.runtimes.boot import boot_id
from watchkeeper.runtimes.daemon_host import READY_FD, LocalDaemonHost, notify_parent

HOLDS = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
from watchkeeper.ports.service import DaemonInfo
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id
from watchkeeper.runtimes.daemon_host import LocalDaemonHost
state = Path(sys.argv[1])
pid, ticks = proc.identity(os.getpid())
info = DaemonInfo(pid, ticks, boot_id(), datetime.now(UTC), 3, "1.2", str(state / "wake.sock"))
with LocalDaemonHost(state, lambda: state / "wake.sock", {}).hold(info):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    return path


def host(state: Path, environ: dict[str, str] | None = None, wake: Path | None = None) -> LocalDaemonHost:
    return LocalDaemonHost(state, lambda: wake or state / "wake.sock", environ or {})


def me(state: Path, **changes: Any) -> DaemonInfo:
    """This process as a daemon."""
    identity = proc.identity(os.getpid())
    assert identity is not None
    info = DaemonInfo(*identity, boot_id(), AT, 3, "1.2", str(state / "wake.sock"), "leave", "SQLite", "It is slow.")
    return info._replace(**changes)


@pytest.fixture
def other(state: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the lock."""
    daemon = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(state)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert daemon.stdout is not None and daemon.stdin is not None
    assert daemon.stdout.readline() == "held\n"
    yield daemon
    daemon.kill()
    _ = daemon.wait()
    daemon.stdin.close()
    daemon.stdout.close()


def test_a_daemon_is_known_while_it_holds_the_lock(state: Path) -> None:
    """With everything that it says of itself; afterwards there is neither lock nor record."""
    assert (host(state).is_held(), host(state).info()) == (False, None)
    daemon = host(state)
    with daemon.hold(me(state)):
        assert host(state).is_held() and daemon.lost() == ""
        assert host(state).info() == me(state)
        daemon.describe(me(state, ending="drain", trouble=""))
        assert host(state).info() == me(state, ending="drain", trouble="")
        with (
            pytest.raises(DaemonError, match="is running already") as refused,
            host(state).hold(me(state)),
        ):
            pass
        assert refused.value.hint == "`wk daemon status` shows it."
        with (
            pytest.raises(DaemonError, match="nothing was changed") as refused,
            host(state).keep_away(),
        ):
            pass
        assert refused.value.hint == "`wk daemon stop` first; agents continue."
    assert (host(state).is_held(), host(state).info(), daemon.lost()) == (
        False,
        None,
        "This process is not the daemon.",
    )
    assert not (state / "daemon.json").exists()
    with host(state).keep_away():
        assert host(state).is_held() and host(state).info() is None
    assert not host(state).is_held()


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": 4_000_000},
        {"start_ticks": 1},
        {"pid": "x"},
        {"started_at": "noon"},
        {"incarnation": None},
        {"wake": None},
    ],
)
def test_a_record_of_another_process_is_not_believed(state: Path, changes: dict[str, Any]) -> None:
    """Nor one that cannot be read; a word that an older version did not write is empty."""
    with host(state).hold(me(state)):
        record = json.loads(atomic.unsealed((state / "daemon.json").read_bytes()))
        (state / "daemon.json").write_text(
            json.dumps({name: changes.get(name, value) for name, value in record.items() if changes.get(name, value) is not None}), encoding="utf-8"
        )  # fmt: skip
        assert host(state).info() is None
        for name in ("ending", "store", "trouble"):
            del record[name]
        (state / "daemon.json").write_text(json.dumps(record), encoding="utf-8")
        assert host(state).info() == me(state, ending="", store="", trouble="")


def test_a_daemon_that_was_stopped_by_a_signal_is_frozen(state: Path, other: "subprocess.Popen[str]") -> None:
    """And one that is killed is gone when that is said."""
    info = host(state).info()
    assert info is not None and (info.pid, info.frozen, info.incarnation) == (other.pid, False, 3)
    os.kill(other.pid, signal.SIGSTOP)
    assert os.waitid(os.P_PID, other.pid, os.WSTOPPED | os.WNOWAIT)
    frozen = host(state).info()
    assert frozen is not None and frozen.frozen
    assert not host(state).wait_gone(0.0)
    assert host(state).kill()
    assert not host(state).is_held()
    assert other.wait() == -signal.SIGKILL
    assert not host(state).kill(), "none is there"
    assert host(state).wait_gone(0.0)


def test_a_daemon_notices_that_its_directory_is_another(state: Path) -> None:
    """Or is gone, or its lock is; then it leaves what may be another one's record alone."""
    daemon = host(state)
    with daemon.hold(me(state)):
        (state / "daemon.lock").rename(state / "other.lock")
        assert (
            daemon.lost()
            == f"The daemon's lock file {state / 'daemon.lock'} was deleted or replaced, so it keeps no other daemon away."
        )
        (state / "daemon.lock").touch()
        assert "was deleted or replaced" in daemon.lost()
        (state / "daemon.json").write_text("another's", encoding="utf-8")
        daemon.describe(me(state))
        assert (state / "daemon.json").read_text(encoding="utf-8") == "another's"
        state.rename(state.parent / "away")
        assert daemon.lost() == f"The state directory {state} was moved or deleted."
        state.mkdir()
        assert daemon.lost() == f"Another directory has taken the place of the state directory {state}."
        daemon.leave_words(LastWords(pid=1, at=AT, detail="It was moved."))
    assert host(state).last_words() is None
    assert host(state.parent / "away").last_words() == LastWords(pid=1, at=AT, detail="It was moved.")


def test_a_record_of_another_daemon_stays(state: Path) -> None:
    """When the lock file was replaced, there may be another."""
    with host(state).hold(me(state)):
        record = json.loads(atomic.unsealed((state / "daemon.json").read_bytes())) | {"pid": 1}
        (state / "daemon.json").write_text(json.dumps(record), encoding="utf-8")
    assert (state / "daemon.json").exists()


def test_last_words_are_kept_until_the_next_daemon(state: Path) -> None:
    assert host(state).last_words() is None
    host(state).leave_words(LastWords(pid=7, at=AT, detail="No."))
    assert host(state).last_words() is None, "only a daemon leaves them"
    daemon, words = host(state), LastWords(pid=7, at=AT, detail="The disk is full.")
    with daemon.hold(me(state)):
        daemon.leave_words(words)
        assert host(state).last_words() == words
    assert host(state).last_words() == words
    with host(state).hold(me(state)):
        assert host(state).last_words() is None
    for text in ("", "[]", "7", '{"pid": 1}', '{"pid": 1, "at": "x", "detail": ""}'):
        (state / "daemon-ended.json").write_text(text, encoding="utf-8")
        assert host(state).last_words() is None


def test_a_request_goes_where_the_daemon_says_that_it_listens(state: Path) -> None:
    """If one runs that may have got it; a hint that finds the inbox full is as good as another one there, an order is lost."""
    daemon = host(state)
    assert not host(state).send(DaemonRequest.LOOK), "none listens"
    inbox = daemon.listen()
    try:
        assert not host(state).send(DaemonRequest.LOOK), "who listens does not hold the lock"
        with daemon.hold(me(state)):
            assert host(state, wake=state / "elsewhere.sock").send(DaemonRequest.DRAIN)
            assert inbox.read() == ["look", "drain"]
            while True:
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
                    try:
                        _ = out.sendto(b"x", str(state / "wake.sock"))
                    except BlockingIOError:
                        break
            assert host(state).send(DaemonRequest.LOOK)
            assert not host(state).send(DaemonRequest.LEAVE)
    finally:
        inbox.close()
    with daemon.hold(me(state)):
        assert not host(state).send(DaemonRequest.LOOK)


SAYS = """
import json, os, sys
fd = int(os.environ["WATCHKEEPER_READY_FD"])
print(json.dumps({"argv": sys.argv[1:], "cwd": os.getcwd(), "environ": dict(os.environ), "leads": os.getsid(0) == os.getpid()}))
sys.stdout.flush()
os.write(fd, os.environ.get("WATCHKEEPER_TEST_SAYS", "").encode())
"""


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is started as Python: it writes how it was started, and writes the word that a variable holds."""
    (tmp_path / "says.py").write_text(SAYS, encoding="utf-8")
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path / "says.py"} "$@"\n', encoding="utf-8")
    path.chmod(0o700)
    monkeypatch.setattr(daemon_host.sys, "executable", str(path))
    return path


@pytest.mark.usefixtures("python")
def test_a_daemon_starts_in_a_session_and_an_environment_of_its_own(state: Path) -> None:
    """Which hold nothing of the caller's that it does not need."""
    passed = {
        "HOME": "/h", "PATH": "/usr/bin:/bin", "LANG": "C", "LC_ALL": "C", "USER": "u", "LOGNAME": "u", "TZ": "UTC", "TMPDIR": "/tmp",
        "XDG_STATE_HOME": "/s", "PYTHONUTF8": "1", "PGHOST": "db", "WATCHKEEPER_TEST_SAYS": "ready",
    }  # fmt: skip
    kept_back = {"GH_TOKEN": "x", "WATCHKEEPER_RUN": "r", "WATCHKEEPER_EXECUTION": "e", "EDITOR": "vi"}
    assert host(state, passed | kept_back | {"WATCHKEEPER_HOME": "elsewhere"}).spawn(20) is SpawnAnswer.READY
    told = json.loads((state / "daemon.log").read_text(encoding="utf-8"))
    assert (told["argv"], told["cwd"], told["leads"]) == (["-m", "watchkeeper", "daemon", "run"], "/", True)
    environ = told["environ"]
    assert environ.pop(READY_FD).isdecimal()
    assert environ.items() >= (passed | {"WATCHKEEPER_HOME": str(state)}).items()
    assert environ.keys().isdisjoint(kept_back)
    assert (state / "daemon.log").stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("python")
def test_why_a_daemon_did_not_start_is_told(state: Path) -> None:
    """In its own words, unless another one runs."""
    own = host(state, {"WATCHKEEPER_TEST_SAYS": " It cannot.\n"})
    with pytest.raises(DaemonError, match=r"^It cannot\.$") as refused:
        _ = own.spawn(20)
    assert refused.value.hint == f"Its log is {state / 'daemon.log'}."
    with pytest.raises(DaemonError, match=r"^The daemon ended while it started\.$"):
        _ = host(state).spawn(20)
    with host(state).keep_away():
        assert own.spawn(20) is SpawnAnswer.ALREADY


def test_a_daemon_that_says_nothing_is_starting(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python, go = tmp_path / "python", tmp_path / "go"
    os.mkfifo(go)
    python.write_text(f"#!/bin/sh\nread line < {go}\n", encoding="utf-8")
    python.chmod(0o700)
    monkeypatch.setattr(daemon_host.sys, "executable", str(python))
    assert host(state, {"PATH": "/usr/bin:/bin"}).spawn(0.05) is SpawnAnswer.STARTING
    go.write_text("go\n", encoding="utf-8")


def test_a_daemon_that_cannot_be_started_is_an_error(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_host.sys, "executable", "/nonexistent/python")
    with pytest.raises(DaemonError, match=r"^The daemon could not be started \(/nonexistent/python: ") as refused:
        _ = host(state).spawn(1)
    assert refused.value.hint == "When that is mended: `wk daemon start`."


def test_a_started_daemon_speaks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only if its starter waits for it."""
    monkeypatch.delenv(READY_FD, raising=False)
    notify_parent("ready")
    reader, writer = os.pipe()
    monkeypatch.setenv(READY_FD, str(writer))
    notify_parent("It is ü.")
    assert READY_FD not in os.environ
    with os.fdopen(reader, "rb") as said:
        assert said.read().decode() == "It is ü.", "and the pipe is closed"
    monkeypatch.setenv(READY_FD, "x")
    notify_parent("ready")
