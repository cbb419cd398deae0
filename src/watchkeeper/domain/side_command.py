"""Command lines of the user's own around an agent: checks after it, the set-up of its worktree before it, and the teardown before the worktree goes.

Each is an execution of its own.

    reserved ──▶ prepared ──▶ started ──▶ ended
        ▲                        │
        └──── never launched ────┘

What may have run is never run again (R3): a command whose end was not seen ends as one that could not run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from watchkeeper.domain.run_record import Cause, DirectoryIdentity, EndReason, ExitFact, Run, RunState
from watchkeeper.domain.task_record import StopHow, StopRequest, TaskSpec

DEADLINE_S = 600.0
"""How long such a command may take where the task does not say."""

MAX_TRIES = 5
"""How often the launch of one may come to nothing before it is given up."""


class CommandKind(StrEnum):
    """What a command is for."""

    CHECK = "check"
    SETUP = "setup"
    TEARDOWN = "teardown"


class CommandState(StrEnum):
    """How far a command is."""

    RESERVED = "reserved"
    """The right to run it is on record."""
    PREPARED = "prepared"
    """Its execution directory is whole; a shim may be started, once or more often."""
    STARTED = "started"
    """A shim was started."""
    ENDED = "ended"


class CommandResult(StrEnum):
    """What a command came to."""

    PASSED = "passed"
    FAILED = "failed"
    """It ended with another exit code than 0, by a signal or at its deadline."""
    NOT_RUN = "could_not_run"
    """It was not started, or its end was not seen."""
    STOPPED = "stopped"
    """A person stopped the task while it ran, or before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCommand:
    """One command line around one run, as it stands now."""

    run_id: str
    task_id: str
    kind: CommandKind
    number: int
    """From 1, in the order in which they run."""
    line: str
    """For the shell."""
    execution_id: str
    state: CommandState
    tries: int = 0
    """How many launches of it never happened."""
    directory: DirectoryIdentity | None = None
    started_at: datetime | None = None
    stop_told: StopHow | None = None
    """The strongest stop that its shim has acknowledged."""
    exit: ExitFact | None = None
    result: CommandResult | None = None
    reason: str = ""
    """One plain sentence on what it came to; empty until it ended."""
    ended_at: datetime | None = None
    of_before: bool = False
    """A teardown of a worktree that was removed and came back since: the next removal runs another one."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state is CommandState.ENDED

    def as_run(self, run: Run) -> Run:
        """The run whose execution this would be: what the runtime needs of it."""
        return Run(
            id=run.id,
            task_id=run.task_id,
            number=run.number,
            fence=run.fence,
            execution_id=self.execution_id,
            cause=Cause.INITIAL,
            state=RunState.STARTING,
            machine=run.machine,
            incarnation=run.incarnation,
            claimed_at=run.claimed_at,
            directory=self.directory,
            shim_started_at=self.started_at,
        )


def commands_of(spec: TaskSpec, kind: CommandKind) -> tuple[str, ...]:
    """The command lines of a task, in the order in which they run."""
    match kind:
        case CommandKind.CHECK:
            return spec.checks
        case CommandKind.SETUP:
            return spec.setup
        case CommandKind.TEARDOWN:
            return spec.teardown


def next_of(commands: Sequence[SideCommand]) -> SideCommand | None:
    """The command whose turn it is, of commands in order; None: no more is to run. A check that failed does not keep the next one from running."""
    return next((one for one in commands if not one.is_over), None)


def left_behind(commands: Sequence[SideCommand]) -> list[tuple[SideCommand, SideCommand]]:
    """The teardowns of a worktree that has come back, as they become and as they were."""
    ended = [one for one in commands if one.kind is CommandKind.TEARDOWN and one.is_over and not one.of_before]
    return [(replace(one, of_before=True), one) for one in ended]


def prepared(command: SideCommand, directory: DirectoryIdentity) -> SideCommand:
    """Its directory is whole."""
    return replace(command, state=CommandState.PREPARED, directory=directory)


def started(command: SideCommand, at: datetime) -> SideCommand:
    """A shim was started for it. The first time stays."""
    return replace(command, state=CommandState.STARTED, started_at=command.started_at or at)


def ended(
    command: SideCommand, fact: ExitFact, stop: StopRequest | None, deadline_s: float, at: datetime
) -> SideCommand:
    """Its end is on record."""
    result, reason = _judge(command, fact, stop, deadline_s)
    return replace(command, state=CommandState.ENDED, exit=fact, result=result, reason=reason, ended_at=at)


def given_up(command: SideCommand, result: CommandResult, reason: str, at: datetime) -> SideCommand:
    """It ends without an end on record."""
    return replace(command, state=CommandState.ENDED, result=result, reason=reason, ended_at=at)


def never_launched(command: SideCommand, execution_id: str, reason: str, at: datetime) -> SideCommand:
    """It is proven that it did not run: it is tried again in an execution of its own, a bounded number of times."""
    tries = command.tries + 1
    if tries >= MAX_TRIES:
        return replace(given_up(command, CommandResult.NOT_RUN, reason, at), tries=tries)
    return replace(
        command,
        state=CommandState.RESERVED,
        execution_id=execution_id,
        tries=tries,
        directory=None,
        started_at=None,
        stop_told=None,
    )


def _judge(
    command: SideCommand, fact: ExitFact, stop: StopRequest | None, deadline_s: float
) -> tuple[CommandResult, str]:
    """What an end means, with the plain sentence."""
    shown = f"`{shown_line(command.line)}`"
    match fact.reason:
        case EndReason.DEADLINE:
            return CommandResult.FAILED, f"{shown} did not end within {deadline_s:g} s."
        case EndReason.SPAWN_FAILED:
            return CommandResult.NOT_RUN, f"{shown} could not be started."
        case EndReason.STOP | EndReason.KILL | EndReason.INTERRUPTED if fact.status != 0:
            return CommandResult.STOPPED, f"{shown} was stopped."
        case _:
            pass
    if fact.status == 0:
        return CommandResult.PASSED, f"{shown} passed."
    if fact.signal is not None:
        if stop is not None:
            return CommandResult.STOPPED, f"{shown} was stopped."
        return CommandResult.FAILED, f"{shown} was ended by signal {fact.signal}."
    return CommandResult.FAILED, f"{shown} ended with exit code {fact.exit_code}."


_SHOWN = 60


def shown_line(line: str) -> str:
    """A command line in one line of bounded length, for sentences."""
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in line).split()).replace("`", "'")
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
