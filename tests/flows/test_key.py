"""A caller that is killed while it hands over repeats the same with its key, and there is one task."""

import pytest
from support.rig import Rig

HAND_OVER = ("add", "--key", "k", "--harness", "command", "--", "true")
POINTS = ["add.environment.after", "tx.add.before_commit", "tx.add.after_commit"]


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_caller_finds_its_task(rig: Rig, point: str) -> None:
    """Before the commit there was none, after it the repeat says that it is there."""
    rig.arm(point)
    rig.open_gate()
    assert rig.wk(*HAND_OVER, check=False).returncode < 0 and rig.died
    rig.disarm()
    first, again = rig.wk(*HAND_OVER), rig.wk(*HAND_OVER)
    (task,) = rig.tasks()
    assert first.stdout.decode().strip() == again.stdout.decode().strip() == task.id
    assert (b"Already handed over" in first.stderr) is (point == "tx.add.after_commit")


def test_the_second_environment_is_forgotten_however_its_caller_ends(rig: Rig) -> None:
    """One that is killed just before it forgets leaves a file that nothing names; pruning takes it."""
    first = rig.wk(*HAND_OVER).stdout.decode().strip()
    rig.arm("add.again.before")
    rig.open_gate()
    line = b'{"key": "k", "argv": ["true"], "harness": "command"}\n'
    assert rig.wk("add", "--json-lines", given=line, check=False).returncode < 0 and rig.died
    rig.disarm()
    assert rig.wk("add", "--json-lines", given=line).stdout.decode().strip() == first
    assert len(rig.tasks()) == 1
