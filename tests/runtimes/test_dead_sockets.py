"""Sockets at which no process listens, and the directories that earlier versions made for theirs: removed when that is certain, and only then."""

import os
import socket
from pathlib import Path

import pytest

from watchkeeper.runtimes import dead_sockets

LATER = 2 * 3600.0


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """What XDG_RUNTIME_DIR names."""
    (tmp_path / "run").mkdir(mode=0o700)
    return tmp_path / "run"


@pytest.fixture
def now_s(tmp_path: Path) -> float:
    """Two hours after everything here was made."""
    return tmp_path.stat().st_mtime + LATER


def _bound(path: Path, kind: int = socket.SOCK_STREAM) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, kind)
    made.bind(str(path))
    if kind == socket.SOCK_STREAM:
        made.listen()
    return made


def _made(runtime: Path, name: str) -> Path:
    (runtime / name).mkdir(mode=0o700)
    return runtime / name


def _gone(runtime: Path, now_s: float) -> set[str]:
    """Which of the directories in the runtime directory go."""
    before = {path.name for path in runtime.iterdir()}
    dead_sockets.clear_left_over({"XDG_RUNTIME_DIR": str(runtime)}, now_s)
    return before - {path.name for path in runtime.iterdir()}


@pytest.fixture(autouse=True)
def _own_shared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test touches what lies in the machine's own temporary directory."""
    (tmp_path / "shared").mkdir()
    monkeypatch.setattr(dead_sockets, "_SHARED", tmp_path / "shared")


def test_empty_and_dead_ones_go(runtime: Path, tmp_path: Path, now_s: float) -> None:
    """Of both kinds, in both places."""
    _made(runtime, "watchkeeper-00000001")
    dead = _made(runtime, "watchkeeper-00000002")
    _bound(dead / "a.sock").close()
    _bound(dead / "wake.sock", socket.SOCK_DGRAM).close()
    shared = _made(tmp_path / "shared", f"watchkeeper-{os.geteuid()}-00000003")
    assert _gone(runtime, now_s) == {"watchkeeper-00000001", "watchkeeper-00000002"}
    assert not shared.exists()


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_one_that_is_listened_at_stays(runtime: Path, now_s: float, kind: int) -> None:
    """Whole: its dead neighbours too."""
    used = _made(runtime, "watchkeeper-00000001")
    _bound(used / "dead.sock").close()
    with _bound(used / "live.sock", kind):
        assert _gone(runtime, now_s) == set()
    assert len(list(used.iterdir())) == 2
    assert _gone(runtime, now_s) == {used.name}


def test_a_listener_that_accepts_nobody_lives(runtime: Path, now_s: float) -> None:
    """A shim that is stopped: its queue is full, and it is there."""
    used = _made(runtime, "watchkeeper-00000001")
    with socket.socket(socket.AF_UNIX) as full, socket.socket(socket.AF_UNIX) as first:
        full.bind(str(used / "a.sock"))
        full.listen(0)
        first.connect(str(used / "a.sock"))
        assert _gone(runtime, now_s) == set()


def test_what_is_not_surely_ours_stays(runtime: Path, now_s: float) -> None:
    """Other names, other files, symlinks, directories that others can enter, another user's."""
    for name in ("watchkeeper-0000000", "watchkeeper-00000001-x", "watchkeeper-zzzzzzzz", "other"):
        _made(runtime, name)
    (_made(runtime, "watchkeeper-00000002") / "notes").touch()
    _made(runtime, "watchkeeper-00000003").chmod(0o755)
    (runtime / "watchkeeper-00000004").symlink_to(_made(runtime, "target"))
    (runtime / "watchkeeper-00000005").touch()
    if os.geteuid() == 0:
        os.chown(_made(runtime, "watchkeeper-00000006"), 4711, 4711)
    assert _gone(runtime, now_s) == set()


def test_what_is_new_stays(runtime: Path, now_s: float) -> None:
    """A daemon of an earlier version may be about to bind there."""
    _made(runtime, "watchkeeper-00000001")
    assert _gone(runtime, now_s - LATER) == set()
    assert len(list(dead_sockets.left_over({"XDG_RUNTIME_DIR": str(runtime)}, now_s))) == 1


def test_dead_sockets_of_a_state_directory_go(tmp_path: Path, now_s: float) -> None:
    """Those of killed shims; living ones, new ones and other files stay."""
    directory = tmp_path / "sockets"
    directory.mkdir(mode=0o700)
    _bound(directory / "dead.sock").close()
    (directory / "file").touch()
    with _bound(directory / "live.sock"):
        assert dead_sockets.clear_dead(directory, now_s - LATER) == 0
        assert dead_sockets.clear_dead(directory, now_s) == 1
    assert sorted(path.name for path in directory.iterdir()) == ["file", "live.sock"]
