"""Another face than the command line hands over, edits, retries and stops by the use cases alone, and gets the same answers."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from watchkeeper.app import account_choice, edit, machines, manage_accounts, queue_rules, retry
from watchkeeper.app.add import Handed, hand_over
from watchkeeper.app.cancel import CancelRequest, cancel
from watchkeeper.app.hand_over import HandOver, HandOverRequest, NumberedRequest
from watchkeeper.app.harness_choice import HarnessCandidate
from watchkeeper.app.parts import Caller
from watchkeeper.app.pin import PinRequest, pin
from watchkeeper.app.rename import RenameRequest, rename
from watchkeeper.app.select import select
from watchkeeper.app.stop import StopTaskRequest, stop
from watchkeeper.compose import Watchkeeper
from watchkeeper.domain.account import SignIn
from watchkeeper.domain.model import StopHow, Task, TaskState
from watchkeeper.domain.profile import RightsLevel
from watchkeeper.domain.selection import Selection, can_cancel, can_remove, can_retry, can_stop
from watchkeeper.environment import inherited
from watchkeeper.errors import BadTask, HarnessError, KeyTaken, NotFound, Refused, Stale, UsageError

TEXT = "Fix the search box.\nAll of it."

PROGRAM = """#!/bin/sh
case "$*" in
  *--version*) echo "2.0.0 (Claude Code)" ;;
  *status*) exit 1 ;;
  *) echo "$*" > "$CLAUDE_CONFIG_DIR/arguments"; exit 3 ;;
