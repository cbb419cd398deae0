"""What a decision wants done in the world, as values. They are put into the outbox by the transaction that decided, and done afterwards, at least once.

All of these are *repeatable*: doing one twice is harmless, so a crash between doing and recording costs nothing. An effect that is not harmless twice is
never put here; it is reserved, done once and then judged by evidence (R3).
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from watchkeeper.domain.run_record import EndReason
from watchkeeper.domain.task_record import StopHow

LONGEST_WAIT = timedelta(seconds=60)
"""No effect is put off for longer. One that seems to be was put off before the clock was set back, and is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartShim:
    """Start a shim for a prepared execution. Twice is harmless: the write-once decision lets one of them launch."""

    kind: ClassVar[str] = "start_shim"
    run_id: str
    fence: int
    execution_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndExecution:
    """Tell an execution's shim to end its agent, or take the decision first if nothing was launched. Twice is harmless: the shim keeps the first.

    It is done for a run too that a person settled without proof that nothing of it is alive. Then it is tried a bounded number of times.
    """

    kind: ClassVar[str] = "end_execution"
    run_id: str
    fence: int
    execution_id: str
    how: StopHow
    why: EndReason
    grace_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetEnvironment:
    """Delete the captured environment of a task that has ended. Twice is harmless: gone is gone."""

    kind: ClassVar[str] = "forget_environment"
    environment_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveExecution:
    """Delete the directory of an execution whose task was removed, so that it is known by nothing but this. Twice is harmless: gone is gone."""

    kind: ClassVar[str] = "remove_execution"
    run_id: str
    task_id: str
    fence: int
    execution_id: str
    device: int | None
    inode: int | None
    keep_logs: bool


Effect = StartShim | EndExecution | ForgetEnvironment | RemoveExecution

EFFECTS: tuple[type[StartShim] | type[EndExecution] | type[ForgetEnvironment] | type[RemoveExecution], ...] = (
    StartShim,
    EndExecution,
    ForgetEnvironment,
    RemoveExecution,
)
"""Every kind of effect there is."""
