"""The records that the rules speak of: task, run, and what a run came to.

Frozen values. Times are aware UTC datetimes; durations end in `_s`. Which row of which table holds what is the store's business.

They live in three modules, because the making of their classes takes time that a quick command need not spend on records it does not meet. Everybody
else finds all of them here.
"""

from watchkeeper.domain.outcome_record import (
    RESOLVES_A_HELD_RUN,
    Changes,
    Disposition,
    FileChange,
    Outcome,
    OutcomeStatus,
    Result,
    Trace,
    Usage,
)
from watchkeeper.domain.run_record import (
    LIVE_RUN_STATES,
    UNDECIDED_RUN_STATES,
    AgentIdentity,
    Cause,
    DirectoryIdentity,
    EarlyFail,
    EndReason,
    ExitFact,
    Leftover,
    Proof,
    Run,
    RunState,
)
from watchkeeper.domain.task_record import (
    FINAL_TASK_STATES,
    RESTING_TASK_STATES,
    OnLost,
    StopHow,
    StopRequest,
    Task,
    TaskSpec,
    TaskState,
)

__all__ = [
    "FINAL_TASK_STATES",
    "LIVE_RUN_STATES",
    "RESOLVES_A_HELD_RUN",
    "RESTING_TASK_STATES",
    "UNDECIDED_RUN_STATES",
    "AgentIdentity",
    "Cause",
    "Changes",
    "DirectoryIdentity",
    "Disposition",
    "EarlyFail",
    "EndReason",
    "ExitFact",
    "FileChange",
    "Leftover",
    "OnLost",
    "Outcome",
    "OutcomeStatus",
    "Proof",
    "Result",
    "Run",
    "RunState",
    "StopHow",
    "StopRequest",
    "Task",
    "TaskSpec",
    "TaskState",
    "Trace",
    "Usage",
]
