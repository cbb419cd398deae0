"""Edit a queued task: `prepare` decides what it would be, `edit` writes it."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from watchkeeper.app import account_choice, machines
from watchkeeper.app.add import check
from watchkeeper.app.announce import announce_edited, first_own
from watchkeeper.app.approval import approval
from watchkeeper.app.hand_over import task_ids, title
from watchkeeper.app.parts import Caller, Parts
from watchkeeper.app.profiles import Limits, chosen, compile_profile, located
from watchkeeper.app.record import apply_task
from watchkeeper.app.relations import check_relations, check_spec, refuse_circle
from watchkeeper.app.working_directories import expected, present
from watchkeeper.domain.model import Task, TaskSpec, TaskState
from watchkeeper.domain.plain_text import clean
from watchkeeper.domain.profile import WORDS, LaunchProfile, differences
from watchkeeper.domain.task import Edited
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.environment import capture
from watchkeeper.errors import BadTask, Refused, Stale, UsageError
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


AT_ONCE = datetime.min.replace(tzinfo=UTC)
"""As `not_before`: as soon as it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """What a person wants changed. None and empty values change nothing. Lengths of time are seconds; 0 is never."""

    title: str | None = None
    cwd: str | None = None
    """Absolute."""
    prompt: str | None = None
    model: str | None = None
    """Empty: the program's own choice."""
    rights: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    """Options of the harness to set, beside those that it has."""
    account: str | None = None
    priority: int | None = None
    after: tuple[str, ...] | None = None
    """The tasks to wait for instead, each by its id or the beginning of it."""
    not_before: datetime | None = None
    """A time to come, or `AT_ONCE`."""
    machine: str | None = None
    labels: tuple[str, ...] = ()
    """Labels to add."""
    no_labels: tuple[str, ...] = ()
    """Labels to take away."""
    deadline: float | None = None
    silence: float | None = None
    expect: str | None = None
    retries: int | None = None


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


def prepare(parts: Parts, caller: Caller, task_id: str, request: EditRequest) -> Edit:
    """Check an edit as a new task would be checked, without writing anything.

    Raises:
        NoSuchTask: the task, or one that it should wait for, is not there.
        Refused: the task does not wait for its turn.
        UsageError: the title is empty.
        BadTask: the task cannot be like this.
        HarnessError: its program is missing, where that matters.
    """
    task = parts.store.read(lambda tx: tx.tasks.get(task_id))
    require_editable(task)
    allowed = parts.store.read(lambda tx: tx.outcomes.authorisation(task_id))
    spec = _wanted(parts, task.spec, request)
    profile = _profile(parts, caller, task, spec, request, None if allowed is None else allowed.profile)
    place = present(parts, spec.cwd) if spec.cwd != task.spec.cwd else None
    return Edit(was=task, spec=spec, allowed=allowed, profile=profile, place=place)


def _wanted(parts: Parts, spec: TaskSpec, request: EditRequest) -> TaskSpec:
    """The task as it is to be."""
    spec = _with_text(spec, request)
    if request.cwd is not None:
        spec = _moved(parts, spec, request.cwd)
    _, account = account_choice.split(request.account, spec.harness)
    labels = dict.fromkeys((*spec.labels, *request.labels))
    spec = replace(
        spec,
        account=account or spec.account,
        model=spec.model if request.model is None else request.model or None,
        after=spec.after if request.after is None else task_ids(parts, request.after, {}),
        not_before=None if request.not_before == AT_ONCE else request.not_before or spec.not_before,
        deadline_s=spec.deadline_s if request.deadline is None else request.deadline or None,
        silence_s=spec.silence_s if request.silence is None else request.silence or None,
        expect=request.expect or spec.expect,
        max_attempts=spec.max_attempts if request.retries is None else request.retries + 1,
        priority=spec.priority if request.priority is None else request.priority,
        labels=tuple(each for each in labels if each not in request.no_labels),
    )
    return spec if request.machine is None else machines.bind(parts, spec, request.machine)


