"""Bundles as ZIP files: written whole or not at all, and every change of one is found."""

import json
import os
import zipfile
from pathlib import Path

import pytest

from watchkeeper.errors import BadTask, NotFound, Refused, StateError
from watchkeeper.ports.bundles import Part
from watchkeeper.runtimes.bundle_file import ZipBundles

BUNDLES = ZipBundles()


def _parts() -> list[Part]:
    return [Part(name="a.json", pieces=[b"{}"]), Part(name="out.log", pieces=(b"x" * 1000 for _ in range(5)))]


def _write(file: Path, *, replace: bool = False) -> str:
    return BUNDLES.write(file, _parts(), {"run": "t.1"}, replace=replace).sha256


def test_a_bundle_is_private_and_checks_out(tmp_path: Path) -> None:
    """What was written is what is read, and the hash is the same."""
    file = tmp_path / "b.zip"
    digest = _write(file)
    found = BUNDLES.check(file)
    assert (found.faults, found.sha256, found.files, found.about) == ((), digest, 2, {"run": "t.1"})
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["b.zip"]


def test_a_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    """What is there stays as it is."""
    file = tmp_path / "b.zip"
    _ = file.write_text("mine")
    with pytest.raises(Refused):
        _ = _write(file)
    assert file.read_text() == "mine"
    _ = _write(file, replace=True)
    assert BUNDLES.check(file).faults == ()


def test_a_bundle_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    """A part that cannot be read must not leave half a bundle."""

    def breaks() -> "list[bytes]":
        raise OSError(5, "Input/output error")

    class Breaking:
        def __iter__(self) -> "object":
            return iter(breaks())

    with pytest.raises(StateError, match="cannot be written"):
        _ = BUNDLES.write(tmp_path / "b.zip", [Part(name="a", pieces=Breaking())], {}, replace=False)  # pyright: ignore[reportArgumentType]
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With what to do."""
    with pytest.raises(StateError, match="No such file"):
        _ = _write(tmp_path / "no" / "b.zip")


def test_no_bundle_is_told_from_no_file(tmp_path: Path) -> None:
    """Each has its own sentence."""
    with pytest.raises(NotFound):
        _ = BUNDLES.check(tmp_path / "b.zip")
    _ = (tmp_path / "b.zip").write_bytes(b"PK, or not")
    with pytest.raises(BadTask, match="is not a bundle"):
        _ = BUNDLES.check(tmp_path / "b.zip")


def test_a_changed_byte_of_any_member_is_found(tmp_path: Path) -> None:
    """Wherever it is in the file, the bundle does not check out as the one that was made."""
    file = tmp_path / "b.zip"
    digest = _write(file)
    whole = file.read_bytes()
    changed = tmp_path / "changed.zip"
    silent: list[int] = []
    for at in range(len(whole)):
        _ = changed.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            found = BUNDLES.check(changed)
        except BadTask:
            continue
        if not found.faults and found.sha256 == digest and not _same(file, changed):
            silent.append(at)
    assert silent == []


def _same(one: Path, other: Path) -> bool:
    """Whether two archives hold the same files: time stamps and attributes do not count."""

    def contents(file: Path) -> dict[str, bytes]:
        with zipfile.ZipFile(file) as archive:
            return {info.filename: archive.read(info) for info in archive.infolist()}

    return contents(one) == contents(other)


def test_a_member_that_was_added_or_taken_out_is_named(tmp_path: Path) -> None:
    """Also one that stands there twice."""
    file = tmp_path / "b.zip"
    _ = _write(file)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("more", "x")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.json", "[]")
    assert set(BUNDLES.check(file).faults) == {
        "a.json is there 2 times.",
        "a.json was changed.",
        "more is not in the manifest.",
    }
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("manifest.json", json.dumps({"format": 1, "files": [{"name": "a", "size": 0, "sha256": ""}]}))
    assert BUNDLES.check(file).faults == ("a is missing.",)


def test_nothing_is_written_outside_by_a_check(tmp_path: Path) -> None:
    """A member whose name leads out of the archive is read, and named as one too many."""
    file = tmp_path / "b.zip"
    _ = _write(file)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("../../out", "x")
    assert BUNDLES.check(file).faults == ("../../out is not in the manifest.",)
    assert not os.path.lexists(tmp_path.parent / "out")
