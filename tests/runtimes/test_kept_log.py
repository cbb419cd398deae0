"""Reading a log costs what is kept of it, and never waits."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from watchkeeper.ports.runtime import Hole, LogUnreadable
from watchkeeper.runtimes import kept_log
from watchkeeper.runtimes.kept_log import HEAD, LEAST, open_kept

HUGE = 60 * 1024**3
BLOCK = 64 * 1024


def _pieces(path: Path, **options: object) -> list[bytes | Hole]:
    """All of it, neighbouring bytes joined."""
    joined: list[bytes | Hole] = []
    with open_kept(path, **options) as log:  # pyright: ignore[reportArgumentType] - passed on
        assert log is not None
        for piece in log.read():
            if isinstance(piece, bytes) and joined and isinstance(joined[-1], bytes):
                joined[-1] += piece
            else:
                joined.append(piece)
    return joined


@pytest.fixture
def count_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many bytes were read from files so far."""
    real, total = os.pread, [0]

    def pread(fd: int, length: int, offset: int) -> bytes:
        data = real(fd, length, offset)
        total[0] += len(data)
        return data

    monkeypatch.setattr(os, "pread", pread)
    return lambda: total[0]


def test_sixty_gigabytes_without_data_are_one_hole(tmp_path: Path, count_read: Callable[[], int]) -> None:
    """Whatever record there is: the file system knows where nothing is."""
    path = tmp_path / "stdout.log"
    path.write_bytes(b"begin\n")
    with path.open("r+b") as log:
        log.truncate(HUGE)
        log.seek(HUGE)
        log.write(b"end\n")
    begin, hole, end = _pieces(path)
    assert isinstance(begin, bytes) and begin.rstrip(b"\0") == b"begin\n"
    assert isinstance(hole, Hole) and hole.end - hole.start > HUGE - 2 * BLOCK
    assert isinstance(end, bytes) and end.lstrip(b"\0") == b"end\n"
    assert count_read() < 4 * BLOCK


def test_a_file_that_ends_in_nothing(tmp_path: Path, count_read: Callable[[], int]) -> None:
    path = tmp_path / "stdout.log"
    path.write_bytes(b"x" * 4096)
    os.truncate(path, HUGE)
    assert _pieces(path)[1:] == [Hole(4096, HUGE)]
    assert count_read() <= BLOCK


def test_what_is_on_record_as_dropped_is_not_read_even_if_it_is_there(tmp_path: Path) -> None:
    """The record comes before the hole is punched."""
    path = tmp_path / "stdout.log"
    path.write_bytes(b"begin" + b"x" * 100 + b"end")
    assert _pieces(path, dropped=lambda: [(5, 105)]) == [b"begin", Hole(5, 105), b"end"]


def test_what_is_dropped_while_it_is_read_is_not_handed_out(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    path.write_bytes(b"begin" + b"\0" * 100 + b"end")
    looks = iter([[], [(5, 105)]])
    assert _pieces(path, dropped=lambda: next(looks, [(5, 105)])) == [b"begin", Hole(5, 105), b"end"]


def test_of_more_than_may_be_kept_both_ends_are_read(tmp_path: Path, count_read: Callable[[], int]) -> None:
    """A shim that died could not keep it small."""
    path = tmp_path / "stdout.log"
    path.write_bytes(b"a" * HEAD + b"m" * (3 * LEAST) + b"z" * BLOCK)
    begin, hole, end = _pieces(path)
    assert isinstance(begin, bytes) and begin == b"a" * HEAD
    assert isinstance(hole, Hole) and hole.start == HEAD
    assert isinstance(end, bytes) and end.endswith(b"mz" + b"z" * (BLOCK - 1))
    assert count_read() <= LEAST


def test_a_log_that_grows_is_read_as_far_as_it_went(tmp_path: Path) -> None:
    """Leftovers may write forever."""
    path = tmp_path / "stdout.log"
    path.write_bytes(b"x" * (3 * kept_log.CHUNK))
    got = 0
    with open_kept(path) as log, path.open("ab") as more:
        assert log is not None
        for piece in log.read():
            assert isinstance(piece, bytes)
            got += len(piece)
            more.write(b"y" * len(piece))
            more.flush()
    assert got == 3 * kept_log.CHUNK


def test_a_bounded_look_reads_on_from_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    path.write_bytes(b"0123456789")
    with open_kept(path) as log:
        assert log is not None
        assert list(log.read(0, 4)) == [b"0123"]
        assert list(log.read(4, 4)) == [b"4567"]
        assert list(log.read(8, 4)) == [b"89"]
        assert list(log.read(10, 4)) == []
        assert log.tail(3) == b"789"


def test_a_log_in_very_many_pieces_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of which may cost a look at the file system."""
    monkeypatch.setattr(kept_log, "_MOST_PIECES", 3)
    path = tmp_path / "stdout.log"
    with path.open("wb") as log:
        for number in range(10):
            log.seek(number * 2 * BLOCK)
            log.write(b"%d" % number)
    text = b"".join(piece for piece in _pieces(path) if isinstance(piece, bytes))
    assert text.replace(b"\0", b"") == b"0123456789"


@pytest.mark.parametrize("kind", ["a named pipe", "a link", "a directory", "a socket", "a device"])
def test_what_is_no_log_is_said_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "stdout.log"
    match kind:
        case "a named pipe":
            os.mkfifo(path)
        case "a link":
            path.symlink_to(tmp_path / "elsewhere")
        case "a directory":
            path.mkdir()
        case "a socket":
            import socket

            with socket.socket(socket.AF_UNIX) as made:
                made.bind(os.path.relpath(path))
        case _:
            if os.geteuid() != 0:
                path.symlink_to("/dev/zero")
                kind = "a link"
            else:
                os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))
    with pytest.raises(LogUnreadable, match=f"stdout.log is {kind}"), open_kept(path):
        pass


def test_one_that_is_not_there_is_none(tmp_path: Path) -> None:
    with open_kept(tmp_path / "stdout.log") as log:
        assert log is None
