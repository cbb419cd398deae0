"""Who may act as a machine."""

from dataclasses import replace

import pytest
from support.records import NOON, later

from watchkeeper.domain.lease import LEASE_S, RENEW_S, WATCH_S, Contest, Holder, contest

HELD = Holder(word="w.1-2", name="m1", boot_id="b1", lease_until=later(30))


@pytest.mark.parametrize(
    ("me", "found"),
    [
        (replace(HELD, word="v.1-2"), Contest.FREE),
        (replace(HELD, word="v.1-3"), Contest.TAKEN),
        (replace(HELD, word="v.1-2", boot_id="b2"), Contest.WATCH),
        (replace(HELD, word="v.1-3", boot_id="b2"), Contest.TAKEN),
        (replace(HELD, word="v.1-2", boot_id="b2", name="m2"), Contest.TAKEN),
    ],
    ids=[
        "the same directory",
        "a copy beside it",
        "after a reboot, or a cloned disk",
        "a copy after a reboot",
        "a copy on another host",
    ],
)
def test_while_a_lease_holds(me: Holder, found: Contest) -> None:
    assert contest(HELD, me, NOON) is found


def test_without_a_lease_anybody_may() -> None:
    """One that is over, or was given back, or never was."""
    stranger = Holder(word="v.9-9", name="m9", boot_id="b9")
    for until in (None, NOON, later(-1)):
        assert contest(replace(HELD, lease_until=until), stranger, NOON) is Contest.FREE


def test_a_lease_outlives_a_missed_renewal() -> None:
    """It is renewed well before it ends, and watched for longer than one renewal takes."""
    assert RENEW_S <= LEASE_S / 3 and RENEW_S < WATCH_S < LEASE_S
