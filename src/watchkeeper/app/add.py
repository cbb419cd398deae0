"""Hand a task over: check it, keep its environment, and put it into the queue with who authorised it, all before anything runs (R1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from watchkeeper.app.announce import tell_added
from watchkeeper.app.approval import approval
from watchkeeper.app.profiles import Limits, Wanted, compile_profile
from watchkeeper.app.relations import check_relations, check_wishes
from watchkeeper.app.secrets import refuse_secrets
from watchkeeper.crash import crashpoint
from watchkeeper.domain.handover import difference
from watchkeeper.domain.model import Task, TaskSpec, TaskState
from watchkeeper.domain.profile import LaunchProfile, line
from watchkeeper.domain.wait import Wait
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.environment import left_out
from watchkeeper.errors import BadTask, KeyTaken, NotFound
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.environment import Environments
from watchkeeper.ports.harness import Harness, Program, find_program
from watchkeeper.ports.ids import Ids
from watchkeeper.ports.store import Authorisation, Store, Tx

MAX_PROMPT_BYTES = 8 * 1024 * 1024
"""A prompt longer than this is a file that was given by mistake."""

MAX_TITLE = 200
"""Characters of a title."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRequest:
    """A task as somebody hands it over."""

    spec: TaskSpec
    environment: Mapping[str, str]
    by: str
    options: Mapping[str, str]
    """The options of the harness, as `profiles.chosen` gives them."""
    limits: Limits = field(default_factory=Limits)
    caller: Mapping[str, str] = field(default_factory=dict[str, str])
    """The whole environment of whoever asks: looked at for secrets that slipped into the task, never kept."""
    keys: tuple[str, ...] = ()
    """Variables that the task's account asks for."""
    agent_environment: Mapping[str, str] | None = None
    """The captured environment with the account applied; None: the account changes nothing."""
    home: str = ""
    """The configuration home of the account; empty for the user's own."""
    machine: str = ""
    """The id of this machine, where several share the database."""
    place: WorkingDirectory | None = None
    """The working directory as it was looked at when the task was handed over; None: it could not be looked at."""
    id: str | None = None
    """The task's id, if others that are handed over with it name it already."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What adding the task would do; shown before it starts, and all that `--dry-run` does."""

    spec: TaskSpec
    profile: LaunchProfile
    """What is allowed, and what every launch of it uses."""
    not_passed: tuple[str, ...] = ()
    """Variables of the caller that work in a project commonly needs and that the agent does not get, most telling first; names only."""

    @property
    def program(self) -> Program:
        """The program that was found."""
        return Program(path=self.profile.program, version=self.profile.version)

    @property
    def says(self) -> str:
        """The line on sandbox, network and rights, for people."""
        return line(self.profile)


def plan(harness: Harness, request: AddRequest, program: Program | None = None, *, is_new: bool = True) -> Plan:
    """Check a task without doing anything. `program`: the harness's, if it was found before. `is_new`: its environment is captured now.

    Raises:
        BadTask: the task cannot be accepted.
        ProgramMissing: the agent program is not installed, or the program of a command line cannot be found.
    """
    spec = request.spec
    check(harness, request)
    environment = request.environment if request.agent_environment is None else request.agent_environment
    wanted = Wanted(
        environment=environment,
        options=request.options,
        limits=request.limits,
        machine=request.machine,
        home=request.home,
        caller=request.caller if is_new else None,
    )
    found = program or find_program(harness, spec, environment, request.options)
    names = (*spec.environment_names, *request.keys)
    return Plan(
        spec=spec,
        profile=compile_profile(harness, spec, found, wanted),
        not_passed=left_out(request.caller, names, harness),
    )


def check(harness: Harness, request: AddRequest) -> None:
    """Check what can be checked without looking for the program. Raises BadTask."""
    spec = request.spec
    _check(spec)
    refuse_secrets(spec, request.environment, request.caller, request.keys)
    harness.check(spec)


