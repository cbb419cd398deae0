"""Ten tasks on ten worktrees of one repository, by three kinds of agents, while daemons and a shim are killed: outcomes are true, and diffs are the scripts."""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.mixed_rig import MixedRig
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import OutcomeStatus, Proof, Result, TaskState
from watchkeeper.domain.worktree import Worktree
from watchkeeper.errors import Exit
from watchkeeper.runtimes import proc
from watchkeeper_testing.stub_model import StubModel

pytestmark = [
    pytest.mark.claude,
    pytest.mark.codex,
    pytest.mark.timeout(1200),  # the first of these tests may have to fetch the programs
]

Tree = dict[str, str]
"""The files of a checkout, by their paths."""

BEGIN: Tree = {"README": "A repository.\n", "app/main.py": "print('one')\nprint('two')\n", "old name.txt": "old\n"}
IDENTITY = "-c user.name=agent -c user.email=agent@example.org"


@dataclass(frozen=True, slots=True)
class Part:
    """What one task is to do, and what its checkout holds afterwards."""

    name: str
    harness: str
    script: str | list[dict[str, Any]]
    after: Tree
    commits: int


@pytest.fixture
def rig(claude_code: Path, codex_program: Path, stub: StubModel, tmp_path: Path) -> Iterator[MixedRig]:
    made = MixedRig(
        tmp_path / "rig",
        programs=(claude_code, codex_program),
        stub=stub,
        settings={"WATCHKEEPER_QUEUE_LIMIT": "10"},
    )
    yield made
    made.close()


def _git(at: Path, *arguments: str, given: bytes | None = None) -> str:
    command = ["git", "-C", str(at), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, input=given).stdout.decode().strip()


def _shell(command: str) -> dict[str, Any]:
    return {"text": "I run it.", "tools": [{"do": "shell", "command": command}]}


def _write(name: str, content: str) -> dict[str, Any]:
    return {"text": "I write.", "tools": [{"do": "write", "path": "{{cwd}}/" + name, "content": content}]}


def _demo(number: int, go: Path) -> Part:
    """Commit a change of one file and a new one, delete another, leave one that is not committed."""
    name = f"demo-{number}"
    script = "\n".join(
        (
            "append app/main.py print('three')",
            f"write ünïcode/{name}.txt by {name}",
            "run rm 'old name.txt'",
            f"commit Change of {name}",
            f"write {name}.txt not committed",
            f"wait-for {go}",
            f"append {name}.txt at the end",
            "say Done.",
        )
    )
    after = {
        "README": BEGIN["README"],
        "app/main.py": BEGIN["app/main.py"] + "print('three')\n",
        f"ünïcode/{name}.txt": f"by {name}\n",
        f"{name}.txt": "not committed\nat the end\n",
    }
    return Part(name, "demo", script, after, 1)


def _claude(number: int) -> Part:
    """Write a file, commit it with a change of another, then change it again."""
    name = f"claude-{number}"
    turns = [
        _write(f"{name}.txt", "first\n"),
        {
            **_shell(f"echo changed >> README && git add . && git {IDENTITY} commit -qm 'Change of {name}'"),
            "hold": name,
        },
        _shell(f"echo second >> {name}.txt"),
        {"text": "All done."},
    ]
    return Part(
        name, "claude", turns, {**BEGIN, "README": "A repository.\nchanged\n", f"{name}.txt": "first\nsecond\n"}, 1
    )


def _codex(number: int) -> Part:
    """Write a file, move another; its sandbox lets it commit nothing."""
    name = f"codex-{number}"
    turns = [
        _write(f"{name}.txt", "first\n"),
        {**_shell(f"mv 'old name.txt' moved-{number}.txt"), "hold": name},
        {"text": "All done."},
    ]
    after = {**BEGIN, f"{name}.txt": "first\n", f"moved-{number}.txt": "old\n"}
    del after["old name.txt"]
    return Part(name, "codex", turns, after, 0)


def _doomed() -> Part:
    """Add a line, wait, add another. Its shim dies between them, and a second run does both again."""
    line = _shell("echo line >> doomed.txt")
    return Part("doomed", "claude", [line, {**line, "hold": "doomed"}, {"text": "All done."}], {}, 0)


def _shown(rig: MixedRig, task_id: str, number: int, base: Tree, at: Path) -> Tree:
    """What `wk diff` makes of a checkout with these files, as git applies it."""
    at.mkdir()
    _ = _git(at, "init", "-q")
    for path, content in base.items():
        Path(at, path).parent.mkdir(parents=True, exist_ok=True)
        Path(at, path).write_text(content, encoding="utf-8")
    patch = rig.wk("diff", task_id, "--run", str(number)).stdout
    _ = _git(at, "apply", given=patch)
    return _files(at)


