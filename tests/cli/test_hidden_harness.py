"""A file that describes a harness with the name of a built-in one does not count, and that is said."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from watchkeeper.settings import user_file

if TYPE_CHECKING:
    from support.cli import Wk


@pytest.fixture
def file(wk: "Wk") -> Path:
    settings = user_file(wk.environ)
    assert settings is not None
    path = settings.parent / "harnesses" / "demo.toml"
    path.parent.mkdir(parents=True)
    path.write_text("command = ['x']", encoding="utf-8")
    return path


def test_a_hand_over_names_it_once(wk: "Wk", file: Path) -> None:
    """However many tasks are handed over; the built-in harness is used."""
    answer = wk("add", "--lines", "--harness", "demo", stdin=b"a\nb\n")
    assert answer.code == 0 and len(answer.out.split()) == 2
    assert answer.err.count(f"'{file}' does not count") == 1 and "rename the file" in answer.err
    file.rename(file.with_name("other.toml"))
    assert "does not count" not in wk("add", "--harness", "demo", "c").err


def test_the_doctor_names_it(wk: "Wk", file: Path) -> None:
    checks = [check for check in wk("doctor", "--json").json["checks"] if check["name"] == "harness demo"]
    assert [check["level"] for check in checks] == ["ok", "note"]
    assert checks[1]["detail"] == f"'{file}' does not count: the built-in harness has its name: rename the file."
