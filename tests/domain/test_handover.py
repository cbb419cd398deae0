"""The same hand-over is known again, and another one is distinguished, with what differs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.domain.handover import differing, digest, is_key

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.lists(st.text()).map(tuple)
)
PARTS = st.dictionaries(st.sampled_from(["prompt", "command", "cwd", "after", "shared"]), VALUES)


@given(PARTS, PARTS)
def test_exactly_the_parts_that_differ_are_named(one: dict[str, object], other: dict[str, object]) -> None:
    """In whatever order they are given; what is not given and what is empty are the same."""
    assert digest(one) == digest(dict(reversed(one.items())))
    assert differing(digest(one), digest(other)) == tuple(
        sorted(name for name in one.keys() | other.keys() if _plain(one.get(name)) != _plain(other.get(name)))
    )


def _plain(value: object) -> str:
    """0 is a value; None, false and what is empty are not values."""
    return json.dumps(None if value is False or value in ("", ()) else value)


def test_a_text_from_the_command_line_that_is_no_utf8() -> None:
    assert differing(digest({"cwd": "/a\udcff"}), digest({"cwd": "/a\udcfe"})) == ("cwd",)


@pytest.mark.parametrize("key", ["", " a", "a ", "a\nb", "a\x1b[0m", "x" * 201, "\u202ea"])
def test_what_is_no_key(key: str) -> None:
    assert not is_key(key)
    assert is_key("nightly 2026-01-31/é")
