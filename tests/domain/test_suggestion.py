"""A suggestion for a name that is mistyped."""

import pytest

from watchkeeper.domain.suggestion import did_you_mean

KNOWN = ("queue.limit", "stop.grace", "environment.names")


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("stop.grce", " Did you mean 'stop.grace'?"),
        ("queue.limits", " Did you mean 'queue.limit'?"),
        ("stop.grace", " Did you mean 'stop.grace'?"),
        ("xyz", ""),
        ("", ""),
    ],
)
def test_the_closest_name_is_suggested_if_one_is_close(name: str, detail: str) -> None:
    assert did_you_mean(name, KNOWN) == did_you_mean(name, iter(KNOWN)) == detail


def test_of_equally_close_names_one_is_suggested() -> None:
    """The same one, in whichever order they are known."""
    assert did_you_mean("aac", ["aab", "aad"]) == did_you_mean("aac", ["aad", "aab"]) != ""


def test_nothing_is_suggested_where_nothing_is_known() -> None:
    assert did_you_mean("stop", ()) == ""
