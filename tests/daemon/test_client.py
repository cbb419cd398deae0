"""How a command finds the daemon or starts one, at moments that real processes meet too seldom."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from watchkeeper.daemon import client
from watchkeeper.ports.service import DaemonInfo, DaemonRequest, SpawnAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchkeeper.compose import Watchkeeper

_LEAVING = DaemonInfo(
    pid=7, start_ticks=1, boot_id="b", started_at=datetime(2026, 1, 1, tzinfo=UTC), incarnation=1, version="1", wake="w", ending="leave"
)  # fmt: skip


class _Leaving:
    """A daemon that leaves: it has its record and its lock, then its lock alone for longer than a command waits for a word, then neither."""

    def __init__(self) -> None:
        self.spawned = False
        self._looks: Iterator[DaemonInfo | None] = iter([_LEAVING, *[None] * 12])
        self._held = 13

    def send(self, request: DaemonRequest) -> bool:
        assert request is DaemonRequest.LOOK
        return False

    def info(self) -> DaemonInfo | None:
        self._held -= 1
        return next(self._looks, None)

    def is_held(self) -> bool:
        return self._held > 0

    def wait_gone(self, within_s: float) -> bool:
        assert within_s > 0
        return not self.is_held()

    def spawn(self, within_s: float) -> SpawnAnswer:
        assert within_s >= 0 and not self.is_held()
        self.spawned = True
        return SpawnAnswer.READY


def test_a_daemon_that_has_deleted_its_record_is_not_taken_for_one_that_is_starting() -> None:
    """Else the command says that a daemon is starting, and what it handed over waits until another command comes."""
    host, unit = _Leaving(), SimpleNamespace(path=Path("/nonexistent/unit"))
    parts = SimpleNamespace(daemon_host=host, store_name="", environ={}, unit=unit)
    assert client.ensure(cast("Watchkeeper", parts), within_s=0.0) is client.Ensured.STARTED
    assert host.spawned
