"""Kill one process at one durable step, at every step of every flow, and see that nothing is lost, doubled or left running.

The points are found by playing the flow once undisturbed with a log of the points that are reached, so a new durable step is swept from the day it is written.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.flows import FLOWS, Flow, violations
from support.rig import Rig

_AT_ONCE = 2


def _points(tmp_path: Path, flow: Flow) -> list[str]:
    """The points that an undisturbed flow reaches, and proof that it is what the flow says it is."""
    rig = Rig(tmp_path / "undisturbed")
    try:
        log = rig.record_points()
        task_id = flow.play(rig)
        assert violations(rig, flow, task_id) == []
    finally:
        rig.close()
    return sorted(set(log.read_text(encoding="utf-8").split()))


def _disturbed(tmp_path: Path, flow: Flow, point: str) -> tuple[bool, list[str]]:
    """Play the flow with one death; whether somebody died, and what does not hold."""
    rig = Rig(tmp_path / re.sub(r"[^a-z0-9_.]", "-", point))
    try:
        rig.arm(point)
        task_id = flow.play(rig)
        return rig.died, [f"{flow.name} at {point}: {said}" for said in violations(rig, flow, task_id, point=point)]
    except BaseException as problem:  # noqa: BLE001 - pytest.fail is one: a flow that does not come to its end is a violation too
        return True, [f"{flow.name} at {point}: {problem}"]
    finally:
        rig.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_one_death_anywhere_breaks_nothing(flow: Flow, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every crash point of the flow, one at a time: no violation."""
    points = _points(tmp_path, flow)
    assert len(points) > 20, "the flow reaches too few points to be the real one"
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        results = list(pool.map(lambda point: _disturbed(tmp_path, flow, point), points))
    deaths = sum(died for died, _ in results)
    broken = [said for _, found in results for said in found]
    with capsys.disabled():
        print(f"\nsweep of {flow.name}: {len(points)} points, {deaths} deaths, {len(broken)} violations")
    assert broken == []
    assert deaths >= len(points) * 3 // 4, "most points must really kill somebody, or the sweep proves nothing"
