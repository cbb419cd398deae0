"""From a reserved run to a prepared execution: read the stored launch profile, look at the workspace, write the directory, record it.

Nothing is started here. The transaction that records the directory queues the start of the shim, so a crash anywhere leaves either a reserved run, which is
prepared again, or a prepared one whose start is in the outbox.

The command line, the rights and the limits come from the profile that was compiled when the task was handed over, and from nothing else: no setting of the
daemon has a say in them. Only what is a machine's own is looked up here, where the task runs on another machine than the one that compiled the profile.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from watchkeeper.app.accounts import AccountEnvironments, HomeGone, of_task
from watchkeeper.app.beside import place_of
from watchkeeper.app.environments import EnvironmentUnknown, TaskEnvironments
from watchkeeper.app.profiles import Limits, Wanted, at_its_place, compile_profile
from watchkeeper.app.record import apply_run, apply_task
from watchkeeper.app.route import route_of
from watchkeeper.app.side_commands import SideCommands
from watchkeeper.app.steps import LOOKS, MAKES, OnStep, ignore_step
from watchkeeper.app.turns import SessionElsewhere, given, text_of
from watchkeeper.app.working_directories import expected
from watchkeeper.app.worktree_environment import beside, variables_of
from watchkeeper.domain.account import Account
from watchkeeper.domain.failure import ROWS, FailureKind
from watchkeeper.domain.message import Message, Turn
from watchkeeper.domain.model import DirectoryIdentity, Run, RunState, Task
from watchkeeper.domain.profile import LaunchProfile, as_written_now, differences, words
from watchkeeper.domain.run_events import (
    NeverLaunched,
    Prepared,
)
from watchkeeper.domain.task import WorktreeMade
from watchkeeper.domain.working_directory import WorkingDirectory, change, is_settled, new_commits
from watchkeeper.domain.worktree import WorktreeState
from watchkeeper.errors import BadTask, HarnessError, Refused, WatchkeeperError
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.harness import Harness, find_program
from watchkeeper.ports.runtime import ExecutionRequest, Runtime
from watchkeeper.ports.store import Authorisation, Store, Tx
from watchkeeper.ports.workspace import SILENT, Survey, Workspace
from watchkeeper.ports.worktrees import Worktrees
from watchkeeper.redaction.engine import Redactor
from watchkeeper.redaction.variables import secrets_of

_NOT_STORED = "An older version accepted this task and stored no launch profile"


_LOOKS = 3
"""How often a directory is looked at whose branch is switched meanwhile."""


class NotAllowed(Exception):  # noqa: N818 - a state of the task that a person resolves, not a program error
    """What would run is not what was allowed."""


class DirectoryChanged(NotAllowed):
    """Where it would run is not what was allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRules:
    """Settings of this machine, for what its own program is, and for tasks that an older version accepted."""

    limits: Limits
    options: Callable[[str], Mapping[str, str]]
    """The settings of a harness, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """Prepares executions."""

    store: Store
    clock: Clock
    runtime: Runtime
    environments: TaskEnvironments
    workspace: Workspace
    worktrees: Worktrees
    harness: Callable[[str], Harness]
    """A harness by name; raises UnknownHarness."""
    rules: LaunchRules
    accounts: AccountEnvironments
    commands: SideCommands
    on_step: OnStep = ignore_step

    def launch(self, run_id: str) -> bool:
        """Prepare a reserved run. A run that is further, or was stopped, is left alone.

        Returns True where the set-up of its worktree has not ended: the launch continues at a later look.

        Raises:
            OSError: the disk did not take it; the run stays reserved and is prepared at the next try.
        """
        found = self.store.read(lambda tx: _load(tx, run_id))
        run, task, account = found.run, found.task, found.account
        if run.state is not RunState.RESERVED or self._adopt(found):
            return False
        try:
            environment = self.environments.for_task(task, account)
        except EnvironmentUnknown as problem:
            kind = FailureKind.ENVIRONMENT_UNKNOWN
            self._refuse(run, str(problem) or ROWS[kind].detail, kind)
            return False
        if not self._make_worktree(run, task):
            return False
        failed = self.commands.set_up(run, task)
        if failed:
            reason = (
                f"The set-up failed: {failed[0].reason} `wk logs {task.id} --setup {failed[0].number}` has its output."
            )
            self._refuse(run, reason, FailureKind.SETUP_FAILED)
        elif failed is not None:
            self._prepare(run_id, environment)
        return failed is None

    def _prepare(self, run_id: str, environment: Mapping[str, str]) -> None:
        """Look at the directory, write the execution directory and record it, or give the run up."""
        found = self.store.read(lambda tx: _load(tx, run_id))
        run, task, account = found.run, found.task, found.account
        # From here on nothing else looks at the directory: where this look was answered, others are too.
        self.on_step(run.id, LOOKS, task.spec.cwd)
        survey = self.workspace.survey(task.spec.cwd, run.execution_id)
        self.on_step(run.id, "", "")
        if survey.before.get(SILENT):
            self._refuse(run, str(survey.before["why_unknown"]))
            return
        if self.environments.is_from_elsewhere(task) and survey.first is None:
            self._refuse(
                run, f"The directory '{task.spec.cwd}' is not on this machine.", FailureKind.ENVIRONMENT_UNKNOWN
            )
            return
        # What will not be otherwise at the next try must not keep a place in the queue: the run is given up, and nothing was started for it.
        try:
            profile, order = self._request(found, environment, survey)
            directory = self.runtime.prepare(order)
        except HomeGone as problem:
            # It may be on a disk that is not mounted now: the task keeps its place, as it does without a sign-in.
            self._refuse(run, str(problem), FailureKind.SIGNED_OUT if account else FailureKind.BAD_REQUEST)
        except HarnessError as problem:
            self._refuse(run, _redacted_reason(problem, environment, task, account), FailureKind.PROGRAM_MISSING)
        except SessionElsewhere as problem:
            self._refuse(run, str(problem), FailureKind.SESSION_GONE)
        except DirectoryChanged as problem:
            self._refuse(run, str(problem), FailureKind.DIRECTORY_CHANGED)
        except NotAllowed as problem:
            self._refuse(run, str(problem), FailureKind.PERMISSION_DENIED)
        except (BadTask, Refused) as problem:
            self._refuse(run, _redacted_reason(problem, environment, task, account))
        else:
            moved = new_commits(found.expected, order.place) if found.expected and order.place else ""
            self._record(run, directory, place_of(order.before, order.cwd), profile.version, moved)

    def _make_worktree(self, run: Run, task: Task) -> bool:
        """Make the task's scratch directory, or its worktree if that is not on record as made, and record it.

        Return False if that failed: then the run is given up.
        """
        tree = task.spec.worktree
        if task.spec.scratch and (problem := self.worktrees.make_scratch(task.spec.cwd)):
            self._refuse(run, problem, FailureKind.DIRECTORY_MISSING)
            return False
        if tree is None or tree.state is not WorktreeState.PLANNED:
            return True
        self.on_step(run.id, MAKES, tree.path)
        made = self.worktrees.make(tree, task.id)
        self.on_step(run.id, "", "")
        place = made.place
        if place is not None and task.spec.cwd != tree.path:
            place = self.workspace.identify(task.spec.cwd)
        if place is None:
            again = "" if made.passing else f" `wk retry {task.id}` tries again."
            kind = FailureKind.NEVER_LAUNCHED if made.passing or not made.problem else FailureKind.DIRECTORY_MISSING
            self._refuse(run, f"{made.problem or f'{task.spec.cwd} is not in the worktree.'}{again}", kind)
            return False
        event = WorktreeMade(place=replace(place, machine=self.environments.machine), at=self.clock.now())
        self.store.transact("worktree_made", lambda tx: apply_task(tx, tx.tasks.get(task.id), event, event.at))
        return True

    def _adopt(self, found: "_LaunchFacts") -> bool:
        """Record a run as prepared whose directory tells that it went on: the database that knew it is lost, and this one is older, as after a restore.

        Whatever would keep it from being prepared now, such as an environment that went with its end, says nothing of what it did. The directory does, and is
        observed like any other.
        """
        run, executions = found.run, self.runtime.executions()
        directory = executions.begun(run, found.database_id)
        if directory is None:
            return False
        before = executions.before(replace(run, directory=directory))
        self._record(run, directory, place_of(before, found.task.spec.cwd))
        return True

    def _request(
        self, found: "_LaunchFacts", captured: Mapping[str, str], survey: Survey
    ) -> tuple[LaunchProfile, ExecutionRequest]:
        run, task = found.run, found.task
        spec = task.spec
        place, before = self._compare(found, survey)
        harness = self.harness(spec.harness)
        environment = self.accounts.apply(harness, found.account, captured, spec.environment_names)
        profile = self._profile(found, harness, environment)
        argv, prompt = text_of(found.turn, found.messages, run, spec.prompt, harness, profile)
        request = ExecutionRequest(
            database_id=found.database_id,
            run=run,
            argv=argv,
            cwd=spec.cwd,
            environment=profile.applied(environment) | variables_of(found.task, found.beside),
            asked=_asked(task, found.account),
            prompt=prompt.encode("utf-8", "surrogateescape"),
            prompt_by=profile.prompt_by,
            deadline_s=spec.deadline_s,
            silence_s=spec.silence_s,
            grace_s=profile.grace_s,
            leftovers=spec.leftovers,
            log_limit_bytes=profile.log_limit_bytes,
            inherits=profile.inherits,
            place=place,
            before=before,
        )
        return profile, request

    def _compare(self, found: "_LaunchFacts", survey: Survey) -> tuple[WorkingDirectory | None, Mapping[str, object]]:
        """Which directory the agent must enter, and what it looks like: one look, so that what was approved is what is compared afterwards.

        A directory that cannot be looked at is not refused here. The shim tries to enter it, and says by which error it could not.

        Raises:
            DirectoryChanged: it is another directory than the one that was approved, or is on another branch.
        """
        cwd, approved = found.task.spec.cwd, found.expected
        again = f"Nothing was started. `wk retry {found.task.id}` approves it as it is now."
        for _ in range(_LOOKS):
            if survey.first is None or survey.last is None:
                here = approved is not None and approved.machine in {"", self.environments.machine}
                return (approved if here else None), survey.before
            now = replace(survey.first, machine=self.environments.machine)
            difference = "" if approved is None else change(approved, now)
            if difference:
                raise DirectoryChanged(f"'{cwd}' {difference}. {again}")
            if is_settled(survey.first, survey.last):
                return now, survey.before
            survey = self.workspace.survey(cwd, found.run.execution_id)
        raise DirectoryChanged(f"'{cwd}' was switched to another branch while it was looked at. {again}")

    def _profile(self, found: "_LaunchFacts", harness: Harness, environment: Mapping[str, str]) -> LaunchProfile:
        """The stored profile, with the program as it is on this machine now.

        Raises:
            ProgramMissing: the program is not there.
            HomeGone: the account has another home than the one that was allowed.
            NotAllowed: there is no profile, and what would run is not what was allowed.
        """
        allowed = found.allowed
        profile = None if allowed is None else allowed.profile
        if profile is None:
            return self._of_an_older_version(found, harness, environment)
        home = self.accounts.home(found.account) or "" if found.account is not None else ""
        if self.environments.is_from_elsewhere(found.task):
            return self._of_another_machine(found.task, profile, harness, environment, home)
        if profile.home != home:
            raise HomeGone(
                f"Account {profile.account} has another home now: {home or 'your own'}. It was allowed with {profile.home or 'your own'}."
            )
        self._check_host(found.task, profile, harness, environment)
        # Found by its path alone, whatever PATH and settings say now; its version may have changed, which is shown.
        if not profile.program:
            return profile
        program = at_its_place(harness, found.task.spec, profile.program, environment, dict(profile.options))
        return replace(profile, version=program.version)

    def _check_host(self, task: Task, profile: LaunchProfile, harness: Harness, environment: Mapping[str, str]) -> None:
        """Refuse a launch whose requests would go elsewhere than was allowed: the program reads some of its configuration by itself, as it is then."""
        again = f"`wk retry {task.id}` approves it anew."
        try:
            now = route_of(harness, task.spec, environment, dict(profile.options)).host
        except BadTask as problem:
            raise NotAllowed(f"Where its requests would go cannot be told any more: {problem} {again}") from problem
        if now != profile.host:
            raise NotAllowed(
                f"Its requests would go to {now or 'a place that is not known'} now; {profile.host or 'that'} was allowed. {again}"
            )

    def _of_another_machine(
        self, task: Task, profile: LaunchProfile, harness: Harness, environment: Mapping[str, str], home: str
    ) -> LaunchProfile:
        """The profile of a task that was accepted on another machine: the stored options, with what is this machine's own.

        Its own are the place of the program, the home of the account, and the variables. What they come to must be what was allowed.
        """
        local = self.rules.options(profile.harness).get("program")
        options = {name: value for name, value in profile.options if name != "program"}
        if local is not None:
            options["program"] = local
        limits = Limits.from_profile(profile)
        machine = self.environments.machine
        wanted = Wanted(environment=environment, options=options, limits=limits, machine=machine, home=home)
        here = compile_profile(harness, task.spec, find_program(harness, task.spec, environment, options), wanted)
        if replace(here, home=profile.home).scope != profile.scope:
            named = ", ".join(
                words(differences(profile, here), besides={"machine", "home", "program", "version", "argv"})
            )
            raise NotAllowed(
                f"On this machine it would have other rights than were allowed ({named}). `wk retry {task.id}` here approves them."
            )
        return here

    def _of_an_older_version(
        self, found: "_LaunchFacts", harness: Harness, environment: Mapping[str, str]
    ) -> LaunchProfile:
        """The profile of a task that was accepted before profiles were stored, if it comes to the sentence that was allowed then."""
        spec, options = found.task.spec, self.rules.options(found.task.spec.harness)
        program = find_program(harness, spec, environment, options)
        wanted = Wanted(environment=environment, options=options, limits=self.rules.limits)
        profile = compile_profile(harness, spec, program, wanted)
        said = "" if found.allowed is None else as_written_now(found.allowed.detail)
        rights = f"{profile.permits}; takes {profile.reads}" if profile.reads else profile.permits
        ending = f" in {spec.cwd}: {rights}; network: {profile.network}; sandbox: {profile.sandbox}."
        if not said.startswith(f"{harness.name} ") or not said.endswith(ending):
            raise NotAllowed(
                f"{_NOT_STORED}; with the settings of today it would have other rights. `wk retry {found.task.id}` approves it anew."
            )
        return profile

    def _record(
        self, was: Run, directory: DirectoryIdentity, place: str, version: str | None = None, moved: str = ""
    ) -> None:
        def work(tx: Tx) -> None:
            run = tx.runs.get(was.id)
            if run.state is not RunState.RESERVED or run.fence != was.fence:
                return  # stopped meanwhile: nothing was started, the directory is pruned
            prepared = apply_run(tx, run, Prepared(directory=directory), self.clock.now())
            tx.runs.set_place(prepared, place)
            tx.outcomes.record_version(run.id, version)
            if moved:
                data = {"detail": moved}
                _ = tx.journal.append("run.new_commits", self.clock.now(), task_id=run.task_id, run=run, data=data)

        self.store.transact("prepared", work)

    def _refuse(self, was: Run, reason: str, kind: FailureKind = FailureKind.NEVER_LAUNCHED) -> None:
        def work(tx: Tx) -> None:
            run = tx.runs.get(was.id)
            if run.state is RunState.RESERVED:
                _ = apply_run(tx, run, NeverLaunched(reason=reason, kind=kind), self.clock.now())

        self.store.transact("refused", work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LaunchFacts:
    """What a launch is made of."""

    run: Run
    task: Task
    database_id: str
    account: Account | None
    allowed: Authorisation | None
    """What this very launch was recorded with, when the run was reserved."""
    expected: WorkingDirectory | None
    """The working directory that it must find; None: an older version did not record it."""
    turn: Turn | None
    """What the run is given beside, or instead of, the task's prompt."""
    messages: tuple[Message, ...]
    """The messages of that."""
    beside: tuple[str, ...]
    """The other tasks that work in the same repository now."""


def _redacted_reason(
    problem: WatchkeeperError, environment: Mapping[str, str], task: Task, account: Account | None
) -> str:
    """What is stored of it; a program that did not start may have printed anything."""
    redactor = Redactor(secrets_of(environment, _asked(task, account)))
    return redactor.text(f"{problem} {problem.hint}".strip())


def _asked(task: Task, account: Account | None) -> tuple[str, ...]:
    """What was asked for by name, by the task or its account."""
    return tuple(dict.fromkeys((*task.spec.environment_names, *(account.names if account is not None else ()))))


def _load(tx: Tx, run_id: str) -> _LaunchFacts:
    run = tx.runs.get(run_id)
    task, launch = tx.tasks.get(run.task_id), tx.outcomes.launch(run_id)
    turn, messages = given(tx, run)
    allowed = None if launch is None else launch.authorisation
    return _LaunchFacts(
        run=run,
        task=task,
        database_id=tx.machines.database_id(),
        account=of_task(tx, task),
        allowed=allowed,
        expected=expected(tx, run.task_id, allowed),
        turn=turn,
        messages=messages,
        beside=beside(tx, task, run.machine),
    )
