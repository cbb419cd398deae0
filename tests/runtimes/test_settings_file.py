"""A setting is changed, and everything else in the file stays as it is."""

import tomllib
from pathlib import Path

import pytest

from watchkeeper.errors import SettingsError
from watchkeeper.runtimes.settings_file import SettingsFile

TEXT = """\
# Mine.
[run]
harness = "demo"  # for now

[queue]
limit = 3
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "config.toml"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_the_first_setting_makes_the_file(path: Path) -> None:
    """For its user alone."""
    file = SettingsFile(path)
    assert file.unset("run.harness") is False and not path.exists()
    file.set("harness.claude.account", "work")
    file.set("color", True)
    assert tomllib.loads(path.read_text(encoding="utf-8")) == {
        "color": True,
        "harness": {"claude": {"account": "work"}},
    }
    assert path.stat().st_mode & 0o777 == 0o600
    assert "[harness.claude]" in path.read_text(encoding="utf-8") and "[harness]\n" not in path.read_text(
        encoding="utf-8"
    )


def test_comments_order_and_all_else_stay(path: Path) -> None:
    """The file's rights stay, too."""
    write(path, TEXT)
    path.chmod(0o640)
    file = SettingsFile(path)
    file.set("queue.limit", 4)
    assert path.read_text(encoding="utf-8") == TEXT.replace("3", "4")
    file.set("run.labels", ["a", "b"])
    assert path.read_text(encoding="utf-8").startswith(
        '# Mine.\n[run]\nharness = "demo"  # for now\nlabels = ["a", "b"]\n'
    )
    assert file.unset("run.labels") is True
    assert path.read_text(encoding="utf-8") == TEXT.replace("3", "4")
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("key", ["run.model", "harness.demo.pace", "color"])
def test_what_is_not_set_cannot_be_taken_out(path: Path, key: str) -> None:
    write(path, TEXT)
    before = path.stat()
    assert SettingsFile(path).unset(key) is False
    assert path.stat() == before


def test_what_a_link_points_to_is_written(path: Path, tmp_path: Path) -> None:
    write(path, TEXT)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    assert SettingsFile(link).path == path
    SettingsFile(link).set("queue.limit", 5)
    assert link.is_symlink() and "limit = 5" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["[run", b"\xff", 'x = "' + "y" * 1024 * 1024 + '"'], ids=["torn", "bytes", "long"])
def test_a_file_that_cannot_be_read_is_not_written(path: Path, text: str | bytes) -> None:
    path.parent.mkdir()
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(data)
    for change in (lambda: SettingsFile(path).set("queue.limit", 4), lambda: SettingsFile(path).unset("queue.limit")):
        with pytest.raises(SettingsError) as refused:
            _ = change()
        assert str(refused.value).startswith(f"The settings in {path} cannot be changed: ")
        assert refused.value.hint == "Mend the file."
    assert path.read_bytes() == data


def test_a_change_that_would_not_be_read_back_is_refused(path: Path) -> None:
    """A value that does not equal itself, and one in place of a table."""
    write(path, TEXT)
    with pytest.raises(
        SettingsError, match=r"^'queue\.limit' cannot be changed in .* as the file is written\.$"
    ) as refused:
        SettingsFile(path).set("queue.limit", float("nan"))
    assert refused.value.hint == "Change it by hand."
    with pytest.raises(SettingsError, match="as the file is written"):
        SettingsFile(path).set("queue", 1)
    assert path.read_text(encoding="utf-8") == TEXT


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "config").symlink_to(tmp_path / "nowhere" / "config")
    file = SettingsFile(tmp_path / "new" / "config.toml")
    (tmp_path / "new").symlink_to(tmp_path / "file")
    with pytest.raises(SettingsError) as refused:
        file.set("queue.limit", 4)
    assert str(refused.value).startswith(f"The settings in {file.path} cannot be ")
