"""Durations as people write them."""

import pytest

from watchkeeper.domain.duration import LONGEST_S, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("0.5", 0.5), ("90s", 90), ("15m", 900), ("1h30m", 5400), ("1.5h", 5400), ("2d", 172800), ("1w", 604800), ("100ms", 0.1),
     ("15 m", 900), ("0s", 0), (f"{LONGEST_S:.0f}s", LONGEST_S)],
)  # fmt: skip
def test_a_duration_is_seconds_or_parts_with_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "m", "1x", "-5s", "1h 30m", "\u0661h", "1h30", "1 week", "1H", "inf", "11000d", "9" * 400]
)
def test_other_texts_are_no_duration(text: str) -> None:
    assert parse_duration(text) is None
