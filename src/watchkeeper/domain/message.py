"""Messages to a task, and which run takes them. Pure: nothing here reads a clock or a row.

    waiting ──taken by a run──▶ taken ──the run gave a reply──▶ answered
       ▲  │                      │ │
       │  └──── stop ──▶ stopped ◀─┘ └──third failure, or the task failed──▶ failed
       └──── the run failed, or never began ────┘

A message waits until a run takes it, and the transaction that reserves the run takes all that wait, in order. The run's own fence is the lease: only the
outcome of that run says what became of them. A message is never lost and never reads `waiting` after its task has ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from watchkeeper.domain.failure import ROWS
from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.outcome_record import Disposition, Outcome
from watchkeeper.errors import Refused

MOST_TRIES = 3
"""How many runs may take a message and fail before it is failed."""

MOST_MESSAGES = 10_000
"""Messages that one task may have."""

MOST_BYTES_AT_ONCE = 1_000_000
"""How much text of messages one run takes; it takes at least one message."""

CONTINUE = "Continue."
"""What `wk resume` says to the agent."""


class MessageState(StrEnum):
    """Where a message stands."""

    WAITING = "waiting"
    TAKEN = "taken"
    ANSWERED = "answered"
    STOPPED = "stopped"
    FAILED = "failed"


FINAL_MESSAGE_STATES = frozenset({MessageState.ANSWERED, MessageState.STOPPED, MessageState.FAILED})
"""States that nothing leaves."""

ANSWERS = frozenset(
    {
        FailureKind.ASKED,
        FailureKind.REFUSED,
        FailureKind.NOTHING_RECORDED,
        FailureKind.NOTHING_CHANGED,
        FailureKind.CHECK_FAILED,
        FailureKind.CHECK_NOT_RUN,
    }
)
"""Failure kinds of runs in which the agent did reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a person says to the agent of a task after its prompt."""

    task_id: str
    number: int
    """1, 2, 3 … in the task, in the order of arrival."""
    text: str
    by: str
    at: datetime
    state: MessageState = MessageState.WAITING
    continues: bool = False
    """It was said to a conversation that is on record, so the run that takes it resumes that."""
    run_id: str | None = None
    """The run that has it, or the last one that had it; None: none had it yet."""
    tries: int = 0
    """How many runs took it and counted."""
    kind: FailureKind | None = None
    """Why it failed, or why its last try did."""
    settled_at: datetime | None = None

    @property
    def receipt(self) -> str:
        """Its name, for people and scripts."""
        return f"{self.task_id}.m{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A run takes it."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCame:
    """The run that has it was settled."""

    outcome: Outcome
    again: bool = False
    """A person gave the run up and asks for another one, which takes the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStopped:
    """A person ended the task."""

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressed:
    """A person says whether the next run resumes the conversation or begins a new one."""

    continues: bool


MessageEvent = Taken | RunCame | TaskStopped | Addressed


def decide_message(message: Message, event: MessageEvent) -> Message:
    """Apply one event to one message.

    Raises:
        Refused: the pair of state and event is not listed, or the run is another one.
    """
    match message.state, event:
        case MessageState.WAITING, Taken(run_id=run_id):
            return replace(message, state=MessageState.TAKEN, run_id=run_id)
        case MessageState.TAKEN, RunCame(outcome=outcome) if outcome.run_id == message.run_id:
            return _settled(message, outcome, again=event.again)
        case MessageState.WAITING, TaskStopped(at=at):
            return replace(message, state=MessageState.STOPPED, settled_at=at)
        case MessageState.WAITING, Addressed(continues=continues):
            return replace(message, continues=continues)
        case _, TaskStopped() | Addressed():
            return message  # its run decides, or it is decided
        case _:
            raise Refused(f"A message that is {message.state} cannot take '{type(event).__name__}'.")


def _settled(message: Message, outcome: Outcome, *, again: bool) -> Message:
    kind = outcome.kind
    if kind is None or kind in ANSWERS:
        return replace(message, state=MessageState.ANSWERED, kind=None, settled_at=outcome.at)
    if kind is FailureKind.STOPPED or outcome.disposition is Disposition.STOPPED:
        return replace(message, state=MessageState.STOPPED, kind=None, settled_at=outcome.at)
    tries = message.tries + (1 if ROWS[kind].counts else 0)
    if tries >= MOST_TRIES or (outcome.disposition is Disposition.FAILED and not again):
        return replace(message, state=MessageState.FAILED, tries=tries, kind=kind, settled_at=outcome.at)
    return replace(message, state=MessageState.WAITING, tries=tries, kind=kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a run is given beside, or instead of, the task's prompt."""

    run_id: str
    task_id: str
    session: str | None
    """The harness's own id of the conversation that the run resumes; None: it begins a new one with the task's prompt."""
    machine: str = ""
    """The machine on which that conversation is kept; empty for a new one."""
    numbers: tuple[int, ...] = ()
    """The messages that it takes, in order."""


def next_turn(
    run_id: str, task_id: str, waiting: Sequence[Message], session: str | None, machine: str = ""
) -> Turn | None:
    """What the next run of a task takes of the messages that wait, which are in order; None: nothing waits.

    Args:
        run_id: the run.
        task_id: its task.
        waiting: the messages that wait.
        session: the conversation that is on record; None: there is none.
        machine: where that is kept.
    """
    if not waiting:
        return None
    chosen: list[Message] = []
    size = 0
    for message in waiting:
        size += len(message.text.encode("utf-8", "surrogateescape"))
        if chosen and size > MOST_BYTES_AT_ONCE:
            break
        chosen.append(message)
    resumes = session is not None and any(message.continues for message in chosen)
    return Turn(
        run_id=run_id,
        task_id=task_id,
        session=session if resumes else None,
        machine=machine if resumes else "",
        numbers=tuple(message.number for message in chosen),
    )


def joined(prompt: str | None, messages: Sequence[Message]) -> str:
    """The text of a turn: the task's prompt where the conversation is new, then the messages in order, with an empty line between them."""
    return "\n\n".join([*([] if prompt is None else [prompt]), *(message.text for message in messages)])


def goes_on(outcome: Outcome, waiting: Sequence[Message]) -> bool:
    """Whether the task goes back into the queue for what came while the run worked.

    Args:
        outcome: how the run ended.
        waiting: the messages that wait, without those that the run itself had.
    """
    return bool(waiting) and outcome.disposition in {Disposition.DONE, Disposition.FAILED, Disposition.NEEDS_INPUT}
