"""Hand a task over: check it, keep its environment, and put it into the queue with who authorised it, all before anything runs (R1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from watchkeeper.app.announce import announce_added
from watchkeeper.app.approval import approval
from watchkeeper.app.parts import Parts
from watchkeeper.app.relations import check_relations, check_spec
from watchkeeper.app.secrets import refuse_secrets
from watchkeeper.crash import crashpoint
from watchkeeper.domain.handover import difference
from watchkeeper.domain.model import Task, TaskSpec, TaskState
from watchkeeper.domain.profile import LaunchProfile
from watchkeeper.domain.wait import Wait
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.errors import BadTask, KeyTaken, NotFound, StateDirectoryUnusable, describe_os_error
from watchkeeper.ports.harness import Harness
from watchkeeper.ports.ids import Ids
from watchkeeper.ports.store import Authorisation, Tx

MAX_PROMPT_BYTES = 8 * 1024 * 1024
"""A prompt longer than this is a file that was given by mistake."""

MAX_TITLE = 200
"""Characters of a title."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A task that was checked and can be handed over."""

    spec: TaskSpec
    profile: LaunchProfile
    """What its agent is allowed, and what every launch of it uses; the person who hands it over approves that."""
    environment: Mapping[str, str]
    """The environment to keep for it."""
    by: str
    not_passed: tuple[str, ...] = ()
    """Variables of the caller that agents commonly need, and that this one does not get."""
    hidden_harness: str = ""
    """A sentence on a file of the person's that describes a harness of this name and does not count."""
    machine: str = ""
    """The id of this machine, where several share the database."""
    place: WorkingDirectory | None = None
    """The working directory as it was looked at when the task was handed over; None: it could not be looked at."""
    id: str | None = None
    """The task's id, if others that are handed over with it name it already."""
    notes: tuple[str, ...] = ()
    """What a person should know of its worktree, in sentences."""
    apart: "Checked | None" = None
    """The same task in a worktree of its own, which it gets if its checkout is busy when it is added; None: that is decided already."""
    key: str = ""
    """The caller's own name for this hand-over: repeated with the same content, it gives the same task. Empty: there is none."""
    key_digest: str = ""
    """Of its content, see `domain.handover`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """A task that was handed over."""

    task: Task
    already: bool = False
    """It was so before, by the same key; nothing was added."""
    key: str = ""
    problem: str = ""
    """What is wrong beside it, in a sentence; the task is on record all the same."""


def check(
    harness: Harness,
    spec: TaskSpec,
    environment: Mapping[str, str],
    caller: Mapping[str, str],
    keys: Sequence[str] = (),
) -> None:
    """Check what can be checked without looking for the program.

    Args:
        harness: that of the task.
        spec: the task.
        environment: the environment that is kept for it.
        caller: the whole environment of the person who asks, searched for secrets that slipped into the task.
        keys: the variables that the task's account asks for.

    Raises:
        BadTask: the task cannot be accepted.
    """
    _check(spec)
    refuse_secrets(spec, environment, caller, keys)
    harness.check(spec)


def hand_over(parts: Parts, checked: Sequence[Checked]) -> list[Handed]:
    """Put checked tasks into the queue, all of them or none, in their order; one may wait for another that stands before it.

    One whose key stands for a task already, handed over with the same content, is that task, whatever became of it since.

    Raises:
        BadTask: what it asks of the queue cannot be; nothing was added.
        KeyTaken: a key stands for something else; nothing was added.
        DatabaseUnusable: nothing was added.
        NotFound: an account or a task that is waited for is not there; nothing was added.
        StateDirectoryUnusable: there is no room, or an environment could not be kept; nothing was added.
    """
    parts.require_room()
    at, environments = parts.clock.now(), parts.environments
    tasks = [_made(parts.ids, each, at) for each in checked]
    try:
        for made, each in zip(tasks, checked, strict=True):
            crashpoint("add.environment.before")
            environments.keep(made.task.environment_id, each.environment)
            crashpoint("add.environment.after")
    except OSError as error:
        what = "task" if len(checked) == 1 else "tasks"
        msg = f"The {what} could not be kept ({describe_os_error(error)}), so nothing was added."
        raise StateDirectoryUnusable(msg, hint="`wk doctor` looks at the state directory.") from error

    def work(tx: Tx) -> list[Handed]:
        done: list[Handed] = []
        instead: dict[str, str] = {}
        for made, wanted in zip(tasks, checked, strict=True):
            task, allowed = made.in_checkout
            before = handed_over(tx, wanted.key, wanted.key_digest) if wanted.key else None
            if before is not None:
                instead[task.id] = before.id
                done.append(Handed(task=before, already=True, key=wanted.key))
                continue
            # Only here no other task can come between the look and the adding.
            if made.apart is not None and task.spec.checkout is not None and tx.waits.is_wanted(task.spec.checkout):
                task, allowed = made.apart
            spec = replace(task.spec, after=tuple(dict.fromkeys(instead.get(each, each) for each in task.spec.after)))
            _add(tx, replace(task, spec=spec), allowed, wanted, at)
            done.append(Handed(task=task, key=wanted.key))
        return [replace(each, task=tx.tasks.get(each.task.id)) for each in done]

    kept = [made.task.environment_id for made in tasks]
    try:
        done = parts.store.transact("add", work)
    except (BadTask, NotFound, KeyTaken):
        # Raised inside the transaction, so no record names them. After any other error the commit may have taken place; pruning removes what no record names.
        for each in kept:
            environments.forget(each)
        raise
    for each in set(kept) - {one.task.environment_id for one in done}:
        crashpoint("add.again.before")
        environments.forget(each)
    return [_kept(parts, each) for each in done]


def _kept(parts: Parts, handed: Handed) -> Handed:
    """Name what its worktree begins with, now that the task is on record. After a crash here the making of the worktree does it."""
    tree = handed.task.spec.worktree
    if tree is None or tree.begins_with is None or handed.already:
        return handed
    crashpoint("add.begins.before")
    problem = parts.worktrees.keep(tree, handed.task.id)
    crashpoint("add.begins.after")
    return replace(handed, problem=problem)


class _Made(NamedTuple):
    """A task with its approval, and the same one in a worktree if that is still to be decided."""

    in_checkout: tuple[Task, Authorisation]
    apart: tuple[Task, Authorisation] | None

    @property
    def task(self) -> Task:
        """The task, wherever it works: its id and its environment are the same."""
        return self.in_checkout[0]


def _made(ids: Ids, checked: Checked, at: datetime) -> _Made:
    """The task that was checked. Raises BadTask."""
    spec = replace(checked.spec, after=tuple(dict.fromkeys(checked.spec.after)))
    check_spec(spec, at)
    task = Task(
        id=checked.id or ids.task(),
        spec=spec,
        state=TaskState.QUEUED,
        created_at=at,
        updated_at=at,
        environment_id=ids.execution(),
        environment_machine=checked.machine,
        wake_at=spec.not_before,
        wake_for=None if spec.not_before is None else Wait.NOT_BEFORE,
    )
    apart = checked.apart
    return _Made(
        (task, _approval(ids, task, checked, at)),
        None
        if apart is None
        else (moved := replace(task, spec=replace(apart.spec, after=spec.after)), _approval(ids, moved, apart, at)),
    )


def _approval(ids: Ids, task: Task, checked: Checked, at: datetime) -> Authorisation:
    return approval(ids.execution(), task, checked.profile, by=checked.by, at=at, place=checked.place)


def handed_over(tx: Tx, key: str, digest: str) -> Task | None:
    """The task that was handed over with this key and this content; None if the key is free.

    Raises:
        KeyTaken: the key stands for another content.
    """
    found = tx.tasks.keyed(key)
    if found is None:
        return None
    task_id, before = found
    if before != digest:
        raise KeyTaken(
            f"The key '{key}' stands for task {task_id} already, which was handed over with another {difference(before, digest)}.",
            hint=f"Choose another key, or hand over the same again; `wk show {task_id}` shows the task.",
        )
    return tx.tasks.get(task_id)


def _add(tx: Tx, task: Task, allowed: Authorisation, wanted: Checked, at: datetime) -> None:
    check_relations(tx, task.id, task.spec)
    tx.tasks.add(task)
    if wanted.key:
        tx.tasks.take_key(task.id, wanted.key, wanted.key_digest)
    tx.outcomes.authorise(allowed)
    told = {"title": task.spec.title, "harness": task.spec.harness, "cwd": task.spec.cwd, "by": allowed.by}
    _ = tx.journal.append("task.added", at, task_id=task.id, data=told)
    announce_added(tx, task, at)


def refuse_empty(prompt: str, argv: Sequence[str]) -> None:
    """Raises BadTask: there is neither a text nor a command line."""
    if not prompt.strip() and not argv:
        raise BadTask(
            "The task is empty.",
            hint='Say what is to be done, for example: wk run "fix the failing test".',
        )


def _check(spec: TaskSpec) -> None:
    refuse_empty(spec.prompt, spec.argv)
    size = len(spec.prompt.encode("utf-8", "surrogatepass"))
    if size > MAX_PROMPT_BYTES:
        raise BadTask(
            f"The task is {size / 1e6:.1f} MB long; at most {MAX_PROMPT_BYTES // (1024 * 1024)} MiB are accepted.",
            hint="Put the material into a file in the directory and name the file in the task.",
        )
    if len(spec.title) > MAX_TITLE:
        raise BadTask(f"The title is longer than {MAX_TITLE} characters.", hint="Shorten it.")
    directory = Path(spec.cwd)
    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "does not exist"
        raise BadTask(f"'{spec.cwd}' {what}.", hint="Name the directory to work in with --cwd.")
