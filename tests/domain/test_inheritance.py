"""What a process inherits, in words."""

import pytest

from watchkeeper.domain.inheritance import USUAL_UMASK, Inheritance, unusual


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, ""),
        ({"oom_score_adj": None}, ""),
        ({"umask": 0o077}, "umask 077"),
        ({"nice": 5, "oom_score_adj": 300}, "nice 5, oom_score_adj 300"),
        ({"limits": (("nofile", 64, 64),)}, "at most 64 open files"),
        ({"limits": (("cpu", 60, 60),)}, "CPU time at most 60 s"),
    ],
)
def test_only_what_is_unusual_is_told(given: dict[str, object], told: str) -> None:
    values: dict[str, object] = {"umask": USUAL_UMASK, "nice": 0, "oom_score_adj": 0, "limits": (), **given}
    assert unusual(Inheritance(**values)) == told  # pyright: ignore[reportArgumentType] - each case has the right types
