"""Output that will not be kept is taken at a pace; output that will be is not."""

from datetime import datetime
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from shim.stage import Bench, sh

from watchkeeper.shim import pipes
from watchkeeper.shim.output import Output
from watchkeeper.shim.pace import RATE, SHORTEST_S, Pace

MIB = 1024 * 1024


@given(st.lists(st.integers(min_value=1, max_value=4 * MIB), min_size=1, max_size=200))
def test_an_agent_that_prints_without_end_is_taken_at_the_rate(turns: list[int]) -> None:
    """Rests are counted from what was taken, so neither many small turns nor a few large ones go faster."""
    pace, now, end = Pace(0), 100.0, 0
    for turn in turns:
        end += turn
        rest_s = pace.rest_s(end, now)
        assert rest_s == 0 or rest_s >= SHORTEST_S
        now += rest_s
        assert end <= RATE * (now - 100.0 + SHORTEST_S)


def test_up_to_the_limit_nothing_is_slowed_down() -> None:
    pace = Pace(64 * MIB)
    assert [pace.rest_s(end * MIB, 5.0) for end in range(1, 65)] == [0.0] * 64
    assert pace.rest_s(128 * MIB, 5.0) == 0.5


def test_a_pause_is_not_made_up_for() -> None:
    """Else an hour of silence would be followed by minutes at full speed."""
    pace = Pace(0)
    assert pace.rest_s(MIB, 10.0) == 0
    assert pace.rest_s(1 + 129 * MIB, 3600.0) > 0.99


def test_a_supervisor_that_comes_later_does_not_count_what_was_taken_before(tmp_path: Path) -> None:
    """The daemon continues a long log at once."""
    directory = pipes.os.open(tmp_path, pipes.os.O_RDONLY)
    ours, agents = pipes.make(directory, "stdout")
    with (tmp_path / "stdout.log").open("wb") as log:
        _ = log.truncate(60 * 1024 * MIB)
    said: list[str] = []
    output = Output(directory, MIB, {"stdout": ours}, said.append)
    try:
        _ = pipes.os.write(agents, b"more\n")
        assert output.take(ours)
        assert output.rest_s(ours) == 0
    finally:
        output.close()
        for fd in (agents, directory):
            pipes.os.close(fd)


def test_an_agent_waits_for_output_beyond_the_limit_and_all_of_it_is_taken(bench: Bench) -> None:
    execution = bench.execution(sh("head -c 100663296 /dev/zero"), log_limit_bytes=2 * MIB)
    assert execution.run() == 0
    assert (execution.path / "stdout.log").stat().st_size == 96 * MIB
    took = _at(execution.record("exit.json"), "at") - _at(execution.record("proc.json"), "started_at")
    assert took.total_seconds() > 80 * MIB / RATE, "all but what is below the limit, and the last turns, was paid for"


def _at(record: Any, key: str) -> datetime:
    return datetime.fromisoformat(record[key])
