"""The printed tables are those of the code."""

from pathlib import Path

import pytest

from watchkeeper.domain.evidence import VerdictKind
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import Disposition, RunState, TaskState
from watchkeeper.domain.run_events import (
    RUN_EVENTS,
)
from watchkeeper.domain.tables import TABLES, with_tables
from watchkeeper.domain.task import TASK_EVENTS

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_the_page_of_the_rules_says_what_the_code_does() -> None:
    """If this fails, run `just tables`, and read the difference as a change of the rules."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tables(page), "docs/rules.md is not what the code does; `just tables` writes it anew."


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("runs", [*RunState, *(event.__name__ for event in RUN_EVENTS)]),
        ("tasks", [*TaskState, *(event.__name__ for event in TASK_EVENTS)]),
        ("failures", list(FailureKind)),
        ("evidence", list(VerdictKind)),
        ("dispositions", list(Disposition)),
    ],
)
def test_no_table_leaves_anything_out(table: str, words: list[str]) -> None:
    """Every state, event, kind, verdict and disposition appears, and every line has the same number of cells."""
    text = TABLES[table]()
    assert [word for word in words if word not in text] == []
    assert len({line.count("|") for line in text.splitlines()}) == 1


def test_a_page_without_markers_is_refused() -> None:
    """Rather than losing a table silently."""
    with pytest.raises(ValueError, match="markers of the table 'runs'"):
        with_tables("# The rules\n")
