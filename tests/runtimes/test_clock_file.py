"""What the clocks said at the last look is kept as it was; a record that is damaged counts as none."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from runtimes.stage import AT

from watchkeeper.domain.clocks import Jump, Reading, Watched
from watchkeeper.runtimes import atomic
from watchkeeper.runtimes.boot import boot_id
from watchkeeper.runtimes.clock_file import ClockFile

HOUR = timedelta(hours=1)
WATCHED = Watched(
    reading=Reading(boot_id="b", boottime_s=12.5, wall=AT),
    jumps=(Jump(before=AT - 5 * HOUR, after=AT - 4 * HOUR), Jump(before=AT - 2 * HOUR, after=AT - HOUR)),
)


def test_a_look_is_kept_as_it_was(tmp_path: Path) -> None:
    file = ClockFile(tmp_path)
    assert file.boot_id() == boot_id()
    assert file.last() is None
    file.keep(WATCHED)
    assert ClockFile(tmp_path).last() == WATCHED
    without = Watched(reading=WATCHED.reading)
    file.keep(without)
    assert file.last() == without


@pytest.mark.parametrize(
    "changes",
    [{name: None} for name in ("boot_id", "boottime_s", "wall", "jumps")]
    + [{"wall": "2026-01-02T03:04:05"}, {"wall": "noon"}, {"boottime_s": "x"}, {"jumps": [["2026-01-02T03:04:05", AT.isoformat()]]},
       {"jumps": [[AT.isoformat()]]}],
)  # fmt: skip
def test_a_damaged_record_counts_as_none(tmp_path: Path, changes: dict[str, object]) -> None:
    """Least of all a time without a zone is guessed."""
    file = ClockFile(tmp_path)
    file.keep(WATCHED)
    record = json.loads(atomic.unsealed((tmp_path / "clock.json").read_bytes()))
    made = {name: value for name, value in (record | changes).items() if value is not None}
    (tmp_path / "clock.json").write_bytes(atomic.encode(made))
    assert file.last() is None
    (tmp_path / "clock.json").write_bytes(b"")
    assert file.last() is None