esac
"""
"""A program that keeps the arguments of its login, and is never signed in."""


@dataclass
class Face:
    """A person at another face, on a real database."""

    parts: Watchkeeper
    caller: Caller
    work: Path

    def wants(self, **given: Any) -> HandOverRequest:
        """A request of this person; for the demo agent unless it says otherwise."""
        fields: dict[str, Any] = {"prompt": TEXT, "cwd": str(self.work), "harness": "demo"}
        return HandOverRequest(**(fields | given))

    def hands_over(self, **given: Any) -> Handed:
        """Check a request and hand it over."""
        checks, request = HandOver(self.parts, self.caller), self.wants(**given)
        return checks.known(request) or hand_over(self.parts, [checks.check(request)])[0]

    def edits(self, task: Task, **given: Any) -> Task:
        """Edit a task."""
        wanted = edit.prepare(self.parts, self.caller, task.id, edit.EditRequest(**given))
        return edit.edit(self.parts.store, self.parts.clock, self.parts.ids, wanted, by=self.caller.by)

    def stops(self, task: Task, how: StopHow = StopHow.STOP) -> Task:
        """End a task."""
        return stop(self.parts, self.caller, StopTaskRequest(task_id=task.id, how=how)).task

    def count(self) -> int:
        """How many tasks there are."""
        return sum(self.parts.store.read(lambda tx: tx.tasks.counts()).values())


@pytest.fixture
def face(tmp_path: Path) -> Face:
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    environ = {"HOME": str(tmp_path / "home"), "WATCHKEEPER_HOME": str(tmp_path / "state"), "PATH": "/usr/bin:/bin"}
    caller = Caller(by="ada", environ=environ, inherits=inherited())
    return Face(Watchkeeper.open(tmp_path, environ, writes=True), caller, tmp_path / "work")


def test_of_two_that_saw_the_checkout_free_one_works_apart(face: Face) -> None:
    """With `auto` both checked before either was added; the transaction decides, so they never share the checkout, and neither waits for it."""
    git = ["git", "-C", str(face.work), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for arguments in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "Begin")):
        _ = subprocess.run([*git, *arguments], check=True)
    environ = {**face.caller.environ, "WATCHKEEPER_RUN_WORKTREE": "auto"}
    caller = replace(face.caller, environ=environ)
    faces = [Watchkeeper.open(face.work, environ, writes=True) for _ in range(2)]
    checked = [HandOver(parts, caller).check(face.wants()) for parts in faces]
    first, second = (hand_over(parts, [each])[0].task for parts, each in zip(faces, checked, strict=True))
    assert (first.spec.worktree, first.spec.checkout, first.spec.cwd) == (None, str(face.work), str(face.work))
    assert second.spec.worktree is not None
    assert (second.spec.worktree.source, second.spec.checkout) == (str(face.work), second.spec.worktree.path)
    approved = face.parts.store.read(lambda tx: tx.outcomes.authorisation(second.id))
    assert approved is not None
    assert approved.place is None, "the directory that is made is what its launch must find"
    lines = [NumberedRequest(number=number, request=face.wants()) for number in (1, 2)]
    third, fourth = hand_over(faces[0], HandOver(faces[0], caller).check_all(lines))
    branches = {each.spec.worktree.branch for each in (second, third.task, fourth.task) if each.spec.worktree}
    assert len(branches) == 3


def test_a_repository_of_which_no_worktree_can_be_made_waits_its_turn(face: Face) -> None:
    """A setting asks for nothing where no worktree can be made."""
    _ = subprocess.run(["git", "init", "-q", str(face.work)], check=True)
    environ = {**face.caller.environ, "WATCHKEEPER_RUN_WORKTREE": "auto"}
    parts, caller = Watchkeeper.open(face.work, environ, writes=True), replace(face.caller, environ=environ)
    tasks = [hand_over(parts, [HandOver(parts, caller).check(face.wants())])[0].task for _ in range(2)]
    assert [task.spec.worktree for task in tasks] == [None, None]


def test_a_task_goes_its_whole_way(face: Face) -> None:
    checked = HandOver(face.parts, face.caller).check(face.wants(labels=("a", "a"), retries=1))
    assert face.count() == 0
    assert (checked.spec.title, checked.profile.harness, checked.profile.account) == (
        "Fix the search box.",
        "demo",
        "demo:own",
    )
    task = hand_over(face.parts, [checked])[0].task
    assert (task.spec.labels, task.spec.max_attempts, task.spec.account) == (("a",), 2, "own")
    edited = face.edits(task, prompt="Fix the menu.", priority=7, deadline=60.0, not_before=edit.AT_ONCE)
    assert (edited.spec.title, edited.spec.priority, edited.spec.deadline_s) == ("Fix the menu.", 7, 60.0)
    assert face.stops(task).state is TaskState.STOPPED
    again = retry.prepare(face.parts, face.caller, task.id)
    assert not again.is_news and again.approved == again.place
    assert retry.retry(face.parts, again, by="ada").state is TaskState.QUEUED
    assert cancel(face.parts, face.caller, CancelRequest(task_id=task.id)).state is TaskState.STOPPED
    by = face.parts.store.read(lambda tx: tx.outcomes.authorisation(task.id))
    assert by is not None and (by.by, by.profile) == ("ada", again.profile)


def test_what_is_decided_is_refused_in_the_same_words(face: Face) -> None:
    """None of it is stored."""
    for wrong, error, detail in (
        ({"harness": "command", "account": "demo:own"}, UsageError, "is not one of the harness command"),
        ({"machine": "elsewhere"}, NotFound, "There is no machine 'elsewhere'"),
        ({"cwd": str(face.work / "gone")}, BadTask, "does not exist"),
        ({"account": "nobody"}, NotFound, "There is no account 'demo:nobody'"),
        ({"after": ("7f3a",)}, NotFound, "There is no task '7f3a'"),
        ({"rights": "read", "harness": None, "argv": ("true",)}, BadTask, "cannot be held to the rights 'read'"),
        ({"prompt": " "}, BadTask, "The task is empty"),
    ):
        with pytest.raises(error, match=detail):
            face.hands_over(**wrong)
    assert face.count() == 0


def test_a_key_makes_one_task(face: Face) -> None:
    first = face.hands_over(key="k", not_before=datetime(2027, 1, 1, tzinfo=UTC), not_before_typed="+2h")
    later = face.hands_over(key="k", not_before=datetime(2027, 5, 1, tzinfo=UTC), not_before_typed="+2h")
    assert not first.already and later.already and later.task.id == first.task.id
    with pytest.raises(KeyTaken, match="another prompt"):
        face.hands_over(key="k", prompt="Something else.", not_before_typed="+2h")
    assert face.count() == 1


def test_a_harness_that_is_not_clear_is_asked_for_once(face: Face) -> None:
    """However many tasks there are; a face that cannot ask is refused."""
    asked: list[Sequence[HarnessCandidate]] = []

    def ask(known: Sequence[HarnessCandidate]) -> str:
        asked.append(known)
        return "demo"

    lines = [NumberedRequest(number=number, request=face.wants(harness=None)) for number in (1, 2)]
    found = HandOver(face.parts, face.caller, ask).check_all(lines)
    assert [each.spec.harness for each in found] == ["demo", "demo"]
    assert len(asked) == 1 and not any(each.usable for each in asked[0])
    with pytest.raises(UsageError, match="Line 1: No harness was named"):
        HandOver(face.parts, face.caller).check_all(lines)


def test_tasks_that_come_together_name_each_other(face: Face) -> None:
    lines = [
        NumberedRequest(number=1, request=face.wants(), name="a"),
        NumberedRequest(number=2, request=face.wants(after=("a",))),
    ]
    first, second = hand_over(face.parts, HandOver(face.parts, face.caller).check_all(lines))
    assert second.task.spec.after == (first.task.id,)
    with pytest.raises(BadTask, match="Line 2: no line before it is named 'a'"):
        HandOver(face.parts, face.caller).check_all([replace(lines[1], number=2), replace(lines[0], number=3)])


def test_an_edit_of_what_was_edited_meanwhile_is_refused(face: Face) -> None:
    task = face.hands_over().task
    stale = edit.prepare(face.parts, face.caller, task.id, edit.EditRequest(title="One"))
    _ = face.edits(task, title="Another")
    with pytest.raises(Stale, match="was edited meanwhile"):
        edit.edit(face.parts.store, face.parts.clock, face.parts.ids, stale, by="ada")


def test_only_a_task_that_waits_is_edited(face: Face) -> None:
    task = face.hands_over().task
    _ = face.stops(task)
    with pytest.raises(Refused, match="only one that waits"):
        face.edits(task, priority=1)


def test_a_retry_looks_for_the_directory(face: Face) -> None:
    task = face.hands_over().task
    _ = face.stops(task)
    face.work.rmdir()
    with pytest.raises(BadTask, match="is missing"):
        retry.prepare(face.parts, face.caller, task.id)


def test_rights_are_chosen_for_one_task(face: Face) -> None:
    """And an edit of something else leaves them as they were allowed."""
    task = face.hands_over(harness=None, argv=("true",), rights="full").task
    wanted = edit.prepare(face.parts, face.caller, task.id, edit.EditRequest(priority=1))
    assert wanted.profile is None and not wanted.authorises and wanted.changed == ("priority",)
    allowed = face.parts.store.read(lambda tx: tx.outcomes.authorisation(task.id))
    assert allowed is not None and allowed.profile is not None and allowed.profile.rights is RightsLevel.FULL


def test_this_machine_is_found_by_its_name_and_its_id(face: Face) -> None:
    own = face.parts.state.node()
    assert {machines.find(face.parts, typed) for typed in (face.parts.host_name, own, own[:6])} == {own}


def test_a_stop_answers_what_was_so_before(face: Face) -> None:
    """A task that has ended stays as it ended, and nothing of one that never ran is alive."""
    task = face.hands_over().task
    first = stop(face.parts, face.caller, StopTaskRequest(task_id=task.id, how=StopHow.KILL, grace_s=2.0))
    assert (first.had_ended, first.survivor, first.task.state) == (False, None, TaskState.STOPPED)
    asked = first.task.stop
    assert asked is not None and (asked.how, asked.by, asked.grace_s) == (StopHow.KILL, "ada", 2.0)
    again = stop(face.parts, face.caller, StopTaskRequest(task_id=task.id))
    assert (again.had_ended, again.survivor, again.task) == (True, None, first.task)
    with pytest.raises(NotFound):
        _ = stop(face.parts, face.caller, StopTaskRequest(task_id="7f3a"))


def test_a_task_is_named_and_kept_on_top(face: Face) -> None:
    task = face.hands_over().task
    renamed = rename(face.parts, face.caller, RenameRequest(task_id=task.id, title=" The  search\tbox "))
    assert (renamed.spec.title, renamed.spec.prompt) == ("The search box", TEXT)
    secret = replace(face.caller, environ={"SHOP_TOKEN": "k3y-of-the-shop-9321"})
    for title, detail in (
        (" ", "cannot be empty"),
        ("a" * 2000, "is longer than"),
        ("use k3y-of-the-shop-9321", "title"),
    ):
        with pytest.raises(BadTask, match=detail):
            _ = rename(face.parts, secret, RenameRequest(task_id=task.id, title=title))
    assert pin(face.parts, face.caller, PinRequest(task_id=task.id, pinned=True)).pinned_at is not None
    assert pin(face.parts, face.caller, PinRequest(task_id=task.id, pinned=False)).pinned_at is None


def test_tasks_are_chosen_by_what_holds_of_them(face: Face) -> None:
    """And by what can be done to them."""
    first = face.hands_over(labels=("a", "b"), project="shop").task
    second = face.hands_over(labels=("a",)).task
    store = face.parts.store
    assert select(store, can_cancel, Selection()) == [first.id, second.id]
    assert select(store, can_stop, Selection(labels=("a", "b"))) == [first.id]
    assert select(store, can_stop, Selection(projects=("shop", "other"))) == [first.id]
    assert select(store, can_retry, Selection()) == []
    _ = face.stops(second)
    assert select(store, can_stop, Selection()) == [first.id]
    assert select(store, can_retry, Selection(states=(TaskState.STOPPED,))) == [second.id]
    assert select(store, can_remove, Selection()) == [second.id]
    _ = pin(face.parts, face.caller, PinRequest(task_id=second.id, pinned=True))
    assert select(store, can_remove, Selection()) == []
    assert select(None, can_stop, Selection()) == []


def test_a_part_of_the_queue_is_paused_resumed_and_limited(face: Face) -> None:
    part = queue_rules.PartRequest(project="shop")
    paused = queue_rules.pause(face.parts, face.caller, part)
    assert (paused.changed, paused.rule.scope, paused.rule.name, paused.rule.by) == (True, "project", "shop", "ada")
    assert not queue_rules.pause(face.parts, face.caller, part).changed
    limited = queue_rules.limit(face.parts, face.caller, queue_rules.LimitRequest(part=part, at_once=2))
    assert (limited.changed, limited.rule.paused, limited.rule.max_running) == (True, True, 2)
    assert not queue_rules.resume(face.parts, face.caller, part).rule.paused
    here = queue_rules.pause(face.parts, face.caller, queue_rules.PartRequest(machine=face.parts.host_name)).rule
    assert (here.scope, here.name) == ("machine", face.parts.state.node())
    assert queue_rules.pause(face.parts, face.caller, queue_rules.PartRequest()).rule.scope == "all"
    assert (
        queue_rules.pause(face.parts, face.caller, queue_rules.PartRequest(account="demo:own")).rule.name == "demo:own"
    )


@pytest.mark.parametrize(
    ("part", "error", "detail"),
    [
        ({"project": "shop", "harness": "demo"}, UsageError, "one part"),
        ({"project": " "}, UsageError, "name of the project is empty"),
        ({"harness": "nothing"}, HarnessError, "There is no harness 'nothing'"),
        ({"machine": "nothing"}, NotFound, "There is no machine 'nothing'"),
        ({"account": "demo"}, NotFound, "'demo' is no account"),
        ({"account": "demo:nothing"}, NotFound, "There is no account 'demo:nothing'"),
        ({"project": "k3y-of-the-shop-9321"}, BadTask, "project's name"),
    ],
)
def test_a_part_that_cannot_be_is_refused(
    face: Face, part: dict[str, str], error: type[Exception], detail: str
) -> None:
    caller = replace(face.caller, environ=dict(face.caller.environ) | {"SHOP_TOKEN": "k3y-of-the-shop-9321"})
    with pytest.raises(error, match=detail):
        _ = queue_rules.pause(face.parts, caller, queue_rules.PartRequest(**part))
    assert face.parts.store.read(lambda tx: list(tx.rules.all())) == []


@pytest.mark.parametrize("at_once", [0, -1, 10_001])
def test_a_limit_that_cannot_be_is_refused(face: Face, at_once: int) -> None:
    with pytest.raises(UsageError):
        _ = queue_rules.limit(
            face.parts, face.caller, queue_rules.LimitRequest(part=queue_rules.PartRequest(), at_once=at_once)
        )


def test_an_account_is_added_and_removed(face: Face) -> None:
    request = manage_accounts.AddAccountRequest(harness="claude", name="work", key="WORK_KEY")
    done = manage_accounts.add(face.parts, face.caller, request)
    assert done.account.variables == ("ANTHROPIC_API_KEY=WORK_KEY",)
    assert (done.had_home, done.may_sign_in) == (False, False)
    assert account_choice.named(face.parts, "claude:work") == done.account
    with pytest.raises(UsageError, match="works with the key in WORK_KEY"):
        _ = manage_accounts.log_in(
            face.parts, face.caller, manage_accounts.LoginRequest(account=done.account, terminal=True)
        )
    own = account_choice.named(face.parts, "claude")
    with pytest.raises(Refused, match="is your own home"):
        _ = manage_accounts.remove(face.parts, face.caller, manage_accounts.RemoveAccountRequest(account=own))
    gone = manage_accounts.RemoveAccountRequest(account=done.account)
    assert manage_accounts.remove(face.parts, face.caller, gone) == done.home
    with pytest.raises(NotFound, match="claude:work"):
        _ = account_choice.named(face.parts, "claude:work")


def test_a_login_runs_in_the_home_of_its_account(face: Face) -> None:
    """And what its program reports afterwards is recorded."""
    program = face.work / "claude"
    program.write_text(PROGRAM, encoding="utf-8")
    program.chmod(0o755)
    caller = replace(face.caller, environ=dict(face.caller.environ) | {"PATH": f"{face.work}:/usr/bin:/bin"})
    done = manage_accounts.add(face.parts, caller, manage_accounts.AddAccountRequest(harness="claude", name="work"))
    assert done.may_sign_in and done.home is not None
    login = manage_accounts.log_in(
        face.parts, caller, manage_accounts.LoginRequest(account=done.account, arguments=("--console",), terminal=True)
    )
    assert (login.exit_code, login.look.sign_in) == (3, SignIn.OUT)
    assert (Path(done.home) / "arguments").read_text(encoding="utf-8").strip().endswith("--console")
    states = face.parts.store.read(lambda tx: tx.accounts.states(face.parts.node))
    assert states["claude:work"].sign_in is SignIn.OUT
