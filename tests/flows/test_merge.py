"""Merging the branches of tasks, with real tasks, real git and real checks."""

import json
import subprocess
from pathlib import Path

import pytest
from support.flow_words import refused
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import TaskState
from watchkeeper.domain.worktree import Worktree
from watchkeeper.errors import Exit
from watchkeeper.runtimes import proc


def _git(at: Path, *arguments: str) -> str:
    command = ["git", "-C", str(at), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _named(rig: Rig) -> None:
    """Say who the user is, as `git config --global` does."""
    text = "[user]\n\tname = Ada\n\temail = ada@example.org\n"
    (rig.root / "home" / ".gitconfig").write_text(text, encoding="utf-8")


def _done(rig: Rig, script: str, *options: str) -> tuple[str, Worktree]:
    """A task that is done, and its worktree."""
    done = rig.wk("run", "--json", "--harness", "demo", "--worktree", *options, script)
    task_id = str(json.loads(done.stdout)["id"])
    task = rig.wait_resting(task_id)
    assert task.state is TaskState.DONE, task.reason
    assert task.spec.worktree is not None
    return task_id, task.spec.worktree


@pytest.fixture
def merging(rig: Rig) -> Rig:
    """A rig whose user has a name, with a daemon."""
    _named(rig)
    rig.start_daemon()
    return rig


def _tree(rig: Rig, task_id: str) -> Worktree:
    tree = rig.task(task_id).spec.worktree
    assert tree is not None
    return tree


def test_a_branch_is_replayed_on_the_branch_as_it_is_now(merging: Rig) -> None:
    """The checkout of the target comes along, what is uncommitted there stays, and the author of the commits too."""
    rig = merging
    task_id, tree = _done(rig, "write new hello\ncommit Say hello")
    (rig.repo / "other").write_text("other\n", encoding="utf-8")
    _ = _git(rig.repo, "add", "other")
    _ = _git(rig.repo, "commit", "-qm", "Other")
    (rig.repo / "README").write_text("mine\n", encoding="utf-8")
    before = _git(rig.repo, "rev-parse", "HEAD")
    done = rig.wk("merge", task_id)
    assert "is merged into" in done.stdout.decode()
    head = _git(rig.repo, "rev-parse", "HEAD")
    assert _git(rig.repo, "rev-parse", "HEAD^") == before
    assert (rig.repo / "new").read_text(encoding="utf-8").strip() == "hello"
    assert _git(rig.repo, "status", "--porcelain") == "M README"
    assert _git(rig.repo, "log", "-1", "--format=%cn") == "Ada"
    assert _git(rig.repo, "log", "-1", "--format=%an") == _git(Path(tree.path), "log", "-1", "--format=%an")
    assert _git(rig.repo, "worktree", "list", "--porcelain").count("worktree ") == 2
    assert not list((rig.state / "merges").iterdir())
    merged = _tree(rig, task_id).merged
    assert merged is not None
    assert merged.tip == head
    again = rig.wk("merge", task_id)
    assert "is merged already" in again.stdout.decode()
    assert _git(rig.repo, "rev-parse", "HEAD") == head
    assert f"at {head[:10]}" in rig.wk("show", task_id).stdout.decode()
    rig.wk("worktree", "clean", task_id)
    assert tree.branch not in _git(rig.repo, "branch")


def test_the_committer_is_who_git_says_the_user_is_in_that_repository(merging: Rig) -> None:
    """Many people have another address in the repositories of their work."""
    rig = merging
    task_id, _ = _done(rig, "write new hello\ncommit Say hello")
    _ = _git(rig.repo, "config", "user.email", "ada@work.example.org")
    _ = _commit(rig, "other", "other\n")
    rig.wk("merge", task_id)
    assert _git(rig.repo, "log", "-1", "--format=%cn <%ce>") == "Ada <ada@work.example.org>"


def _commit(rig: Rig, name: str, text: str, message: str = "Another") -> str:
    """A commit of the user's, in the checkout."""
    (rig.repo / name).write_text(text, encoding="utf-8")
    _ = _git(rig.repo, "add", "-A")
    _ = _git(rig.repo, "commit", "-qm", message)
    return _git(rig.repo, "rev-parse", "HEAD")


def _is_untouched(rig: Rig, head: str, task_id: str) -> None:
    """The target is where it was, no file of the merge is left, and the record says that no merge is under way."""
    assert _git(rig.repo, "rev-parse", "HEAD") == head
    assert _git(rig.repo, "worktree", "list", "--porcelain").count("worktree ") == 2
    assert _tree(rig, task_id).merge is None
    assert _tree(rig, task_id).merged is None


def test_a_conflict_is_named_resolved_and_continued(merging: Rig) -> None:
    rig = merging
    task_id, _ = _done(rig, "write README theirs\ncommit Theirs\nwrite more more\ncommit More")
    head = _commit(rig, "README", "mine\n")
    refused(rig, "merge", task_id, code=Exit.REFUSED, detail="conflict with")
    assert _git(rig.repo, "rev-parse", "HEAD") == head
    assert _git(rig.repo, "status", "--porcelain") == ""
    assert "waits for conflicts" in rig.wk("show", task_id).stdout.decode()
    refused(rig, "merge", task_id, code=Exit.REFUSED, detail="waits for conflicts")
    refused(rig, "merge", task_id, "--continue", code=Exit.REFUSED, detail="README")
    place = rig.state / "merges" / task_id
    (place / "README").write_text("both\n", encoding="utf-8")
    _ = _git(place, "add", "README")
    meanwhile = _commit(rig, "elsewhere", "x\n")
    rig.wk("merge", task_id, "--continue")
    assert (rig.repo / "README").read_text(encoding="utf-8") == "both\n"
    assert _git(rig.repo, "rev-parse", "HEAD~2") == meanwhile
    assert _git(rig.repo, "log", "-2", "--format=%s") == "More\nTheirs"
    assert _git(rig.repo, "status", "--porcelain") == ""


def test_a_conflict_is_given_up(merging: Rig) -> None:
    rig = merging
    task_id, tree = _done(rig, "write README theirs\ncommit Theirs")
    head = _commit(rig, "README", "mine\n")
    refused(rig, "merge", task_id, code=Exit.REFUSED, detail="README")
    refused(rig, "worktree", "clean", task_id, code=Exit.REFUSED, detail="has not ended")
    rig.wk("merge", task_id, "--abort")
    _is_untouched(rig, head, task_id)
    assert _git(Path(tree.path), "log", "-1", "--format=%s") == "Theirs"
    refused(rig, "merge", task_id, "--abort", code=Exit.REFUSED, detail="No merge")
    refused(rig, "merge", task_id, "--continue", code=Exit.REFUSED, detail="No merge")


def test_uncommitted_work_is_never_left_out(merging: Rig) -> None:
    """It is refused by name, and committed as the user if the user says so."""
    rig = merging
    task_id, tree = _done(rig, "write new hello\ncommit Say hello\nwrite later text")
    head = _git(rig.repo, "rev-parse", "HEAD")
    refused(rig, "merge", task_id, code=Exit.REFUSED, detail="later")
    refused(rig, "merge", task_id, "--commit", code=Exit.USAGE, detail="message")
    _is_untouched(rig, head, task_id)
    rig.wk("merge", task_id, "--commit", "-m", "The rest")
    assert (rig.repo / "later").read_text(encoding="utf-8").strip() == "text"
    assert _git(rig.repo, "log", "-2", "--format=%s") == "The rest\nSay hello"
    assert _git(Path(tree.path), "status", "--porcelain") == ""


def test_changes_of_the_user_in_the_way_are_named(merging: Rig) -> None:
    """Also what is not tracked and what is staged; what has the new content already is not in the way."""
    rig = merging
    task_id, _ = _done(rig, "write README theirs\nwrite new hello\ncommit Theirs")
    head = _git(rig.repo, "rev-parse", "HEAD")
    (rig.repo / "README").write_text("mine\n", encoding="utf-8")
    (rig.repo / "new").write_text("mine\n", encoding="utf-8")
    refused(rig, "merge", task_id, code=Exit.REFUSED, detail="README, new")
    _is_untouched(rig, head, task_id)
    assert (rig.repo / "README").read_text(encoding="utf-8") == "mine\n"
    assert (rig.repo / "new").read_text(encoding="utf-8") == "mine\n"
    _ = _git(rig.repo, "checkout", "-q", "README")
    (rig.repo / "new").write_text(_git(rig.repo, "show", f"{_tree(rig, task_id).branch}:new") + "\n", encoding="utf-8")
    rig.wk("merge", task_id)
    assert _git(rig.repo, "status", "--porcelain") == ""


@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_a_check_that_does_not_pass_leaves_the_target_as_it_is(rig: Rig, how: str) -> None:
    """The sentence names the log; nothing of the check stays alive."""
    _named(rig)
    rig.settings = {"WATCHKEEPER_CHECK_DEADLINE": "2s"}
    rig.start_daemon()
    mark = rig.root / "pid"
    command = "echo no good; exit 3" if how == "fails" else f"setsid sleep 600 & echo $! > {mark}; sleep 600"
    slow = f'case "$PWD" in */merges/*) {{ {command}; }};; esac'
    task_id, _ = _done(rig, "write new hello\ncommit Say hello", "--check", slow)
    head = _git(rig.repo, "rev-parse", "HEAD")
    detail = "failed with exit code 3" if how == "fails" else "took longer than 2 s"
    refused(rig, "merge", task_id, code=Exit.REFUSED, detail=detail)
    _is_untouched(rig, head, task_id)
    log = (rig.state / "merges" / f"{task_id}.log").read_text(encoding="utf-8")
    assert command in log
    if how == "fails":
        assert "no good" in log
    else:
        left = proc.stat_of(int(mark.read_text(encoding="utf-8")))
        assert left is None or not left.alive
    rig.wk("merge", task_id, "--no-check")
    assert (rig.repo / "new").exists()


def test_a_target_that_moves_during_the_checks_is_taken_as_it_is_then(merging: Rig) -> None:
    """The checks run again on what is merged; a branch that never rests ends the tries."""
    rig = merging
    git = f"git -C {rig.repo} -c user.name=t -c user.email=t@e"
    move = f'case "$PWD" in */merges/*) echo x >> {rig.root}/count; {git} commit -q --allow-empty -m Moved;; esac'
    task_id, _ = _done(rig, "write new hello\ncommit Say hello", "--check", move)
    refused(rig, "merge", task_id, code=Exit.REFUSED, detail="was moved 3 times")
    assert (rig.root / "count").read_text(encoding="utf-8").count("x") == 3
    _is_untouched(rig, _git(rig.repo, "rev-parse", "HEAD"), task_id)
    once = f'case "$PWD" in */merges/*) test -e {rig.root}/once || {{ touch {rig.root}/once; {git} commit -q --allow-empty -m Once; }};; esac'
    other_id, _ = _done(rig, "write other hello\ncommit Other", "--check", once)
    rig.wk("merge", other_id)
    assert _git(rig.repo, "log", "-2", "--format=%s") == "Other\nOnce"


def test_a_second_merge_into_the_repository_is_refused_by_name(merging: Rig) -> None:
    rig = merging
    go, here = rig.root / "go", rig.root / "here"
    wait = f'case "$PWD" in */merges/*) touch {here}; while ! test -e {go}; do sleep 0.05; done;; esac'
    first, _ = _done(rig, "write one 1\ncommit One", "--check", wait)
    second, _ = _done(rig, "write two 2\ncommit Two")
    begun = rig.popen("merge", first)
    wait_until(here.exists, within_s=60, what="the first merge runs its check")
    refused(rig, "merge", second, code=Exit.REFUSED, detail=f"task {first}")
    go.touch()
    assert begun.wait(60) == 0
    rig.wk("merge", second)
    assert _git(rig.repo, "log", "-2", "--format=%s") == "Two\nOne"


def test_what_cannot_be_merged_is_said_in_a_sentence(merging: Rig) -> None:
    rig = merging
    task_id, tree = _done(rig, "write new hello\ncommit Say hello")
    none_id, _ = _done(rig, "say nothing", "--expect", "any")
    here = json.loads(rig.wk("run", "--json", "--harness", "demo", "--here", "write here x").stdout)["id"]
    assert rig.wait_resting(here).state is TaskState.DONE
    _ = _git(rig.repo, "stash", "-qu")
    refused(rig, "merge", here, code=Exit.REFUSED, detail="no branch of its own")
    refused(rig, "merge", none_id, code=Exit.REFUSED, detail="nothing to merge")
    refused(rig, "merge", task_id, "--into", "nope", code=Exit.REFUSED, detail="no branch 'nope'")
    refused(rig, "merge", task_id, "--into", tree.branch, code=Exit.REFUSED, detail="own branch")
    _ = _git(rig.repo, "checkout", "-q", "--orphan", "alone")
    _ = _git(rig.repo, "commit", "-qm", "Alone")
    refused(rig, "merge", task_id, "--into", "alone", code=Exit.REFUSED, detail="no commit in common")
    main = tree.base_name
    _ = _git(rig.repo, "checkout", "-q", "--detach", main)
    _ = _git(rig.repo, "branch", "-m", main, "renamed")
    refused(rig, "merge", task_id, code=Exit.REFUSED, detail="No branch is checked out")
    head = _git(rig.repo, "rev-parse", "renamed")
    rig.wk("merge", task_id, "--into", "renamed")
    assert _git(rig.repo, "rev-parse", "renamed^") == head
    assert _git(rig.repo, "rev-parse", "HEAD") == head, "a checkout without the branch is not touched"


def test_a_locked_checkout_or_branch_is_named_and_nothing_changes(merging: Rig) -> None:
    rig = merging
    task_id, tree = _done(rig, "write new hello\ncommit Say hello")
    head = _git(rig.repo, "rev-parse", "HEAD")
    lock = rig.repo / ".git" / "index.lock"
    lock.touch()
    refused(rig, "merge", task_id, code=Exit.REFUSED, detail="index.lock")
    lock.unlink()
    lock = rig.repo / ".git" / "refs" / "heads" / f"{tree.base_name}.lock"
    lock.touch()
    refused(rig, "merge", task_id, code=Exit.REFUSED, detail="could not be moved")
    lock.unlink()
    _is_untouched(rig, head, task_id)
    assert not (rig.repo / "new").exists()
    rig.wk("merge", task_id)


def test_a_branch_that_a_person_deleted_or_moved(merging: Rig) -> None:
    rig = merging
    task_id, tree = _done(rig, "write new hello\ncommit Say hello")
    commit = _git(rig.repo, "rev-parse", tree.branch)
    _ = _git(Path(tree.path), "checkout", "-q", "--detach")
    refused(rig, "merge", task_id, code=Exit.REFUSED, detail="checked out in")
    _ = _git(rig.repo, "branch", "-D", tree.branch)
    _ = _git(rig.repo, "branch", tree.branch, commit)
    _ = _git(Path(tree.path), "switch", "-q", tree.branch)
    (Path(tree.path) / "new").write_text("by hand\n", encoding="utf-8")
    _ = _git(Path(tree.path), "commit", "-qam", "By hand")
    rig.wk("merge", task_id)
    assert (rig.repo / "new").read_text(encoding="utf-8") == "by hand\n"


def test_a_second_run_after_a_squashed_merge_brings_only_its_own_commits(merging: Rig) -> None:
    rig = merging
    task_id, tree = _done(rig, "write a 1\ncommit A\nwrite a 2\ncommit B")
    rig.wk("merge", task_id, "--squash")
    title = rig.task(task_id).spec.title
    assert _git(rig.repo, "log", "-1", "--format=%s") == title
    assert (rig.repo / "a").read_text(encoding="utf-8").strip() == "2"
    (Path(tree.path) / "a").write_text("3\n", encoding="utf-8")
    _ = _git(Path(tree.path), "commit", "-qam", "C")
    rig.wk("merge", task_id)
    assert _git(rig.repo, "log", "-2", "--format=%s") == f"C\n{title}"


def test_odd_names_modes_renames_and_submodules_come_along(merging: Rig) -> None:
    rig = merging
    task_id, tree = _done(rig, "write new hello\ncommit Say hello")
    top = Path(tree.path)
    (top / "a\nb").write_bytes(b"\0binary\n")
    (top / "run").write_text("#!/bin/sh\n", encoding="utf-8")
    (top / "run").chmod(0o755)
    (top / "link").symlink_to("README")
    _ = _git(top, "mv", "README", "READ ME")
    _ = _git(top, "add", "-A")
    _ = _git(top, "update-index", "--add", "--cacheinfo", f"160000,{_git(rig.repo, 'rev-parse', 'HEAD')},sub")
    _ = _git(top, "commit", "-qm", "Odd")
    (top / "sub").mkdir()
    _ = _commit(rig, "mine", "x\n")
    rig.wk("merge", task_id)
    assert _git(rig.repo, "rev-parse", "HEAD:sub") == tree.base
    assert (rig.repo / "a\nb").read_bytes() == b"\0binary\n"
    assert (rig.repo / "run").stat().st_mode & 0o100
    assert (rig.repo / "link").is_symlink()
    assert (rig.repo / "READ ME").exists()
    assert not (rig.repo / "README").exists()
    assert _git(rig.repo, "status", "--porcelain") == ""


def test_no_program_that_the_repository_names_is_run(merging: Rig) -> None:
    """Hooks, merge drivers, filters, signing, editors: an agent can plant each of them in the configuration and the tree."""
    rig = merging
    task_id, _ = _done(rig, "write README theirs\ncommit Theirs")
    ran = rig.root / "ran"
    spy = rig.root / "spy"
    spy.write_text(f"#!/bin/sh\necho $0 $* >> {ran}\nexit 0\n", encoding="utf-8")
    spy.chmod(0o755)
    _ = _commit(rig, ".gitattributes", "README merge=evil\n")
    _ = _commit(rig, "README", "mine\n")
    for key, value in {
        "merge.evil.driver": f"{spy} %A",
        "core.hooksPath": str(rig.root / "hooks"),
        "core.fsmonitor": str(spy),
        "core.editor": str(spy),
        "sequence.editor": str(spy),
        "core.sshCommand": str(spy),
        "gpg.program": str(spy),
        "commit.gpgSign": "true",
        "diff.external": str(spy),
        "core.pager": str(spy),
        "alias.rebase": f"!{spy}",
    }.items():
        _ = _git(rig.repo, "config", key, value)
    (rig.root / "hooks").mkdir()
    for name in (
        "post-checkout",
        "post-merge",
        "reference-transaction",
        "pre-commit",
        "post-index-change",
        "post-rewrite",
    ):
        (rig.root / "hooks" / name).symlink_to(spy)
    refused(rig, "merge", task_id, code=Exit.REFUSED, detail="README")
    place = rig.state / "merges" / task_id
    assert "<<<<<<<" in (place / "README").read_text(encoding="utf-8")
    ran.unlink(missing_ok=True)
    (place / "README").write_text("both\n", encoding="utf-8")
    quiet = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]
    _ = _git(place, *quiet, "add", "README")
    rig.wk("merge", task_id, "--continue")
    assert not ran.exists(), ran.read_text(encoding="utf-8")
    assert (rig.repo / "README").read_text(encoding="utf-8") == "both\n"


def test_an_agent_may_not_merge(merging: Rig) -> None:
    rig = merging
    task_id, _ = _done(rig, "write new hello\ncommit Say hello")
    rig.settings = {"WATCHKEEPER_EXECUTION": "e1"}
    for order in ("merge", "apply", "pr"):
        refused(rig, order, task_id, code=Exit.REFUSED, detail="An agent may not")


def test_work_that_is_not_committed_is_named_with_the_command_that_commits_it(merging: Rig) -> None:
    rig = merging
    task_id, _ = _done(rig, "write new hello")
    assert "not committed" in rig.wk("ls").stdout.decode()
    shown = " ".join(rig.wk("show", task_id).stdout.decode().split())
    assert f"not committed: wk merge {task_id} --commit" in shown
    found = json.loads(rig.wk("show", task_id, "--json").stdout)
    assert '"uncommitted": 1' in json.dumps(found)
    rig.wk("merge", task_id, "--commit", "-m", "Say hello")
    assert "not committed: wk merge" not in rig.wk("show", task_id).stdout.decode()
