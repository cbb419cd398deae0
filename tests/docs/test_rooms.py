"""The pictures in docs/architecture.md are those of the source and of a real task."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import write_rooms


@pytest.mark.parametrize(("name", "text"), [("rooms", write_rooms.rooms), ("walk", write_rooms.walk)])
def test_the_page_shows_what_is_so(name: str, text: "write_rooms.Text") -> None:
    """If this fails, run `just rooms`, and read the difference."""
    page = write_rooms.PAGE.read_text(encoding="utf-8")
    assert page == write_rooms.replaced(page, name, text()), (
        "docs/architecture.md is out of date; `just rooms` writes it anew."
    )


def test_a_page_without_markers_is_refused() -> None:
    """Rather than losing a picture silently."""
    with pytest.raises(ValueError, match="no markers of 'rooms'"):
        _ = write_rooms.replaced("# How it works\n", "rooms", "")
