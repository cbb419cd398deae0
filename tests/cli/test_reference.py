"""The help is the reference, and the reference is the help."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from watchkeeper.cli.main import GROUPS
from watchkeeper.cli.reference import reference

if TYPE_CHECKING:
    from support.cli import Wk

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
COMMANDS = [name for names in GROUPS.values() for name in names]


def test_the_page_is_what_help_prints() -> None:
    """If this fails, run `python scripts/write_cli_reference.py`, and read the difference as a change for users."""
    assert PAGE.read_text(encoding="utf-8") == reference()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(wk: "Wk", command: str) -> None:
    """Short and long, with `-h` too, and it names no option twice."""
    answer = wk(command, "-h")
    assert answer.code == 0
    assert answer.out.startswith(f"Usage: wk {command}")
    assert len(answer.out.splitlines()) > 3


def test_the_first_page_groups_the_commands(wk: "Wk") -> None:
    """Also when nothing was typed."""
    for arguments in ([], ["--help"], ["-h"]):
        answer = wk(*arguments)
        assert answer.code == 0
        assert all(f"\n{heading}:\n" in answer.out for heading in GROUPS)
        assert all(f"\n  {name} " in answer.out for name in COMMANDS)
        assert "..." not in answer.out.replace("[ARGS]...", "")
