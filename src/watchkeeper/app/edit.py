"""Edit a queued task."""

from dataclasses import dataclass, replace
from datetime import datetime

from watchkeeper.app.announce import first_own, tell_edited
from watchkeeper.app.record import apply_task
from watchkeeper.app.relations import check_relations, refuse_circle
from watchkeeper.app.working_directories import expected
from watchkeeper.domain.model import Task, TaskSpec, TaskState
from watchkeeper.domain.profile import WORDS, LaunchProfile, differences, line
from watchkeeper.domain.task import Edited
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.errors import Refused, Stale
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.ids import Ids
from watchkeeper.ports.store import Authorisation, Store, Tx

_WORDS = {
    "prompt": "the task's text",
    "title": "its title",
    "cwd": "its directory",
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

_WHAT_IT_DOES = frozenset({"prompt", "model", "account", "cwd"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A checked edit of a task as it was read."""

    was: Task
    spec: TaskSpec
    """What it is to be."""
    allowed: Authorisation | None
    """Its newest authorisation as it was read."""
    profile: LaunchProfile | None
    """Its launch profile as it is to be; None: the stored one stays, because nothing that it depends on is edited."""

    place: WorkingDirectory | None = None
    """The working directory as it was looked at, where another one is named; else what was approved stays."""

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of what differs, of the spec and of the launch profile."""
        before = None if self.allowed is None else self.allowed.profile
        rights = () if self.profile is None or before is None else differences(before, self.profile)
        return (*changed(self.was.spec, self.spec), *(each for each in rights if each not in _FOLLOWS))

    @property
    def authorises(self) -> bool:
        """Whether it needs an approval of its own (R1): it changes what the agent will do, or anything of its launch profile."""
        before = None if self.allowed is None else self.allowed.profile
        return authorises(self.was.spec, self.spec) or (self.profile is not None and self.profile != before)


_FOLLOWS = frozenset(
    {
        "model",
        "account",
        "home",
        "argv",
        "version",
        "environment",
        "brief",
        "permits",
        "reads",
        "host",
        "host_source",
        "prompt_prefix",
    }
)
"""Fields of a profile that follow from others, or that a person did not ask for."""


def changed(was: TaskSpec, now: TaskSpec) -> tuple[str, ...]:
    """The names of what differs."""
    return tuple(name for name in _WORDS if getattr(was, name) != getattr(now, name))


def words(names: tuple[str, ...]) -> tuple[str, ...]:
    """The same for people."""
    return tuple(_WORDS.get(name) or WORDS.get(name, name) for name in names)


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


def edit(store: Store, clock: Clock, ids: Ids, wanted: Edit, *, by: str) -> Task:
    """Write a checked edit. What it allows is kept as a new authorisation, if the edit needs one.

    Raises:
        NoSuchTask: the task, or one that it should wait for, is not there.
        BadTask: it would wait for itself.
        Refused: it is not queued any more, or was edited meanwhile.
    """
    at = clock.now()
    authorisation_id = ids.execution()
    was = wanted.was

    def work(tx: Tx) -> Task:
        task = tx.tasks.get(was.id)
        require_editable(task)
        allowed = tx.outcomes.authorisation(was.id)
        if task.spec != was.spec or _id(allowed) != _id(wanted.allowed):
            raise Stale(f"Task {was.id} was edited meanwhile.", hint="Look at it, and edit it again.")
        spec = replace(wanted.spec, after=_still_there(tx, task, wanted.spec.after))
        check_relations(tx, task.id, spec)
        refuse_circle(tx, task.id, spec)
        before = first_own(tx, task, at)
        after = apply_task(tx, task, Edited(spec=spec, by=by, at=at, changed=", ".join(words(wanted.changed))), at)
        if wanted.authorises:
            moved = spec.cwd != task.spec.cwd
            place = wanted.place if moved else expected(tx, task.id, allowed)
            tx.outcomes.authorise(replace(_approval(wanted, allowed, authorisation_id, by, at), place=place))
        tell_edited(tx, after, before, at)
        return tx.tasks.get(task.id)

    return store.transact("edit", work)


def _approval(wanted: Edit, allowed: Authorisation | None, approval_id: str, by: str, at: datetime) -> Authorisation:
    profile = wanted.profile or (allowed.profile if allowed is not None else None)
    says = line(profile) if profile is not None else (allowed.says if allowed is not None else "")
    return Authorisation(
        id=approval_id,
        task_id=wanted.was.id,
        kind="person",
        by=by,
        says=says,
        at=at,
        profile=profile,
        directory=wanted.spec.cwd,
    )


def _id(authorisation: Authorisation | None) -> str | None:
    return None if authorisation is None else authorisation.id


def _still_there(tx: Tx, task: Task, after: tuple[str, ...]) -> tuple[str, ...]:
    """Without what it waited for once and was removed since: nobody waits for that any more, and an edit of something else is no new wish for it."""
    there = {each.task_id for each in tx.waits.dependencies(task.id)}
    return tuple(each for each in after if each in there or each not in task.spec.after)