def _with_text(spec: TaskSpec, request: EditRequest) -> TaskSpec:
    if request.prompt is not None:
        was_given = spec.title != title(spec.prompt, spec.argv)
        spec = replace(spec, prompt=request.prompt, title=spec.title if was_given else title(request.prompt, spec.argv))
    if request.title is not None:
        if not request.title.strip():
            raise UsageError("The title is empty.", hint="Give it some letters.")
        spec = replace(spec, title=clean(request.title))
    return spec


def _moved(parts: Parts, spec: TaskSpec, cwd: str) -> TaskSpec:
    """The task in another directory, with the checkout that is there; its project follows if it was called after the checkout."""
    if spec.worktree is not None or spec.scratch:
        raise BadTask(
            "A task with a directory of its own works nowhere else.", hint="Cancel it, and hand it over there."
        )
    was, now = parts.workspace.checkout(spec.cwd), parts.workspace.checkout(cwd)
    shared = was is not None and spec.checkout is None
    follows = spec.project == ("" if was is None else was.project)
    project = ("" if now is None else now.project) if follows else spec.project
    return replace(spec, cwd=cwd, checkout=None if now is None or shared else now.top, project=project)


def _profile(
    parts: Parts, caller: Caller, task: Task, spec: TaskSpec, request: EditRequest, stored: LaunchProfile | None
) -> LaunchProfile | None:
    """Check the task, and compile its launch profile anew if the edit is of something that it depends on, else None."""
    check_spec(spec if spec.not_before != task.spec.not_before else replace(spec, not_before=None), parts.clock.now())
    if spec.account != task.spec.account:
        account_choice.require_no_keys(parts, caller.environ, task, spec)
    kept = parts.environments.get(task.environment_id)
    harness = parts.harness(spec.harness)
    environment = kept if kept is not None else capture(caller.environ, (), harness)
    given = dict(request.options)
    configured = dict(stored.options) if stored is not None else parts.harness_options(spec.harness)
    options = chosen(harness, configured, request.rights, given)
    check(harness, spec, environment, caller.environ)
    if not authorises(task.spec, spec) and request.rights is None and not given:
        return None  # the program is looked for only where the answer is a part of what a person allows
    limits = parts.limits if stored is None else Limits.from_profile(stored)
    wanted = account_choice.wanted(parts, spec, environment, options, limits)
    program = located(harness, spec, stored if "program" not in given else None, wanted.environment, options)
    return compile_profile(harness, spec, program, wanted)


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
        if task.spec != was.spec or allowed != wanted.allowed:
            raise Stale(f"Task {was.id} was edited meanwhile.", hint="Look at it, and edit it again.")
        spec = replace(wanted.spec, after=_still_there(tx, task, wanted.spec.after))
        check_relations(tx, task.id, spec)
        refuse_circle(tx, task.id, spec)
        before = first_own(tx, task, at)
        after = apply_task(tx, task, Edited(spec=spec, by=by, at=at, changed=", ".join(words(wanted.changed))), at)
        if wanted.authorises:
            place = wanted.place if spec.cwd != task.spec.cwd else expected(tx, task.id, allowed)
            profile = wanted.profile or (allowed.profile if allowed is not None else None)
            approved = approval(authorisation_id, after, profile, by=by, at=at, place=place)
            tx.outcomes.authorise(approved if profile or not allowed else replace(approved, detail=allowed.detail))
        announce_edited(tx, after, before, at)
        return tx.tasks.get(task.id)

    return store.transact("edit", work)


def _still_there(tx: Tx, task: Task, after: tuple[str, ...]) -> tuple[str, ...]:
    """Without the tasks that it waited for and that were removed since: an edit of another field does not ask for them again."""
    there = {each.task_id for each in tx.waits.dependencies(task.id)}
    return tuple(each for each in after if each in there or each not in task.spec.after)