def add(
    store: Store,
    environments: Environments,
    clock: Clock,
    ids: Ids,
    request: AddRequest,
    agreed: Plan,
) -> Task:
    """Put a checked task into the queue, durably, with the approval of the person who typed it (decided by what `agreed` said). Raises as `add_all`."""
    return add_all(store, environments, clock, ids, [(request, agreed)])[0]


def add_all(
    store: Store,
    environments: Environments,
    clock: Clock,
    ids: Ids,
    handed: Sequence[tuple[AddRequest, Plan]],
) -> list[Task]:
    """The same as `hand_over`, the tasks alone."""
    return [each.task for each in hand_over(store, environments, clock, ids, handed)]


def hand_over(
    store: Store,
    environments: Environments,
    clock: Clock,
    ids: Ids,
    handed: Sequence[tuple[AddRequest, Plan]],
) -> list[Handed]:
    """Put checked tasks into the queue, all of them or none, in their order; one may wait for another that stands before it.

    One whose key stands for a task already, handed over with the same content, is that task, whatever became of it since.

    Raises:
        BadTask: what it asks of the queue cannot be; nothing was added.
        KeyTaken: a key stands for something else; nothing was added.
        DatabaseUnusable: nothing was added.
        NotFound: an account or a task that is waited for is not there; nothing was added.
        OSError: an environment could not be kept; nothing was added.
    """
    at = clock.now()
    tasks = _made(ids, handed, at)
    for (task, _), (request, _) in zip(tasks, handed, strict=True):
        crashpoint("add.environment.before")
        environments.keep(task.environment_id, request.environment)
        crashpoint("add.environment.after")

    def work(tx: Tx) -> list[Handed]:
        done: list[Handed] = []
        instead: dict[str, str] = {}
        for (task, allowed), (request, _) in zip(tasks, handed, strict=True):
            before = handed_over(tx, request.key, request.key_digest) if request.key else None
            if before is not None:
                instead[task.id] = before.id
                done.append(Handed(task=before, already=True, key=request.key))
                continue
            spec = replace(task.spec, after=tuple(dict.fromkeys(instead.get(each, each) for each in task.spec.after)))
            _add(tx, replace(task, spec=spec), allowed, request, at)
            done.append(Handed(task=task, key=request.key))
        return [replace(each, task=tx.tasks.get(each.task.id)) for each in done]

    kept = [task.environment_id for task, _ in tasks]
    try:
        done = store.transact("add", work)
    except (BadTask, NotFound, KeyTaken):
        # Said inside the transaction, so nothing names them. After any other error the commit may have taken place; pruning forgets what nobody names.
        for each in kept:
            environments.forget(each)
        raise
    for each in set(kept) - {one.task.environment_id for one in done}:
        crashpoint("add.again.before")
        environments.forget(each)
    return done


def _made(ids: Ids, handed: Sequence[tuple[AddRequest, Plan]], at: datetime) -> list[tuple[Task, Authorisation]]:
    """A task and its approval for each. Raises BadTask."""
    tasks: list[tuple[Task, Authorisation]] = []
    for request, agreed in handed:
        spec = replace(request.spec, after=tuple(dict.fromkeys(request.spec.after)))
        check_wishes(spec, at)
        task = Task(
            id=request.id or ids.task(),
            spec=spec,
            state=TaskState.QUEUED,
            created_at=at,
            updated_at=at,
            environment_id=ids.execution(),
            environment_machine=request.machine,
            wake_at=spec.not_before,
            wake_for=None if spec.not_before is None else Wait.NOT_BEFORE,
        )
        tasks.append((task, approval(ids.execution(), task, agreed.profile, by=request.by, at=at, place=request.place)))
    return tasks


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


def _add(tx: Tx, task: Task, allowed: Authorisation, request: AddRequest, at: datetime) -> None:
    check_relations(tx, task.id, task.spec)
    tx.tasks.add(task)
    if request.key:
        tx.tasks.take_key(task.id, request.key, request.key_digest)
    tx.outcomes.authorise(allowed)
    told = {"title": task.spec.title, "harness": task.spec.harness, "cwd": task.spec.cwd, "by": allowed.by}
    _ = tx.journal.append("task.added", at, task_id=task.id, data=told)
    tell_added(tx, task, at)


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
