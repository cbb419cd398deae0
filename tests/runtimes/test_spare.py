"""Room that is kept for the hour of need really takes space, and is whole or not there."""

import errno
import os
from pathlib import Path

import pytest

from watchkeeper.runtimes import spare


def blocks(state: Path) -> int:
    return (state / spare.NAME).stat().st_blocks * 512


def test_room_is_kept_and_given_back(tmp_path: Path) -> None:
    """For its user alone, without a trace of its making; a second time it is there already."""
    assert spare.keep(tmp_path, least_free=0) is True
    found = (tmp_path / spare.NAME).stat()
    assert (found.st_size, found.st_mode & 0o777) == (spare.SIZE, 0o600)
    assert blocks(tmp_path) >= spare.SIZE
    assert [path.name for path in tmp_path.iterdir()] == [spare.NAME]
    assert spare.keep(tmp_path, least_free=1 << 60) is True
    assert (tmp_path / spare.NAME).stat().st_ino == found.st_ino
    assert spare.release(tmp_path) is True
    assert list(tmp_path.iterdir()) == []
    assert spare.release(tmp_path) is False


def test_no_room_is_taken_where_too_little_would_be_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)
    free = 10 * spare.SIZE

    class Room:
        f_bavail = free // real.f_frsize
        f_frsize = real.f_frsize

    monkeypatch.setattr(os, "statvfs", lambda _: Room)
    assert spare.keep(tmp_path, least_free=free - spare.SIZE + 1) is False
    assert list(tmp_path.iterdir()) == []
    assert spare.keep(tmp_path, least_free=free - spare.SIZE) is True


def test_what_a_crash_left_is_made_anew(tmp_path: Path) -> None:
    """But not through a link that another program has put there."""
    (tmp_path / "spare.new").write_bytes(b"x" * (spare.SIZE + 7))
    assert spare.keep(tmp_path, least_free=0)
    assert (tmp_path / spare.NAME).stat().st_size == spare.SIZE
    assert spare.release(tmp_path)
    (tmp_path / "mine").write_text("mine", encoding="utf-8")
    (tmp_path / "spare.new").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="symbolic links"):
        _ = spare.keep(tmp_path, least_free=0)
    assert (tmp_path / "mine").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL])
def test_where_space_cannot_be_reserved_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """With what is not made small."""

    def refuse(_fd: int, _start: int, _length: int) -> None:
        raise OSError(number, "No.")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    assert spare.keep(tmp_path, least_free=0)
    assert (tmp_path / spare.NAME).stat().st_size == spare.SIZE
    assert len(set((tmp_path / spare.NAME).read_bytes())) > 200


def test_a_full_disk_keeps_no_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_fd: int, _start: int, _length: int) -> None:
        raise OSError(errno.ENOSPC, "It is full.")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="It is full"):
        _ = spare.keep(tmp_path, least_free=0)
    assert not (tmp_path / spare.NAME).exists()
