"""Waiting for something that another process does: the one place where a test sleeps."""

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")

POLL_S = 0.005
LONGEST_POLL_S = 0.05


def wait_until(condition: Callable[[], T | None], *, within_s: float = 10.0, what: str) -> T:
    """Wait until `condition()` is true and return what it returned.

    `what` completes the sentence "... did not happen within 10 s", for example "the shim has written exit.json".
    Fails the test when the time is over; the condition is looked at once more after that, so a stalled machine
    alone fails nothing.
    """
    deadline = time.monotonic() + within_s
    pause = POLL_S
    while True:
        late = time.monotonic() >= deadline
        result = condition()
        if result:
            return result
        if late:
            pytest.fail(f"waited {within_s:g} s in vain: {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_POLL_S)
