"""Kill `wk merge` at each of its durable steps: the next command completes what was begun, and nothing is lost or doubled."""

import json
import subprocess
from pathlib import Path

import pytest
from support.rig import Rig

from watchkeeper.domain.model import TaskState

LEAST = 20


def _git(at: Path, *arguments: str) -> str:
    command = ["git", "-C", str(at), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _named(rig: Rig) -> None:
    text = "[user]\n\tname = Ada\n\temail = ada@example.org\n"
    (rig.root / "home" / ".gitconfig").write_text(text, encoding="utf-8")


def _hand_over(rig: Rig, number: int) -> str:
    script = f"write file-{number} text {number}\ncommit Change {number}"
    done = rig.wk("run", "--json", "--harness", "demo", "--worktree", "--check", "test -d .", script)
    return str(json.loads(done.stdout)["id"])


def _died_at(rig: Rig, point: str, *command: str) -> bool:
    """Run a command that dies at that point; whether it reached it."""
    (rig.root / "died").unlink(missing_ok=True)
    rig.arm(point)
    _ = rig.wk(*command, check=False)
    rig.disarm()
    return rig.died


def _faults(rig: Rig, task_id: str, number: int, before: str) -> list[str]:
    """What does not hold after the merge of task `number` was completed."""
    tree = rig.task(task_id).spec.worktree
    assert tree is not None
    found: list[str] = []
    if _git(rig.repo, "log", "--format=%s", f"{before}..HEAD") != f"Change {number}":
        found.append("the branch has not exactly the task's commit")
    if _git(rig.repo, "status", "--porcelain"):
        found.append("the checkout of the branch is not clean")
    if (rig.repo / f"file-{number}").read_text(encoding="utf-8").strip() != f"text {number}":
        found.append("the file is not there")
    if tree.merge is not None or tree.merged is None or tree.merged.tip != _git(rig.repo, "rev-parse", "HEAD"):
        found.append(f"the record says {tree.merge}, {tree.merged}")
    if any(path.is_dir() for path in (rig.state / "merges").iterdir()):
        found.append("a directory of the merge is left")
    if f"{rig.state}/merges" in _git(rig.repo, "worktree", "list", "--porcelain"):
        found.append("git still knows a directory of the merge")
    return found


@pytest.mark.timeout(600)
def test_one_death_anywhere_in_a_merge_is_repaired_by_the_next(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    _named(rig)
    rig.settings = {"WATCHKEEPER_QUEUE_LIMIT": "4"}
    rig.start_daemon()
    rig.open_gate()
    first = _hand_over(rig, 0)
    assert rig.wait_resting(first).state is TaskState.DONE
    log = rig.record_points()
    rig.wk("merge", first)
    rig.disarm()
    points = list(dict.fromkeys(log.read_text(encoding="utf-8").split()))
    assert len(points) >= LEAST, points
    ids = [_hand_over(rig, number) for number in range(1, len(points) + 1)]
    for task_id in ids:
        assert rig.wait_resting(task_id, within_s=120).state is TaskState.DONE
    broken: list[str] = []
    reached = 0
    for number, (point, task_id) in enumerate(zip(points, ids, strict=True), 1):
        before = _git(rig.repo, "rev-parse", "HEAD")
        reached += _died_at(rig, point, "merge", task_id)
        _ = rig.wk("merge", task_id)
        broken += [f"{point}: {fault}" for fault in _faults(rig, task_id, number, before)]
    with capsys.disabled():
        print(f"\nsweep of merge: {len(points)} points, {reached} reached, {len(broken)} violations")
    assert broken == []
    assert reached >= len(points) * 9 // 10
    assert not rig.survivors()


@pytest.mark.timeout(300)
def test_a_merge_that_was_cut_off_while_it_moved_the_branch_is_settled_by_the_merge_of_another_task(rig: Rig) -> None:
    """Also where a person moved the branch meanwhile: that is never taken back."""
    _named(rig)
    rig.start_daemon()
    rig.open_gate()
    ids = [_hand_over(rig, number) for number in range(3)]
    for task_id in ids:
        assert rig.wait_resting(task_id, within_s=60).state is TaskState.DONE
    assert _died_at(rig, "merge.move.after", "merge", ids[0])
    assert "cut off" in rig.wk("show", ids[0]).stdout.decode()
    rig.wk("merge", ids[1])
    cut_off = rig.task(ids[0]).spec.worktree
    assert cut_off is not None
    assert cut_off.merged is not None
    assert _died_at(rig, "merge.lock.before", "merge", ids[2])
    _ = _git(rig.repo, "commit", "-q", "--allow-empty", "-m", "By hand")
    rig.wk("merge", ids[2])
    assert _git(rig.repo, "log", "-2", "--format=%s") == "Change 2\nBy hand"
