"""A task: what the caller asked for, and its current state."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.wait import Wait

if TYPE_CHECKING:
    from watchkeeper.domain.worktree import (
        Worktree,
    )  # its classes cost a list of tasks a tenth of its time, and few tasks have one


class TaskState(StrEnum):
    """Where a task stands."""

    QUEUED = "queued"
    RUNNING = "running"
    NEEDS_INPUT = "needs_input"
    HELD = "held"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


FINAL_TASK_STATES = frozenset({TaskState.DONE, TaskState.FAILED, TaskState.STOPPED})
"""States that only a person's act (`retry`) leaves."""

RESTING_TASK_STATES = FINAL_TASK_STATES | {TaskState.NEEDS_INPUT, TaskState.HELD}
"""States in which nothing happens until a person acts; `wk wait` returns there."""


class OnLost(StrEnum):
    """What a task wants done when a run is lost after it may have worked."""

    HOLD = "hold"
    RETRY = "retry"
    FAIL = "fail"


EXPECTATIONS = ("work", "changes", "answer", "any")
"""What a task can expect: a tool call or a change; a changed file or a commit; words; or nothing beyond the program's own success."""


class StopHow(StrEnum):
    """How an agent is to be ended."""

    STOP = "stop"
    KILL = "kill"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """A person's wish to end a task; only a later act of a person lifts it."""

    how: StopHow
    by: str
    at: datetime
    grace_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """What the caller asked for. A person may edit it while the task is queued, and its title at any time; nothing else ever changes it.

    What became of the worktree is recorded in it.
    """

    prompt: str
    title: str
    harness: str
    model: str | None
    cwd: str
    argv: tuple[str, ...] = ()
    """The command line of the `command` harness; empty for the others."""
    environment_names: tuple[str, ...] = ()
    """Names, beyond the standard allow-list, that were captured from the caller."""
    deadline_s: float | None = None
    silence_s: float | None = None
    """After how long without any output a run is ended; None: never."""
    expect: str = "work"
    """What counts as done, one of `EXPECTATIONS`."""
    max_attempts: int = 3
    on_lost: OnLost = OnLost.HOLD
    leftovers: str = "kill"
    priority: int = 0
    account: str = "own"
    """The name of the harness's account whose sign-in the agent uses."""
    isolation: str | None = None
    """How much of the user's and the project's configuration reaches the agent; None: as the settings say."""
    machine: str | None = None
    """The id of the only machine that may run it; None: any."""
    project: str = ""
    """What limits and pauses can speak of; usually the name of the repository."""
    checkout: str | None = None
    """The top of the checkout that it has for itself while it works; None: it works beside others."""
    after: tuple[str, ...] = ()
    """The tasks that must be done before it may start."""
    not_before: datetime | None = None
    labels: tuple[str, ...] = ()
    scratch: bool = False
    """It works in a directory of its own that is made empty before its first launch, and in no checkout."""
    checks: tuple[str, ...] = ()
    """Command lines for the shell, which decide after the agent whether its work is acceptable."""
    check_deadline_s: float | None = None
    """How long each of these, the set-up and the teardown may take; None: as the default of the setting says."""
    setup: tuple[str, ...] = ()
    """Command lines for the shell, which prepare a new worktree before the agent starts."""
    teardown: tuple[str, ...] = ()
    """Command lines for the shell, which clear up before its worktree is removed."""
    worktree: "Worktree | None" = None
    """The worktree of its own that it works in; what became of it is recorded here too. None: it works where it was handed over.

    It stays the last field, see the migration 0007."""

    @property
    def handed_over_in(self) -> str:
        """The directory that a person means by the task's: for a worktree the checkout that it was made of."""
        return self.cwd if self.worktree is None else self.worktree.source

    @property
    def account_id(self) -> str:
        """The account's id."""
        return f"{self.harness}:{self.account}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as it stands now."""

    id: str
    spec: TaskSpec
    state: TaskState
    created_at: datetime
    updated_at: datetime
    version: int = 0
    runs: int = 0
    """How many runs it has had; the number of the newest."""
    attempts: int = 0
    """How many of them counted against `max_attempts` since a person last asked."""
    unlaunched: int = 0
    """How many launches in a row never happened."""
    run_id: str | None = None
    """The run that owns it now, from claim to settlement."""
    wake_at: datetime | None = None
    """Not before this time."""
    wake_for: Wait | None = None
    """Why not: the asker's own wish, a retry's back-off, or a quota's reset."""
    stop: StopRequest | None = None
    environment_id: str = ""
    """Under which name the caller's environment is kept; a new one with every `retry`, so that forgetting the old one never takes the new one away."""
    environment_machine: str = ""
    """The id of the machine where it is kept; empty where only one can be meant."""
    reason: str = ""
    """One plain sentence on why it stands where it stands."""
    kind: FailureKind | None = None
    ended_at: datetime | None = None
    pinned_at: datetime | None = None
    """A person wants to keep it, on top."""
    seen_at: datetime | None = None
    """When a person last looked at it after it had ended."""
    service_failures: int = 0
    """How often the service failed it while it answered others, since a person last asked for it; see `service.SPARED`."""

    @property
    def remark(self) -> str:
        """What its reason adds to its state: of a task that is done, what it came to."""
        if self.state is not TaskState.DONE:
            return self.reason
        return self.reason.removeprefix("Done").lstrip(":. ").rstrip(".")

    @property
    def wakes_for(self) -> Wait | None:
        """What it waits for until `wake_at`; None if it waits for no time. A program that was missing is looked for again with each try."""
        if self.wake_at is None:
            return None
        if self.kind is FailureKind.PROGRAM_MISSING and self.wake_for is Wait.RETRY_AT:
            return Wait.HARNESS_MISSING
        return self.wake_for or Wait.NOT_BEFORE