def _files(at: Path) -> Tree:
    found = [path for path in at.rglob("*") if path.is_file() and ".git" not in path.relative_to(at).parts]
    return {str(path.relative_to(at)): path.read_text(encoding="utf-8") for path in found}


def _tree(rig: MixedRig, task_id: str) -> Worktree:
    tree = rig.task(task_id).spec.worktree
    assert tree is not None
    return tree


def _shim(rig: MixedRig, task_id: str) -> int:
    agent = wait_until(lambda: rig.runs(task_id)[-1].agent, what="the agent is on record")
    found = proc.stat_of(agent.pid)
    assert found is not None
    assert str(rig.state / "executions").encode() in Path(f"/proc/{found.parent}/cmdline").read_bytes()
    return found.parent


def _let_go(rig: MixedRig, parts: list[Part], go: Path) -> None:
    for part in parts:
        if part.harness == "demo":
            (go / part.name).touch()
        else:
            rig.release(part.name)


def _ended(rig: MixedRig, task_id: str) -> None:
    """Wait until the shim of a task has ended."""
    execution = rig.runs(task_id)[-1].execution_id
    wait_until((rig.state / "executions" / execution / "gone.json").exists, within_s=60, what=f"{task_id} has ended")


def test_ten_tasks_three_dead_daemons_and_a_dead_shim(rig: MixedRig, tmp_path: Path) -> None:  # noqa: PLR0915 - one story
    for path, content in BEGIN.items():
        Path(rig.repo, path).parent.mkdir(exist_ok=True)
        Path(rig.repo, path).write_text(content, encoding="utf-8")
    _ = _git(rig.repo, "add", ".")
    _ = _git(rig.repo, "commit", "-qm", "More")
    head, refs = _git(rig.repo, "rev-parse", "HEAD"), _git(rig.repo, "for-each-ref")
    go = rig.root / "go"
    go.mkdir()
    parts = [*(_claude(number) for number in range(3)), _doomed(), *(_codex(number) for number in range(3))]
    parts += [_demo(number, go / f"demo-{number}") for number in range(3)]

    rig.start_daemon()
    ids = {part.name: rig.give(part.harness, part.name, part.script, "--worktree") for part in parts}
    rig.kill_daemon()  # while worktrees are made
    rig.start_daemon()
    for part in parts:
        if part.harness == "demo":
            written = Path(_tree(rig, ids[part.name]).path, f"{part.name}.txt")
            wait_until(written.exists, within_s=90, what=f"{part.name} has begun")
        else:
            rig.wait_held(part.name)
    assert {rig.task(task_id).state for task_id in ids.values()} == {TaskState.RUNNING}, "all ten work at once"

    shim = _shim(rig, ids["doomed"])
    rig.kill_daemon()
    os.kill(shim, signal.SIGKILL)
    alone = [part for part in parts if part.name.endswith("-0")]
    _let_go(rig, alone, go)
    for part in alone:
        _ended(rig, ids[part.name])  # without a daemon
    rig.start_daemon()
    rig.kill_daemon()  # while it settles these
    _let_go(rig, [part for part in parts if part not in alone and part.name != "doomed"], go)
    rig.start_daemon()

    for part in parts:
        task_id = ids[part.name]
        task = rig.wait_resting(task_id, within_s=90)
        *early, run = rig.runs(task_id)
        # A launch that a death of the daemon cut off before its agent began is tried again.
        assert {each.kind for each in early} <= {FailureKind.NEVER_LAUNCHED}, part
        outcome = rig.outcome(run.id)
        if part.name == "doomed":
            assert (task.state, task.kind) == (TaskState.HELD, FailureKind.LOST)
            continue
        assert outcome is not None
        assert (task.state, outcome.status, outcome.proof) == (TaskState.DONE, OutcomeStatus.SUCCEEDED, Proof.PROVEN)
        assert outcome.result is (Result.COMMITTED if part.commits else Result.CHANGED), part
        assert outcome.changes is not None
        assert (len(outcome.changes.commits), outcome.changes.beside) == (part.commits, ()), part
        assert _shown(rig, task_id, run.number, BEGIN, tmp_path / part.name) == part.after
        assert _files(Path(_tree(rig, task_id).path)) == part.after
        _assert_can_be_taken_over(rig, task_id, part)
    assert rig.survivors() == []

    doomed = ids["doomed"]
    once, thrice = ({**BEGIN, "doomed.txt": "line\n" * times} for times in (1, 3))
    assert _shown(rig, doomed, rig.runs(doomed)[-1].number, BEGIN, tmp_path / "held") == once
    rig.release("doomed")
    rig.service = rig.services["doomed"]
    rig.wk("retry", doomed)
    assert rig.wait_resting(doomed).state is TaskState.DONE
    *_, first, second = rig.runs(doomed)
    assert [run.kind for run in (first, second)] == [FailureKind.LOST, None]
    untold = rig.wk("diff", doomed, "--run", str(first.number), check=False)
    assert untold.returncode == Exit.REFUSED
    assert b"it was given up before its changes were looked at" in untold.stderr
    assert _shown(rig, doomed, second.number, once, tmp_path / "doomed") == thrice
    assert _files(Path(_tree(rig, doomed).path)) == thrice
    _let_all_go(rig, list(ids.values()), doomed, head, refs)


