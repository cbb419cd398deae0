"""What runs changed, with real processes and real git, seen as a person sees it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import Outcome, Result, TaskState


def _git(rig: Rig, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=rig.repo, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _given(rig: Rig, *command: str, options: tuple[str, ...] = (), code: int = 0) -> str:
    """Run a command in the repository and wait for its end; its task."""
    rig.keep_daemon()
    done = rig.wk("run", "--json", "--wait", "--cwd", str(rig.repo), *options, "--", *command, check=False)
    assert done.returncode == code, done.stderr.decode()
    return str(json.loads(done.stdout.splitlines()[0])["id"])


def _outcome(rig: Rig, task_id: str) -> Outcome:
    found = rig.outcome(rig.runs(task_id)[-1].id)
    assert found is not None
    return found


def _json(rig: Rig, *arguments: str) -> Any:
    return json.loads(rig.wk(*arguments, "--json").stdout)


COMMIT = "git -c user.name=t -c user.email=t@localhost commit -q"


def test_four_ends_with_exit_code_zero_are_four_outcomes(rig: Rig) -> None:
    """Commits, changed files, nothing at all, and nothing where a change is expected: every view tells them apart."""
    ends = {
        "committed": _given(rig, "sh", "-c", f"echo one > one.txt; git add one.txt; {COMMIT} -m one"),
        "changed": _given(rig, "sh", "-c", "echo two > two.txt"),
        "unchanged": _given(rig, "true"),
    }
    missing = _given(rig, "true", options=("--expect", "changes"), code=10)
    rows = {row["id"]: row for row in _json(rig, "ls")}
    assert {word: rows[task_id]["result"] for word, task_id in ends.items()} == {word: word for word in ends}
    assert (rows[missing]["result"], rows[missing]["kind"], rows[missing]["state"]) == (
        "unchanged", "nothing_changed", "needs_input",
    )  # fmt: skip
    listed = rig.wk("ls").stdout.decode()
    assert "1 commit, 1 file changed, +1 -0)" in listed
    assert "1 file changed, +1 -0, not committed)" in listed
    assert "(nothing changed)" in listed
    for word, task_id in ends.items():
        assert rig.task(task_id).state is TaskState.DONE
        assert _outcome(rig, task_id).result is Result(word)
        assert f"result    {word}" in rig.wk("show", task_id).stdout.decode()
        (waited,) = _json(rig, "wait", task_id)
        assert waited["result"] == word
    assert "nothing changed" in rig.wk("wait", ends["unchanged"]).stdout.decode()
    assert rig.task(ends["unchanged"]).spec.expect == "any"


def test_a_diff_is_of_its_run_alone_and_can_be_applied(rig: Rig) -> None:
    """The state before was dirty, and what others do afterwards is not in it."""
    (rig.repo / "mine.txt").write_text("mine\n")
    first = _given(rig, "sh", "-c", "echo its >> mine.txt; echo new > new.txt")
    _ = _given(rig, "sh", "-c", "echo later >> mine.txt; rm new.txt")
    patch = rig.wk("diff", first).stdout
    assert b"+its" in patch
    assert b"later" not in patch
    (rig.repo / "mine.txt").write_text("mine\n")
    subprocess.run(["git", "apply"], cwd=rig.repo, check=True, input=patch)
    assert (rig.repo / "mine.txt").read_text() == "mine\nits\n"
    assert (rig.repo / "new.txt").read_text() == "new\n"
    assert rig.wk("diff", first, "--name-only").stdout == b"mine.txt\nnew.txt\n"
    assert b"2 files changed, 2 insertions(+)" in rig.wk("diff", first, "--stat").stdout
    document = _json(rig, "diff", first)
    assert (document["result"], document["patch"].encode()) == ("changed", patch)
    assert "patch" not in _json(rig, "diff", first, "--stat")
    assert f"wk diff {first}" in rig.wk("show", first).stdout.decode()


def test_a_terminal_gets_the_users_own_pager(rig: Rig, tmp_path: Path) -> None:
    """With colours, as git itself would."""
    task_id = _given(rig, "sh", "-c", "echo new > new.txt")
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED; cat\n")
    pager.chmod(0o755)
    above, below = pty.openpty()
    with os.fdopen(above, "rb", closefd=True):
        shown = subprocess.Popen(
            [sys.executable, "-m", "watchkeeper", "diff", task_id],
            env={**rig.environment, "GIT_PAGER": str(pager), "TERM": "xterm"}, stdin=below, stdout=below, stderr=below,
        )  # fmt: skip
        os.close(below)
        out = b""
        while True:
            try:
                data = os.read(above, 4096)
            except OSError:  # the last of them has closed it
                break
            if not data:
                break
            out += data
        assert shown.wait() == 0
    assert b"PAGED" in out
    assert b"\x1b[32m+" in out


def test_what_cannot_be_shown_is_said(rig: Rig) -> None:
    """A directory without git has names only; a run that has not ended, and one that is not there, are errors with a next step."""
    plain = rig.root / "plain"
    plain.mkdir()
    rig.keep_daemon()
    done = rig.wk("run", "--json", "--wait", "--cwd", str(plain), "--", "sh", "-c", "echo x > x.txt")
    task_id = json.loads(done.stdout.splitlines()[0])["id"]
    refused = rig.wk("diff", task_id, check=False)
    assert (refused.returncode, refused.stdout) == (8, b"")
    assert b"is not under git" in refused.stderr
    assert rig.wk("diff", task_id, "--name-only").stdout == b"x.txt\n"
    document = _json(rig, "diff", task_id)
    assert document["patch"] is None
    assert "is not under git" in document["why_no_patch"]
    assert rig.wk("diff", task_id, "--run", "7", check=False).returncode == 3


def test_a_run_that_has_not_ended_shows_what_has_changed_so_far(rig: Rig) -> None:
    """Committed or not, against a dirty state, and with neither the agent's index nor anything else of its repository touched."""
    (rig.repo / "mine.txt").write_text("mine\n")
    rig.keep_daemon()
    go = rig.root / "go"
    script = (
        f"append mine.txt its\nwait-for {go}-1\nwrite a.txt first\ncommit First\nappend a.txt more\nwait-for {go}-2"
    )
    (rig.root / "go-0").touch()
    done = rig.wk("run", "--json", "--harness", "demo", f"wait-for {go}-0\nrun echo on\n{script}")
    live = json.loads(done.stdout.splitlines()[0])["id"]

    def seen() -> dict[str, Path | int]:
        return {
            str(path): path.stat().st_mtime_ns
            for path in (rig.repo / ".git").rglob("*")
            if "watchkeeper" not in path.parts
        }

    def patch(wanted: bytes) -> bytes:
        shown = rig.wk("diff", live, check=False)
        return shown.stdout if wanted in shown.stdout and b"has not ended" in shown.stderr else b""

    first = wait_until(lambda: patch(b"+its"), within_s=30, what="its first change is shown")
    assert b"a.txt" not in first
    (rig.root / "go-1").touch()
    wait_until(lambda: patch(b"+more"), within_s=30, what="its commit and what follows is shown")
    before = seen()
    shown = rig.wk("diff", live)
    assert b"This is what has changed so far." in shown.stderr
    document = _json(rig, "diff", live)
    assert (document["ended"], document["result"], document["patch"].encode()) == (False, None, shown.stdout)
    assert len(document["changes"]["commits"]) == 1
    assert rig.wk("diff", live, "--run", "1", "--name-only").stdout == b"a.txt\nmine.txt\n"
    _ = rig.wk("config", "set", "review.tool", "diff -r")
    opened = rig.wk("review", live, check=False)
    assert b"This is what has changed so far." in opened.stderr
    assert b"> its" in opened.stdout
    assert seen() == before
    (rig.root / "go-2").touch()
    assert rig.wait_resting(live).state is TaskState.DONE
    ended = rig.wk("diff", live)
    assert ended.stdout == shown.stdout
    assert b"so far" not in ended.stderr


