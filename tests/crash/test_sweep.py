"""Kill one process at one durable step, at every step of every flow, and see that nothing is lost, doubled or left running.

The points are found by playing the flow once undisturbed with a log of the points that are reached, so a new durable step is swept from the day it is written.
"""

import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.flows import FLOWS, Flow, play_late, violations
from support.rig import Rig
from support.stores import fresh_place

import watchkeeper

_AT_ONCE = 2
_BY_NAME = {flow.name: flow for flow in FLOWS}


def _points(root: Path, flow: Flow) -> list[str]:
    """The points that an undisturbed flow reaches, in order, and proof that it is what the flow says it is."""
    rig = Rig(root / f"undisturbed-{flow.name}")
    try:
        log = rig.record_points()
        task_id = flow.play(rig)
        assert violations(rig, flow, task_id) == []
    finally:
        rig.close()
    return list(dict.fromkeys(log.read_text(encoding="utf-8").split()))


def _own(root: Path, flow: Flow, other: Flow) -> set[str]:
    """The points that the flow reaches each time it is played, and the other flow never: what depends on how processes happen to meet is left out."""
    again, first, second = (root / name for name in ("again", "other", "other-again"))
    for each in (again, first, second):
        each.mkdir()
    return set(_points(again, flow)) - set(_points(first, other)) - set(_points(second, other))


def _play(
    root: Path, flow: Flow, point: str, play: Callable[[Rig], str], source: Path | None = None
) -> tuple[bool, list[str]]:
    """Play the flow with one disturbance; whether it took place, and what does not hold."""
    rig = Rig(root / re.sub(r"[^a-z0-9_.]", "-", point), source=source)
    try:
        task_id = play(rig)
        return rig.died, [f"{flow.name} at {point}: {said}" for said in violations(rig, flow, task_id, point=point)]
    except BaseException as problem:  # noqa: BLE001 - pytest.fail is one: a flow that does not come to its end is a violation too
        return True, [f"{flow.name} at {point}: {problem}"]
    finally:
        rig.close()


def _kill_at(root: Path, flow: Flow, point: str) -> tuple[bool, list[str]]:
    def play(rig: Rig) -> str:
        rig.arm(point)
        return flow.play(rig)

    return _play(root, flow, point, play)


def _report(capsys: pytest.CaptureFixture[str], what: str, results: list[tuple[bool, list[str]]]) -> None:
    deaths = sum(died for died, _ in results)
    broken = [said for _, found in results for said in found]
    with capsys.disabled():
        print(f"\n{what}: {len(results)} points, {deaths} reached, {len(broken)} violations")
    assert broken == []
    assert deaths >= len(results) * 9 // 10, "nearly every point must really be reached, or the sweep proves nothing"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", _BY_NAME)
def test_one_death_anywhere_breaks_nothing(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every crash point of the flow, one at a time: no violation."""
    flow = _BY_NAME[name]
    points = _points(tmp_path, flow)
    assert len(points) >= flow.least, "the flow reaches too few points to be the real one"
    if flow.without:
        points = sorted(set(points) & _own(tmp_path, flow, _BY_NAME[flow.without]))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        results = list(pool.map(lambda point: _kill_at(tmp_path, flow, point), points))
    _report(capsys, f"sweep of {name}", results)


@pytest.mark.timeout(900)
def test_a_shim_that_comes_late_breaks_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A shim that stands still at any point before its agent begins, while the daemon dies and comes back, launches at most once."""
    flow = _BY_NAME["launch"]
    reached = [point for point in _points(tmp_path, flow) if point.startswith("shim.") and "spawn" not in point]
    points = reached[: reached.index("shim.release.after")]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        results = list(pool.map(lambda point: _play(tmp_path, flow, point, lambda rig: play_late(rig, point)), points))
    _report(capsys, "late shims", results)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["add", "stop"])
def test_one_death_around_a_transaction_of_a_server(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On PostgreSQL: every transaction of the flow, before and after its commit, one death at a time."""
    flow = _BY_NAME[name]

    def on_server(root: Path, play: Callable[[Rig], str], point: str = "") -> tuple[bool, list[str], list[str]]:
        with fresh_place("postgres", empty=True) as url:
            rig = Rig(root, settings={"WATCHKEEPER_STORE_URL": url})
            try:
                log = None if point else rig.record_points()
                if point:
                    rig.arm(point)
                task_id = play(rig)
                found = [f"{name} at {point}: {said}" for said in violations(rig, flow, task_id, point=point)]
                points = log.read_text(encoding="utf-8").split() if log is not None else []
                return rig.died, found, list(dict.fromkeys(points))
            except BaseException as problem:  # noqa: BLE001 - as above
                return True, [f"{name} at {point}: {problem}"], []
            finally:
                rig.close()

    _, broken, reached = on_server(tmp_path / "undisturbed", flow.play)
    assert broken == []
    points = [point for point in reached if point.startswith("tx.")]
    assert len(points) >= 8, points
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        played = pool.map(lambda point: on_server(tmp_path / point.replace("/", "-"), flow.play, point), points)
        results = [(died, found) for died, found, _ in played]
    _report(capsys, f"sweep of {name} on a server", results)


_MUTANTS = {
    "the shim does not mind the decision": (
        "shim/__main__.py",
        'if not records.publish(directory, "decide", _decision()):',
        'if not records.publish(directory, "decide", _decision()) and False:',
        "shim.lock.before",
    ),
    "the recorded pid alone says whether anything runs": (
        "domain/evidence.py",
        "    if evidence.lock is LockState.HELD:\n        if evidence.agent is None:\n            return Verdict(kind=VerdictKind.WAITING,",
        "    if evidence.lock is LockState.HELD:\n        if evidence.agent is None:\n            return Verdict(kind=VerdictKind.NEVER_LAUNCHED,",
        "shim.fork.before",
    ),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", _MUTANTS)
def test_the_sweep_sees_a_broken_protocol(name: str, tmp_path: Path) -> None:
    """Without the check of the decision, or with trust in the pid alone, an agent begins that should not; the same look finds it."""
    file, sound, broken, point = _MUTANTS[name]
    source = tmp_path / "mutant"
    shutil.copytree(
        Path(watchkeeper.__file__).parent, source / "watchkeeper", ignore=shutil.ignore_patterns("__pycache__")
    )
    text = (source / "watchkeeper" / file).read_text(encoding="utf-8")
    assert text.count(sound) == 1, "the mutant no longer fits the source"
    (source / "watchkeeper" / file).write_text(text.replace(sound, broken), encoding="utf-8")
    died, found = _play(tmp_path, _BY_NAME["launch"], point, lambda rig: play_late(rig, point), source)
    assert died
    assert any("began" in said for said in found), found
