"""A person wants a task that waits to be another one."""

from dataclasses import replace

from watchkeeper.app.announce import first_own, tell_edited
from watchkeeper.app.record import apply_task
from watchkeeper.app.relations import check_relations, refuse_circle
from watchkeeper.domain.model import Task, TaskSpec, TaskState
from watchkeeper.domain.task import Edited
from watchkeeper.errors import Refused, Stale
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.ids import Ids
from watchkeeper.ports.store import Authorisation, Store, Tx

_WORDS = {
    "prompt": "the task's text",
    "title": "its title",
    "model": "the model",
    "account": "the account",
    "deadline_s": "the deadline",
    "silence_s": "how long it may print nothing",
    "expect": "what counts as done",
    "max_attempts": "the number of tries",
    "priority": "its priority",
    "after": "what it waits for",
    "not_before": "when it may start",
    "machine": "where it may run",
    "labels": "its labels",
}
"""What can be edited, by the names of the task's fields."""

_WHAT_IT_DOES = frozenset({"prompt", "model", "account"})


def changed(was: TaskSpec, now: TaskSpec) -> tuple[str, ...]:
    """The names of what differs."""
    return tuple(name for name in _WORDS if getattr(was, name) != getattr(now, name))


def words(names: tuple[str, ...]) -> tuple[str, ...]:
    """The same for people."""
    return tuple(_WORDS[name] for name in names)


def authorises(was: TaskSpec, now: TaskSpec) -> bool:
    """Whether the edit is of what the agent will do, so that it needs a person's word of its own (R1)."""
    return not _WHAT_IT_DOES.isdisjoint(changed(was, now))


def require_editable(task: Task) -> None:
    """Refuse a task that does not wait for its turn. Raises Refused."""
    if task.state is not TaskState.QUEUED:
        raise Refused(
            f"Task {task.id} is {task.state.value.replace('_', ' ')}: only one that waits for its turn can be edited.",
            hint="Hand over another one with `wk run`.",
        )


def edit(store: Store, clock: Clock, ids: Ids, was: Task, spec: TaskSpec, *, by: str, says: str) -> Task:
    """Write a checked spec over that of a task as it was read. `says`: what its agent may do, kept as the new authorisation if the edit needs one.

    Raises:
        NoSuchTask: the task, or one that it should wait for, is not there.
        BadTask: it would wait for itself.
        Refused: it does not wait any more, or somebody else has edited it meanwhile.
    """
    at = clock.now()
    authorisation_id = ids.execution()
    names = changed(was.spec, spec)

    def work(tx: Tx) -> Task:
        task = tx.tasks.get(was.id)
        require_editable(task)
        if task.spec != was.spec:
            raise Stale(f"Somebody else has edited task {was.id} meanwhile.", hint="Look at it, and edit it again.")
        wanted = replace(spec, after=_still_there(tx, task, spec.after))
        check_relations(tx, task.id, wanted)
        refuse_circle(tx, task.id, wanted)
        before = first_own(tx, task, at)
        edited = Edited(spec=wanted, by=by, at=at, changed=", ".join(words(names)))
        after = apply_task(tx, task, edited, at)
        if authorises(was.spec, spec):
            tx.outcomes.authorise(
                Authorisation(id=authorisation_id, task_id=task.id, kind="person", by=by, says=says, at=at)
            )
        tell_edited(tx, after, before, at)
        return tx.tasks.get(task.id)

    return store.transact("edit", work)


def _still_there(tx: Tx, task: Task, after: tuple[str, ...]) -> tuple[str, ...]:
    """Without what it waited for once and was removed since: nobody waits for that any more, and an edit of something else is no new wish for it."""
    there = {each.task_id for each in tx.waits.dependencies(task.id)}
    return tuple(each for each in after if each in there or each not in task.spec.after)
