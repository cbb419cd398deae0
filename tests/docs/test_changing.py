"""The table of common changes names places that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "changing.md"
PLACE = re.compile(r"`([\w./-]+(?:\.py|/))`")


def rows() -> list[str]:
    """The rows of the table, without its head."""
    return [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][2:]


def test_twenty_changes_are_named() -> None:
    assert len(rows()) >= 20


def test_every_place_is_there() -> None:
    """A file that was moved must not stay in the table."""
    places = [place for row in rows() for place in PLACE.findall(row) if "NAME" not in place]
    assert len(places) > 30
    assert [place for place in places if not (ROOT / "src" / "watchkeeper" / place).exists()] == []
