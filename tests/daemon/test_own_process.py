"""The process that a daemon is."""

import sys
from collections.abc import Iterator

import pytest

from watchkeeper.daemon.own_process import take_short_turns


@pytest.fixture
def as_before() -> Iterator[None]:
    """The interval of this process stays as it is."""
    usual = sys.getswitchinterval()
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("as_before")
def test_a_thread_that_computes_gives_way_within_a_millisecond() -> None:
    """A loop that makes a hundred calls which block waits for the interpreter after each of them."""
    sys.setswitchinterval(0.005)
    take_short_turns()
    assert sys.getswitchinterval() <= 0.001
