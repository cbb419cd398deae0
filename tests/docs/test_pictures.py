"""The pictures in docs/pictures show what the commands print now."""

import pictures
import pytest


def test_the_pictures_show_what_the_commands_print() -> None:
    """If this fails, run `just pictures`, and look at the pictures that changed. Colours and fonts do not count."""
    shown = pictures.pictures()
    assert {path.stem for path in pictures.PICTURES.glob("*.svg")} == set(shown)
    for name, text in shown.items():
        picture = (pictures.PICTURES / f"{name}.svg").read_text(encoding="utf-8")
        assert pictures.text_of(picture) == pictures.plain(text), (
            f"docs/pictures/{name}.svg is out of date; `just pictures` draws it anew."
        )


def test_no_line_of_a_picture_is_cut() -> None:
    """What the commands print on a terminal of 80 columns fits in; a path without a blank may not."""
    text = "x" * 80 + "\n" + "word " * 4 + "\nend"
    assert pictures.text_of(pictures.svg("test", text)) == pictures.plain(text)


@pytest.mark.parametrize("changed", ["a line", "a lime  and more"])
def test_another_text_is_noticed(changed: str) -> None:
    """A word more, or a letter."""
    assert pictures.text_of(pictures.svg("test", "a line  and more")) != pictures.plain(changed)


def test_every_picture_is_shown_somewhere() -> None:
    """A picture that no page shows is not looked at."""
    root = pictures.ROOT
    pages = "".join(page.read_text(encoding="utf-8") for page in [root / "README.md", *(root / "docs").glob("*.md")])
    assert [path.name for path in pictures.PICTURES.glob("*.svg") if f"pictures/{path.name})" not in pages] == []