def test_a_run_without_changes_so_far_says_so(rig: Rig) -> None:
    rig.keep_daemon()
    done = rig.wk("run", "--json", "--cwd", str(rig.repo), "--", "sleep", "100")
    live = json.loads(done.stdout.splitlines()[0])["id"]
    wait_until(lambda: rig.task(live).state is TaskState.RUNNING, within_s=30, what="it runs")
    wait_until(lambda: rig.runs(live)[0].agent, within_s=30, what="its agent is on record")
    assert b"changed nothing so far." in rig.wk("diff", live).stderr
    _ = rig.wk("stop", live)
    assert b"changed nothing." in rig.wk("diff", live).stderr


@pytest.mark.parametrize("how", ["rm", "prune"])
def test_what_is_kept_goes_with_its_task(rig: Rig, how: str) -> None:
    """Nothing of another task's is touched."""
    gone = _given(rig, "sh", "-c", "echo one > one.txt")
    stays = _given(rig, "sh", "-c", "echo two > two.txt")
    of = {task_id: rig.runs(task_id)[-1].execution_id for task_id in (gone, stays)}

    def kept() -> set[str]:
        return {
            ref.split("/")[3] for ref in _git(rig, "for-each-ref", "--format=%(refname)", "refs/watchkeeper").split()
        }

    assert kept() == set(of.values())
    _ = rig.wk("pin", stays)
    order = ("rm", gone) if how == "rm" else ("prune", "--older-than", "1s")
    wait_until(
        lambda: kept() == {of[stays]} or (rig.wk(*order, check=False) and False),
        within_s=30, what="what was kept is gone",
    )  # fmt: skip
    assert b"+two" in rig.wk("diff", stays).stdout


@pytest.mark.parametrize("point", ["trees.name.before", "trees.name.after"])
def test_a_settlement_whose_look_dies_says_so_and_loses_nothing(rig: Rig, point: str) -> None:
    """The run is settled all the same: its changes are unknown, and the files are where the agent left them."""
    rig.arm(point)
    rig.open_gate()
    rig.keep_daemon()
    task_id = _given(rig, "sh", "-c", "echo one > one.txt")
    assert rig.died
    outcome = _outcome(rig, task_id)
    assert outcome.result is Result.UNKNOWN
    assert (rig.repo / "one.txt").read_text() == "one\n"
    assert not rig.faults()
