"""What handing over costs everybody else: they wait while a great many tasks are added."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from app.stage import Verbs
from support.handing import hand_over_with
from support.records import make_profile, make_spec

from watchkeeper.app.add import Checked
from watchkeeper.app.relations import LONGEST_WAIT, check_spec
from watchkeeper.errors import BadTask
from watchkeeper.store.waits import StoredWaits


def test_a_long_chain_is_not_walked_for_each_of_its_tasks(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    """No task can wait for a new task yet, so the code does not look for a circle."""
    looks = 0
    dependencies = StoredWaits.dependencies

    def counted(self: StoredWaits, task_id: str) -> object:
        nonlocal looks
        looks += 1
        return dependencies(self, task_id)

    monkeypatch.setattr(StoredWaits, "dependencies", counted)
    checked = [
        Checked(
            spec=make_spec(cwd=str(verbs.root), after=(f"t{n - 1}",) if n else ()),
            profile=make_profile(),
            environment={},
            by="ada",
            id=f"t{n}",
        )
        for n in range(40)
    ]
    added = hand_over_with(verbs.store, checked, environments=verbs.environments, clock=verbs.clock)
    assert len(added) == 40
    assert looks <= 2 * 40


def test_a_start_beyond_the_calendar_s_end_is_refused() -> None:
    """In a zone east of it, it could not be shown, and no list that holds it either."""
    now = datetime(2026, 1, 2, tzinfo=UTC)
    check_spec(make_spec(not_before=now + LONGEST_WAIT), now)
    for beyond in (now + LONGEST_WAIT + timedelta(seconds=1), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)):
        with pytest.raises(BadTask, match="ten years"):
            check_spec(replace(make_spec(), not_before=beyond), now)
