"""What holds for every test: nothing is skipped where that is asked for, and hypothesis has no deadline.

Helpers are in `tests/support` and are imported as `support.<module>` (pytest puts `tests` on the path).
"""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

# A busy machine is slow now and then; the time limit of a whole test is enough.
hypothesis.settings.register_profile("watchkeeper", deadline=None, print_blob=True)
hypothesis.settings.register_profile("quick", deadline=None, print_blob=True, max_examples=15)
hypothesis.settings.load_profile("watchkeeper")

pytest_plugins = ["support.no_skips", "support.no_left_overs"]


_MANY = 300
_LONG_S = 180.0


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long tests first in the share of each process, so that no process runs one at the end while the others have no tests left.

    A test is long by its time limit. `--dist worksteal` gives each process an equal share of the tests, in order. The order stays the same otherwise.
    """
    shares = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if shares == 1:
        return
    long = [item for item in items if _is_long(item)]
    short = [item for item in items if not _is_long(item)]
    size = len(items) // shares
    ordered: list[pytest.Item] = []
    for share in range(shares):
        ordered += long[share::shares]
        room = max((share + 1) * size - len(ordered), 0)
        ordered += short[:room]
        del short[:room]
    items[:] = ordered + short


def _is_long(item: pytest.Item) -> bool:
    limit = item.get_closest_marker("timeout")
    return limit is not None and bool(limit.args) and float(limit.args[0]) >= _LONG_S


@pytest.fixture(autouse=True)
def _few_descriptors() -> Generator[None]:
    """Collect dropped stores when many descriptors are open.

    A command leaves its store open until its process ends. Tests call many commands in one process, and a store is part of reference cycles (its connection
    calls it back while it waits), so only the cycle collector closes it. The collector counts objects, not descriptors, and would run too late.
    """
    yield
    if len(list(Path("/proc/self/fd").iterdir())) > _MANY:
        _ = gc.collect()


@pytest.fixture(autouse=True)
def _environment_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the person who runs the tests reaches a test, and none of a test's reaches the next."""
    for name in list(os.environ):
        if name.startswith("WATCHKEEPER_") and name != "WATCHKEEPER_NO_SKIPS":
            monkeypatch.delenv(name)
