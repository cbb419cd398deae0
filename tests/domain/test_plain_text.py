"""Text that a terminal does not obey."""

import pytest

from watchkeeper.domain.plain_text import clean, clean_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\tb\r\nc\nd", "a    b\nc\nd"),
        ("\x1b[31mred\x07", "\u241b[31mred\u2407"),
        ("a\x00b\x7fc\x9bd", "a\u2400b\u2421c\ufffdd"),
        ("a\rb", "a\u240db"),
        ("a\u2028b\u2029c\x85d", "a b c d"),
        ("a\u00a0b\u200dc\u200cd", "a\u00a0b\u200dc\u200cd"),
        ("gpj\u202eexe", "gpj\ufffdexe"),
        ("half \ud800", "half \ufffd"),
        ("größer 続 🙂", "größer 続 🙂"),
    ],
)
def test_what_a_terminal_would_obey_is_a_picture(text: str, shown: str) -> None:
    assert clean_text(text) == shown


def test_one_line_has_single_blanks() -> None:
    assert clean("  a\n\n b\t\x1bc ") == "a b \u241bc"
