"""Another face than the command line hands over, edits, retries and stops by the use cases alone, and gets the same answers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from watchkeeper.app import edit, machines, retry
from watchkeeper.app.add import Handed, hand_over
from watchkeeper.app.cancel import cancel
from watchkeeper.app.hand_over import HandOver, HandOverRequest, Line
from watchkeeper.app.harness_choice import Found
from watchkeeper.app.parts import Caller
from watchkeeper.app.stop import stop
from watchkeeper.compose import Watchkeeper
from watchkeeper.domain.model import StopHow, Task, TaskState
from watchkeeper.domain.profile import RightsLevel
from watchkeeper.environment import inherited
from watchkeeper.errors import BadTask, KeyTaken, NotFound, Refused, Stale, UsageError

TEXT = "Fix the search box.\nAll of it."


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
    assert stop(face.parts.store, face.parts.clock, task.id, StopHow.STOP, "ada").state is TaskState.STOPPED
    again = retry.prepare(face.parts, face.caller, task.id)
    assert not again.is_news and again.approved == again.place
    assert retry.retry(face.parts, again, by="ada").state is TaskState.QUEUED
    assert cancel(face.parts.store, face.parts.clock, task.id, "ada").state is TaskState.STOPPED
    by = face.parts.store.read(lambda tx: tx.outcomes.authorisation(task.id))
    assert by is not None and (by.by, by.profile) == ("ada", again.profile)


def test_what_is_decided_is_refused_in_the_same_words(face: Face) -> None:
    """None of it is stored."""
    for wrong, error, says in (
        ({"harness": "command", "account": "demo:own"}, UsageError, "is not one of the harness command"),
        ({"machine": "elsewhere"}, NotFound, "There is no machine 'elsewhere'"),
        ({"cwd": str(face.work / "gone")}, BadTask, "does not exist"),
        ({"account": "nobody"}, NotFound, "There is no account 'demo:nobody'"),
        ({"after": ("7f3a",)}, NotFound, "There is no task '7f3a'"),
        ({"rights": "read", "harness": None, "argv": ("true",)}, BadTask, "cannot be held to the rights 'read'"),
        ({"prompt": " "}, BadTask, "The task is empty"),
    ):
        with pytest.raises(error, match=says):
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
    asked: list[Sequence[Found]] = []

    def ask(known: Sequence[Found]) -> str:
        asked.append(known)
        return "demo"

    lines = [Line(number=number, request=face.wants(harness=None)) for number in (1, 2)]
    found = HandOver(face.parts, face.caller, ask).check_all(lines)
    assert [each.spec.harness for each in found] == ["demo", "demo"]
    assert len(asked) == 1 and not any(each.usable for each in asked[0])
    with pytest.raises(UsageError, match="Line 1: No harness was named"):
        HandOver(face.parts, face.caller).check_all(lines)


def test_tasks_that_come_together_name_each_other(face: Face) -> None:
    lines = [Line(number=1, request=face.wants(), name="a"), Line(number=2, request=face.wants(after=("a",)))]
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
    _ = stop(face.parts.store, face.parts.clock, task.id, StopHow.STOP, "ada")
    with pytest.raises(Refused, match="only one that waits"):
        face.edits(task, priority=1)


def test_a_retry_looks_for_the_directory(face: Face) -> None:
    task = face.hands_over().task
    _ = stop(face.parts.store, face.parts.clock, task.id, StopHow.STOP, "ada")
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
    assert {machines.find(face.parts, typed, own) for typed in (face.parts.host_name, own, own[:6])} == {own}
