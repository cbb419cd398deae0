"""One run's trouble stays its own: beside ten bad neighbours everything else continues as before."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.neighbours import Neighbourhood, p99
from support.waiting import wait_until

MANY = 12
FLOOR_S = 1.0
"""Below this a difference is the machine's own."""


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Neighbourhood]:
    """A fresh neighbourhood whose processes are all gone afterwards."""
    made = Neighbourhood.at(tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(180)
def test_ten_bad_neighbours_keep_nobody_waiting(there: Neighbourhood) -> None:
    """The stream beside them takes no more than twice as long, what they wait for is said, and the daemon ends when it is asked to."""
    there.rig.start_daemon()
    _ = there.stream(1)
    alone = there.stream(MANY)
    there.begin()
    disturbed = there.stream(MANY)
    assert p99(disturbed) <= 2 * max(p99(alone), FLOOR_S), (sorted(alone), sorted(disturbed))
    for kind in ("dead mount", "hung git"):
        detail = f"Its working directory has not answered for 5 s and more: {there.rig.root / kind.replace(' ', '-')}"
        wait_until(
            lambda kind=kind, detail=detail: detail in there.detail(kind, "show"), within_s=30, what=f"{kind} is said"
        )
        assert detail in there.detail(kind, "why")
    wait_until(lambda: there.settled("sparse log") and there.settled("pipe for a log"), within_s=30, what="the logs")
    assert there.rig.task(there.bad["sparse log"]).reason.startswith("Done")
    assert "stdout.log is a named pipe" in there.rig.task(there.bad["pipe for a log"]).reason
    there.rig.wk("stop", "--no-wait", there.bad["dead mount"])
    wait_until(
        lambda: there.settled("dead mount"), within_s=30, what="a run whose directory does not answer is stopped"
    )
    assert there.stop_daemon() < 10
