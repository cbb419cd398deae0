"""A move of everything into another database: who may not be at work, and what is bound to the only machine."""

from typing import Any

import pytest
from app.stage import Verbs
from support.records import add, make_spec, make_task, reserve

from watchkeeper.app.move import bind, refuse_at_work
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Refused


def test_agents_of_another_machine_could_not_reach_this_one(verbs: Verbs) -> None:
    """A database that machines share can be moved while they work; so can one whose agents are all here."""
    refuse_at_work(verbs.store, "the database", "m1", shared=False)
    for task_id, machine in (("t1", "m1"), ("t2", "m3"), ("t3", "m2")):
        _ = verbs.store.transact("test", lambda tx, i=task_id, m=machine: reserve(tx, add(tx, make_task(i)), m))
    verbs.store.transact("test", lambda tx: tx.machines.begin_incarnation("m2", "b", verbs.clock.now(), name="ant"))
    refuse_at_work(verbs.store, "the database", "m1", shared=True)
    with pytest.raises(Refused) as caught:
        refuse_at_work(verbs.store, "the database", "m1", shared=False)
    detail = "Agents are running on ant, m3, which could not reach the database of this machine: nothing was copied."
    assert str(caught.value) == detail


def test_what_any_machine_could_run_is_bound_to_the_only_one(verbs: Verbs) -> None:
    """But not what has ended, what is bound already, and what another machine handed over."""
    ended = verbs.clock.now()

    def task(task_id: str, machine: str | None = None, **given: Any) -> None:
        _ = verbs.store.transact(
            "test", lambda tx: add(tx, make_task(task_id, spec=make_spec(machine=machine), **given))
        )

    task("free")
    task("bound", "m7")
    task("from-elsewhere", environment_machine="m9")
    task("asks", state=TaskState.NEEDS_INPUT)
    task("done", state=TaskState.DONE, ended_at=ended)
    assert verbs.store.transact("test", lambda tx: bind(tx, "m1")) == 3
    found = {each: verbs.task(each) for each in ("free", "bound", "from-elsewhere", "asks", "done")}
    assert {name: (each.spec.machine, each.environment_machine) for name, each in found.items()} == {
        "free": ("m1", "m1"),
        "bound": ("m7", "m1"),
        "from-elsewhere": (None, "m9"),
        "asks": (None, "m1"),
        "done": (None, ""),
    }
    assert verbs.store.transact("test", lambda tx: bind(tx, "m1")) == 0
