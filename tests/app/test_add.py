"""What handing over costs everybody else: they wait while a great many tasks are added."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from app.stage import Verbs
from support.records import make_profile, make_spec

from watchkeeper.app.add import AddRequest, Plan, add_all
from watchkeeper.app.relations import LONGEST_WAIT, check_wishes
from watchkeeper.errors import BadTask
from watchkeeper.runtimes.system import RandomIds
from watchkeeper.store.waits import StoredWaits


def test_a_long_chain_is_not_walked_for_each_of_its_tasks(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can wait for a new task yet, so no circle is looked for."""
    looks = 0
    dependencies = StoredWaits.dependencies

    def counted(self: StoredWaits, task_id: str) -> object:
        nonlocal looks
        looks += 1
        return dependencies(self, task_id)

    monkeypatch.setattr(StoredWaits, "dependencies", counted)
    plan = Plan(spec=make_spec(cwd=str(verbs.root)), profile=make_profile())
    handed = [
        (AddRequest(spec=make_spec(cwd=str(verbs.root), after=(f"t{n - 1}",) if n else ()), environment={}, by="ada", options={}, id=f"t{n}"), plan)
        for n in range(40)
    ]  # fmt: skip
    added = add_all(verbs.store, verbs.environments, verbs.clock, RandomIds(), handed)
    assert len(added) == 40
    assert looks <= 2 * 40


def test_a_start_beyond_the_calendar_s_end_is_refused() -> None:
    """In a zone east of it, it could not be shown, and no list that holds it either."""
    now = datetime(2026, 1, 2, tzinfo=UTC)
    check_wishes(make_spec(not_before=now + LONGEST_WAIT), now)
    for beyond in (now + LONGEST_WAIT + timedelta(seconds=1), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)):
        with pytest.raises(BadTask, match="ten years"):
            check_wishes(replace(make_spec(), not_before=beyond), now)