def _assert_can_be_taken_over(rig: MixedRig, task_id: str, part: Part) -> None:
    """`wk show` prints how to continue in the program itself, in the worktree."""
    shown = rig.wk("show", task_id).stdout.decode()
    taken = [line.split(maxsplit=2)[2] for line in shown.splitlines() if line.startswith("take over")]
    outcome = rig.outcome(rig.runs(task_id)[-1].id)
    assert outcome is not None
    programs = {"claude": "claude --resume", "codex": "codex resume"}
    there = f"cd {_tree(rig, task_id).path} && "
    assert taken == ([f"{there}{programs[part.harness]} {outcome.harness_session}"] if part.harness in programs else [])


def _let_all_go(rig: MixedRig, ids: list[str], unproven: str, head: str, refs: str) -> None:
    """Merge the branches one after another, remove every task, and look for what is left."""
    assert _git(rig.repo, "status", "--porcelain") == "", "no agent worked in the checkout"
    assert _git(rig.repo, "rev-parse", "HEAD") == head
    assert not rig.faults()
    for key, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        _ = _git(rig.repo, "config", key, value)
    taken_over = 0
    for task_id in ids:
        tree = _tree(rig, task_id)
        _ = _git(Path(tree.path), "add", ".")
        _ = _git(Path(tree.path), "commit", "-qm", "The rest", "--allow-empty")
        if task_id == unproven:  # only on a person's word, and its worktree apart
            _ = _git(rig.repo, "tag", f"kept-{task_id}", tree.branch)
            assert rig.wk("rm", task_id, check=False).returncode == Exit.REFUSED
            rig.wk("rm", task_id, "--force", "--keep-worktree")
            rig.wk("worktree", "clean", task_id)
            _ = _git(rig.repo, "tag", "-d", f"kept-{task_id}")
            continue
        changed = _git(rig.repo, "diff", "--name-only", "-z", "--no-renames", tree.base, tree.branch).rstrip("\0")
        before, merge = _git(rig.repo, "rev-parse", "HEAD"), rig.wk("merge", task_id, check=False)
        if merge.returncode != 0:  # another task has moved the same files elsewhere
            assert b"conflict with master" in merge.stderr
            rig.wk("merge", task_id, "--abort")
            assert _git(rig.repo, "rev-parse", "HEAD") == before
            rig.wk("rm", task_id, "--discard")
            continue
        taken_over += 1
        differs = _git(rig.repo, "diff", "--no-renames", "HEAD", tree.branch, "--", *changed.split("\0"))
        assert changed and differs == "", "each file that it changed is as it left it"
        rig.wk("rm", task_id)
    rig.wk("daemon", "stop")
    assert rig.daemons[-1].wait(20) == 0
    assert taken_over >= 3
    merged = _git(rig.repo, "rev-list", "--reverse", f"{head}..HEAD").split()
    assert _git(rig.repo, "rev-parse", f"{merged[0]}^") == head, "one line of commits, from where all began"
    assert _git(rig.repo, "rev-list", "--merges", f"{head}..HEAD") == ""
    assert _git(rig.repo, "status", "--porcelain") == "", "the checkout has what was merged"
    left = _git(rig.repo, "for-each-ref").splitlines()
    salvaged = [line for line in left if "\trefs/watchkeeper/salvage/" in line]
    assert len(salvaged) == len(ids), "each removal can be undone"
    rest = "\n".join(line for line in left if line not in salvaged)
    assert rest == refs.strip().replace(head, merged[-1]), "neither branches nor names of kept files"
    assert _git(rig.repo, "worktree", "list", "--porcelain").count("worktree ") == 1
    assert list((rig.state / "worktrees").iterdir()) == []
    assert list((rig.state / "executions").iterdir()) == []
    assert list(rig.temporary.glob("watchkeeper-*")) == []
    assert rig.survivors() == []
