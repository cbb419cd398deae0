"""The table of common changes names places that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "changing.md"
PLACE = re.compile(r"`([\w./-]+(?:\.(?:py|sql|md)|/))`")


def rows() -> list[str]:
    """The rows of the table, without its head."""
    return [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][2:]


def test_twenty_changes_are_named() -> None:
    assert len(rows()) >= 20


def test_every_place_is_there() -> None:
    """A file that was moved must not stay in the table."""
    places = [place for row in rows() for place in PLACE.findall(row) if "NAME" not in place]
    assert len(places) > 40
    assert [place for place in places if not where(place).exists()] == []


def test_a_change_has_at_most_three_places() -> None:
    """The two alternatives of a row count as one."""
    for row in rows():
        places = PLACE.findall(re.sub(r"` or `[^`]*`", "`", row))
        assert 0 < len(places) <= 3 or ".toml" in row or "one module" in row, row


def where(place: str) -> Path:
    """The file or folder that a row names."""
    return ROOT / place if place.startswith("docs/") else ROOT / "src" / "watchkeeper" / place
