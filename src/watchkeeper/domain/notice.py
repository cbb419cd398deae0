"""What is sent to people: which entries of the history are notices, in what words, and when a sink that failed is tried again.

The history is the list of what is to be sent: it is written in the transaction that makes the change. Each sink of a machine has a place in it, up to which
everything was sent. So a notice has the number of its entry as its id, the same after every restart, and a sink that is dead for a day loses none: it
continues where it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum

from watchkeeper.domain.local_time import next_time_of_day
from watchkeeper.domain.task_record import TaskState
from watchkeeper.domain.waiting import NEEDS_A_PERSON

FIRST_WAIT = timedelta(seconds=5)
LONGEST_WAIT = timedelta(hours=1)
PATIENCE = timedelta(hours=24)
"""So long a notice is tried before it is given up, so that one that can never be sent does not keep back all later ones."""


class NoticeKind(StrEnum):
    """What a notice is about."""

    NEEDS_YOU = "needs_you"
    FAILED = "failed"
    DONE = "done"


class SinkName(StrEnum):
    """Where notices go."""

    COMMAND = "command"
    WEBHOOK = "webhook"
    DESKTOP = "desktop"
    SERVICES = "services"


_STATES: Mapping[str, NoticeKind] = {
    TaskState.NEEDS_INPUT.value: NoticeKind.NEEDS_YOU,
    TaskState.HELD.value: NoticeKind.NEEDS_YOU,
    TaskState.FAILED.value: NoticeKind.FAILED,
    TaskState.DONE.value: NoticeKind.DONE,
}
_ENDS = frozenset({"task.run_settled", "task.run_held"})
_WAITS = frozenset({"task.waiting", "queue.waiting"})
_BY_A_PERSON = "paused"
"""Who pauses a queue knows it."""

_HEADS = {NoticeKind.NEEDS_YOU: "Needs you", NoticeKind.FAILED: "Failed", NoticeKind.DONE: "Done"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One change that people hear of. Holds no secret: it is made of what is stored."""

    id: str
    """The same however often it is sent: a receiver drops what it has by it."""
    seq: int
    """The number of its entry in the history."""
    kind: NoticeKind
    at: datetime
    task_id: str | None
    """None: it concerns many tasks, such as all of an account."""
    title: str
    reason: str
    """One sentence; empty for what is simply done."""
    command: str
    """What a person types next."""

    @property
    def head(self) -> str:
        """One line for a list or a title bar."""
        return f"{_HEADS[self.kind]}: {self.title}"

    @property
    def body(self) -> str:
        """What it is about, and what to do, in plain text."""
        return "\n".join(line for line in (self.reason, self.command) if line)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """How far a machine has sent notices to a sink."""

    machine: str
    sink: SinkName
    seq: int
    """Every entry up to this one was sent or given up, or is not a notice."""
    attempts: int = 0
    """How often the next notice was tried in vain."""
    since: datetime | None = None
    """When it was tried first."""
    due_at: datetime | None = None
    """Before this time it is not tried again."""
    problem: str = ""
    """Why the last attempt failed; empty after one that did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of an attempt."""

    problem: str = ""
    """Why it failed; empty: it was sent."""
    passing: bool = True
    """Another attempt may help."""


def kind_of(kind: str, data: Mapping[str, object]) -> NoticeKind | None:
    """What an entry of the history is to people: a task came to rest, or waits for what only a person can give; None for all others."""
    if kind in _ENDS:
        return _STATES.get(str(data.get("state", "")))
    if kind in _WAITS:
        wait = data.get("wait")
        return NoticeKind.NEEDS_YOU if wait in NEEDS_A_PERSON and wait != _BY_A_PERSON else None
    return NoticeKind.NEEDS_YOU if kind == "task.torn" else None


def attempted(state: SinkState, notice: Notice, answer: Answer, now: datetime) -> SinkState:
    """The sink after an attempt: past the notice if it was sent or is given up, else with a growing wait."""
    if not answer.problem:
        return SinkState(machine=state.machine, sink=state.sink, seq=notice.seq)
    since = state.since or now
    if not answer.passing or now - since >= PATIENCE:
        return SinkState(machine=state.machine, sink=state.sink, seq=notice.seq, problem=answer.problem)
    # No number of doublings beyond this changes the wait any more.
    wait = min(LONGEST_WAIT, FIRST_WAIT * (1 << min(state.attempts, 12)))
    return replace(state, attempts=state.attempts + 1, since=since, due_at=now + wait, problem=answer.problem)


def given_up(before: SinkState, after: SinkState) -> bool:
    """Whether a notice will not be sent."""
    return after.seq > before.seq and bool(after.problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """A part of each day in which nothing is sent; what happens then is sent afterwards. Minutes since midnight, local time."""

    begin: int
    end: int

    def over_at(self, now: datetime, zone: tzinfo | None = None) -> datetime | None:
        """When the quiet hours are over; None: they are not now. `zone` None is that of this process."""
        local = now.astimezone(zone)
        minute = local.hour * 60 + local.minute
        inside = (
            self.begin <= minute < self.end
            if self.begin < self.end
            else minute >= self.begin or minute < self.end  # over midnight
        )
        return next_time_of_day(self.end // 60, self.end % 60, now, zone) if inside else None
