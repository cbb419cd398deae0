"""Which concurrency limits can be set."""

import pytest

from watchkeeper.domain.lanes import MOST_AT_ONCE, check_limit
from watchkeeper.errors import UsageError


@pytest.mark.parametrize("at_once", [None, 1, MOST_AT_ONCE])
def test_a_limit_that_can_be_is_taken(at_once: int | None) -> None:
    check_limit(at_once)


@pytest.mark.parametrize(
    ("at_once", "hint"), [(0, "wk queue pause"), (-1, "from 1 to"), (MOST_AT_ONCE + 1, "from 1 to")]
)
def test_a_limit_that_cannot_be_is_refused_with_what_to_do(at_once: int, hint: str) -> None:
    with pytest.raises(UsageError) as refusal:
        check_limit(at_once)
    assert hint in (refusal.value.hint or "")
