"""Run a task again, because a person asks for it: `prepare` decides what it would be allowed, `retry` writes it."""

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from watchkeeper.app import account_choice
from watchkeeper.app.account_seen import see
from watchkeeper.app.approval import approval
from watchkeeper.app.off_record import put_on_record
from watchkeeper.app.parts import Caller, Parts
from watchkeeper.app.profiles import Limits, compile_profile, located
from watchkeeper.app.record import apply_run, apply_task
from watchkeeper.app.working_directories import expected, present
from watchkeeper.crash import crashpoint
from watchkeeper.domain.model import Proof, Run, RunState, Task, TaskSpec
from watchkeeper.domain.plain_text import clean
from watchkeeper.domain.profile import LaunchProfile
from watchkeeper.domain.repair import can_run_again
from watchkeeper.domain.resolution import resolve_held
from watchkeeper.domain.run_events import (
    Settled,
)
from watchkeeper.domain.service import ClosureLifted
from watchkeeper.domain.task import RetryAsked, RunSettled
from watchkeeper.domain.task_worktree import refuse_removed
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.domain.worktree import Worktree, WorktreeState
from watchkeeper.environment import capture
from watchkeeper.errors import BadTask, NotFound, ProgramMissing, Refused, Stale, describe_os_error
from watchkeeper.ports.harness import find_program
from watchkeeper.ports.runtime import Runtime
from watchkeeper.ports.store import Authorisation, Store, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A checked retry of a task as it was read."""

    task_id: str
    spec: TaskSpec
    allowed: Authorisation | None
    """Its newest authorisation as it was read."""
    environment: Mapping[str, str]
    """The environment to keep for it."""
    profile: LaunchProfile
    """What its launches are allowed from now on: what was allowed before, as far as that is still there."""
    approved: WorkingDirectory | None
    """The working directory that its next run would have had to find."""
    place: WorkingDirectory | None
    """The working directory as it is now."""

    @property
    def is_news(self) -> bool:
        """Whether `profile` differs from what was allowed before in what a person decides on."""
        stored = None if self.allowed is None else self.allowed.profile
        return stored is None or (self.profile.scope, self.profile.program) != (stored.scope, stored.program)


def prepare(parts: Parts, caller: Caller, task_id: str) -> Again:
    """Check a retry. Only a stop that is not on record yet is written: it came before this.

    Raises:
        NoSuchTask: there is none.
        Refused: what it was to do could not be read.
        BadTask: its directory is missing, or it cannot be launched any more.
        HarnessError: its program is missing.
    """
    parts.require_room()
    _ = put_on_record(parts.store, parts.clock, parts.runtime, task_id)

    def read(tx: Tx) -> tuple[TaskSpec, Authorisation | None, WorkingDirectory | None]:
        task, allowed = tx.tasks.get(task_id), tx.outcomes.authorisation(task_id)
        refuse_unreadable(task)
        refuse_removed(task)
        return task.spec, allowed, expected(tx, task_id, allowed)

    spec, allowed, approved = parts.store.read(read)
    place = _present_directory(parts, spec, allowed)
    environ, keys = account_choice.environment(parts, caller.environ, spec)
    environment = capture(environ, (*spec.environment_names, *keys), parts.harness(spec.harness))
    profile = _profile(parts, caller, spec, environment, None if allowed is None else allowed.profile)
    return Again(
        task_id=task_id,
        spec=spec,
        allowed=allowed,
        environment=environment,
        profile=profile,
        approved=approved,
        place=place,
    )


def _present_directory(parts: Parts, spec: TaskSpec, allowed: Authorisation | None) -> WorkingDirectory | None:
    """The working directory as it is now. Of one that is on another machine, what was approved stays.

    Raises:
        BadTask: it is not there.
    """
    tree = spec.worktree
    if tree is not None and tree.state is WorktreeState.PLANNED:
        return None  # it is made before the launch
    if spec.scratch and not os.path.lexists(spec.cwd):
        return None  # the same
    found = present(parts, spec.cwd)
    if found is not None:
        if tree is not None and tree.state is WorktreeState.MADE:
            _refuse_another_place(tree, found)
        return found
    if spec.machine not in {None, parts.machine}:
        return None if allowed is None else allowed.place
    if tree is not None and tree.state is WorktreeState.MADE and not os.path.lexists(tree.path):
        raise BadTask(
            f"The worktree {clean(tree.path)} is missing, and the task works nowhere else.",
            hint=f"In {clean(tree.source)}, `git worktree add {shlex.quote(tree.path)} {shlex.quote(tree.branch)}` brings back what was committed.",
        )
    if not os.path.lexists(spec.cwd):
        raise BadTask(f"The directory '{clean(spec.cwd)}' is missing.", hint="Put it back, then try it again.")
    return None


def _refuse_another_place(tree: Worktree, found: WorkingDirectory) -> None:
    """Raises BadTask: what is in the place of a worktree is a link, or has another branch. One that was brought back is another directory, and is right."""
    real = os.path.realpath(tree.path)
    if real != tree.path:
        raise BadTask(
            f"The worktree {clean(tree.path)} is a link to {clean(real)}, and the task works nowhere else.",
            hint="Put the worktree back, then try it again.",
        )
    if found.ref != f"refs/heads/{tree.branch}":
        raise BadTask(
            f"The worktree {clean(tree.path)} is not on the task's branch {clean(tree.branch)}.",
            hint=f"`git -C {shlex.quote(clean(tree.path))} switch {shlex.quote(clean(tree.branch))}` goes back to it.",
        )


def _profile(
    parts: Parts, caller: Caller, spec: TaskSpec, environment: Mapping[str, str], stored: LaunchProfile | None
) -> LaunchProfile:
    """What was allowed before, compiled for the environment of today; its program is looked for anew only if it is gone."""
    harness = parts.harness(spec.harness)
    configured = parts.harness_options(spec.harness)
    options, limits = configured, replace(parts.limits, inherits=caller.inherits)
    if stored is not None:
        options, limits = dict(stored.options), Limits.from_profile(stored)
        limits = replace(limits, inherits=stored.inherits or caller.inherits)  # an older version did not ask for it
    wanted = account_choice.wanted(parts, spec, environment, options, limits)
    applied = wanted.environment
    try:
        program = located(harness, spec, stored, applied, options)
    except ProgramMissing:
        options = {name: value for name, value in options.items() if name != "program"}
        options |= {name: value for name, value in configured.items() if name == "program"}
        program = find_program(harness, spec, applied, options)
    return compile_profile(harness, spec, program, replace(wanted, options=options))


def retry(
    parts: Parts, again: Again, *, by: str, then: Callable[[Tx, Task], None] | None = None, machine: str = ""
) -> Task:
    """Queue the task again with a fresh budget of attempts, under the environment of the person who asks.

    Where its account waits for its service or its limit, one task of it is tried at once, whatever pause or limit is recorded: the person may know more. If
    that fails, the account is closed again; if it is answered, all continue.
    A held run is given up first: this is a person's word that nothing of it is alive or that it does not matter.
    The working directory is approved as it is now, whatever it was before. What a person allowed since the task was read is not overwritten.

    Args:
        parts: the installation.
        again: what was checked.
        by: who asks.
        then: what else the same transaction does with the queued task.
        machine: the machine that keeps the conversation to continue, where several share the database; empty: as before.

    Raises:
        NoSuchTask: there is none.
        Stale: it was edited or tried again meanwhile.
        Refused: the task is running or already waiting, what it was to do could not be read, or the agent of its last run is alive.
        BadTask: its environment could not be kept.
    """
    store, environments, task_id = parts.store, parts.environments, again.task_id
    refuse_unreadable(store.read(lambda tx: tx.tasks.get(task_id)))
    _refuse_beside_a_living_agent(store, parts.runtime, task_id, parts.machine)
    at = parts.clock.now()
    environment_id = parts.ids.execution()
    authorisation_id = parts.ids.execution()
    crashpoint("retry.environment.before")
    try:
        environments.keep(environment_id, again.environment)
    except OSError as error:
        msg = f"The environment could not be kept ({describe_os_error(error)}), so nothing was changed."
        raise BadTask(msg, hint="`wk doctor` looks at the state directory.") from error
    crashpoint("retry.environment.after")

    def work(tx: Tx) -> Task:
        _refuse_if_changed(tx, again)
        task = _give_up_held(tx, tx.tasks.get(task_id))
        lifts = _lift_closure(tx, task, at)
        asked = RetryAsked(
            by=by, at=at, environment_id=environment_id, environment_machine=parts.machine, lifts=lifts, machine=machine
        )
        task = apply_task(tx, task, asked, at)
        tx.outcomes.authorise(approval(authorisation_id, task, again.profile, by=by, at=at, place=again.place))
        if then is not None:
            then(tx, task)
        return task

    def _give_up_held(tx: Tx, task: Task) -> Task:
        if task.run_id is None:
            return task
        run = tx.runs.get(task.run_id)
        if run.state is not RunState.HELD:
            return task
        outcome = resolve_held(task, run, at, stopped=False, by=by)
        _ = apply_run(tx, run, Settled(outcome=outcome), at)
        tx.outcomes.add(outcome)
        return apply_task(tx, task, RunSettled(outcome=outcome, again=True), at)

    try:
        return store.transact("retry", work)
    except (Refused, NotFound):
        # Raised inside the transaction, so no record names it. After any other error the commit may have taken place; pruning removes what no record names.
        environments.forget(environment_id)
        raise


def refuse_unreadable(task: Task) -> None:
    """Raises Refused for a task of which a repair could not keep what it was to do."""
    if not can_run_again(task.spec):
        raise Refused(
            f"Task {task.id} cannot be run again: what it was to do could not be read.",
            hint="Hand it over anew with `wk run`.",
        )


def _refuse_if_changed(tx: Tx, again: Again) -> None:
    if (tx.tasks.get(again.task_id).spec, tx.outcomes.authorisation(again.task_id)) != (again.spec, again.allowed):
        raise Stale(f"Task {again.task_id} was changed meanwhile.", hint="Look at it, and try it again.")


def _lift_closure(tx: Tx, task: Task, at: datetime) -> bool:
    """Let the account try its service at once, on every machine; True if it waited for that anywhere."""
    lifted = False
    for machine in tx.machines.all():
        before = tx.accounts.states(machine.id).get(task.spec.account_id)
        if before is None:
            continue
        _ = see(tx, before.account, machine.id, ClosureLifted(at=at), at)
        lifted = tx.accounts.states(machine.id)[before.account] != before or lifted
    return lifted


def _refuse_beside_a_living_agent(store: Store, runtime: Runtime, task_id: str, machine: str) -> None:
    """A person's statement cannot permit two agents in one directory while the first one is seen alive."""
    for run in store.read(lambda tx: tx.runs.of_task(task_id))[-1:]:
        if run.state not in {RunState.HELD, RunState.SETTLED} or run.proof is Proof.PROVEN:
            continue
        if machine and run.machine != machine:
            _refuse_from_afar(store, run)
            continue
        agent = runtime.living_agent(run)
        if agent is not None:
            raise Refused(
                f"The agent of its last run is still alive (pid {agent.pid}).",
                hint=f"`wk kill {task_id}` ends it; then `wk retry {task_id}` starts another.",
            )


def _refuse_from_afar(store: Store, run: Run) -> None:
    """As long as its machine is heard of, whether the agent lives is asked there; after that, a person's word counts."""
    there = store.read(lambda tx: tx.machines.get(run.machine))
    now = store.time()
    if there is not None and there.lease_until is not None and now is not None and there.lease_until > now:
        raise Refused(
            f"Whether the agent of its last run is alive can be seen only on {there.name or there.id}.",
            hint=f"Type `wk retry {run.task_id}` there.",
        )
