"""What a task may ask of the queue: each refusal in its own words."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from app.stage import Verbs
from support.records import add, make_spec, make_task

from watchkeeper.app.relations import check_relations, check_spec, refuse_circle
from watchkeeper.errors import BadTask, NoSuchTask, NotFound

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PRINTABLE = "Use printable characters, at least one, with no blanks at its ends."


@pytest.mark.parametrize(
    ("asked", "detail", "hint"),
    [
        ({"labels": tuple(f"l{n}" for n in range(21))}, "21 labels are too many.", "At most 20 are kept."),
        ({"after": tuple(f"t{n}" for n in range(101))}, "It would wait for 101 tasks.", "A task waits for at most 100."),
        ({"labels": ("a" * 65,)}, f"The label '{'a' * 40}…' has 65 characters.", "At most 64 characters are kept."),
        ({"project": "p" * 65}, f"The name of a project '{'p' * 40}…' has 65 characters.", "At most 64 characters are kept."),
        ({"labels": ("fine", " blank")}, "' blank' cannot be a label.", PRINTABLE),
        ({"labels": ("blank ",)}, "'blank ' cannot be a label.", PRINTABLE),
        ({"labels": ("",)}, "'' cannot be a label.", PRINTABLE),
        ({"labels": ("  ",)}, "'  ' cannot be a label.", PRINTABLE),
        ({"labels": ("be\x07ll",)}, "'be?ll' cannot be a label.", PRINTABLE),
        ({"project": "a\nb"}, "'a?b' cannot be a name of a project.", PRINTABLE),
        ({"priority": 1001}, "The priority 1001 is out of bounds.", "Give one from -1000 to 1000."),
        ({"priority": -1001}, "The priority -1001 is out of bounds.", "Give one from -1000 to 1000."),
        ({"not_before": NOW}, f"{NOW.astimezone():%Y-%m-%d %H:%M:%S} has passed already.",
         "Give a time to come, such as +2h, or leave --not-before out."),
        ({"not_before": NOW + timedelta(days=3661)}, "It would start in more than ten years.", "Give a time that is nearer."),
    ],
)  # fmt: skip
def test_a_wish_that_cannot_be_is_refused(asked: dict[str, Any], detail: str, hint: str) -> None:
    with pytest.raises(BadTask) as caught:
        check_spec(make_spec(**asked), NOW)
    assert (str(caught.value), caught.value.hint) == (detail, hint)


def test_wishes_within_the_bounds_pass() -> None:
    """Each at its bound."""
    for asked in (
        {"labels": tuple(f"l{n}" for n in range(20)), "after": tuple(f"t{n}" for n in range(100))},
        {"labels": ("a" * 64, "two words"), "project": "p" * 64, "priority": 1000},
        {"priority": -1000, "not_before": NOW + timedelta(microseconds=1)},
        {"not_before": NOW + timedelta(days=3660)},
    ):
        check_spec(make_spec(**asked), NOW)


def test_a_task_names_others_that_are_there(verbs: Verbs) -> None:
    def related(**asked: Any) -> None:
        verbs.store.read(lambda tx: check_relations(tx, "t2", make_spec(**asked)))

    _ = verbs.store.transact("test", lambda tx: add(tx, make_task("t1")))
    related(after=("t1",))
    with pytest.raises(NoSuchTask) as missing:
        related(after=("t1", "t9"))
    assert str(missing.value) == "There is no task 't9' to wait for: it was removed, or never was."
    assert missing.value.hint
    with pytest.raises(BadTask) as itself:
        related(after=("t1", "t2"))
    assert (str(itself.value), itself.value.hint) == (
        "A task cannot wait for itself.",
        "Leave its own id out of --after.",
    )
    with pytest.raises(NotFound, match="There is no account 'command:none'"):
        related(account="none")


def test_a_circle_is_refused_with_its_way(verbs: Verbs) -> None:
    def work(after: tuple[str, ...], task_id: str) -> None:
        _ = verbs.store.transact("test", lambda tx: add(tx, make_task(task_id, spec=make_spec(after=after))))

    for after, task_id in (((), "t1"), (("t1",), "t2"), (("t2",), "t3")):
        work(after, task_id)
    verbs.store.read(lambda tx: refuse_circle(tx, "t3", make_spec(after=("t1", "t2"))))
    with pytest.raises(BadTask) as caught:
        verbs.store.read(lambda tx: refuse_circle(tx, "t1", make_spec(after=("t3",))))
    detail = "The task would wait for itself: t1 waits for t3 waits for t2 waits for t1."
    assert (str(caught.value), caught.value.hint) == (detail, "Leave one of them out of --after.")
