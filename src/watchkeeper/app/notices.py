"""Send people what needs them, through every sink that is set: read the history from where each sink is, send, and record how far it is now.

A notice is sent before that is recorded, so a daemon that dies in between sends it once more, with the same id (R1: the entry of the history is the right to
send it). Each sink has its own place and its own waits, so a dead one delays no other and no outcome.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from watchkeeper.crash import crashpoint
from watchkeeper.domain.notice import (
    Answer,
    Notice,
    NoticeKind,
    QuietHours,
    SinkName,
    SinkState,
    attempted,
    given_up,
    kind_of,
)
from watchkeeper.domain.plain_text import clean
from watchkeeper.domain.task_record import Task
from watchkeeper.errors import NoSuchTask, RecordTorn
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.notices import Sink
from watchkeeper.ports.store import JournalEntry, Store, Tx

_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What came of one step for one sink."""

    notice: Notice | None = None
    """What was tried; None: there is nothing to tell now."""
    problem: str = ""
    lost: bool = False
    """It is given up."""
    due_at: datetime | None = None
    """When the sink is tried again, if that is not at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifier:
    """Sends to sinks. Its methods for one sink are called from one thread at a time."""

    store: Store
    clock: Clock
    machine: str
    sinks: Mapping[SinkName, Sink]
    wanted: frozenset[NoticeKind] = frozenset(NoticeKind)
    quiet: QuietHours | None = None
    _passed: dict[SinkName, int] = field(default_factory=dict[SinkName, int])
    """Up to which entry there is nothing for a sink, beyond what is on record. A new process reads up to it once more."""

    def begin(self) -> None:
        """A sink that is new begins at the present; one that is set no longer is forgotten, so that it gets no old news when it is set again."""
        known = {state.sink for state in self.store.read(lambda tx: tx.notices.of_machine(self.machine))}
        if known != set(self.sinks):
            self.store.transact("notices_begin", self._begin)

    def _begin(self, tx: Tx) -> None:
        states = {state.sink for state in tx.notices.of_machine(self.machine)}
        for name in states - self.sinks.keys():
            tx.notices.drop(self.machine, name)
        for name in self.sinks.keys() - states:
            tx.notices.put(SinkState(machine=self.machine, sink=name, seq=tx.journal.last()))

    def send_next(self, name: SinkName) -> Sent:
        """Send a sink the next notice, if there is one and its time has come."""
        now = self.clock.now()
        quiet = None if self.quiet is None else self.quiet.over_at(now)
        found = self.store.read(partial(self._next, name=name))
        if found is None:
            return Sent()
        state, notice = found
        if notice is None:
            self._pass(state)
            return Sent()
        due_at = max((at for at in (quiet, state.due_at) if at is not None), default=now)
        if due_at > now:
            return Sent(due_at=due_at)
        crashpoint("notice.send.before")
        answer = self.sinks[name].send(notice)
        crashpoint("notice.send.after")
        after = attempted(state, notice, answer, self.clock.now())
        self.store.transact("notice_sent", partial(self._record, was=state, after=after, notice=notice))
        return Sent(notice=notice, problem=answer.problem, lost=given_up(state, after), due_at=after.due_at)

    def _next(self, tx: Tx, name: SinkName) -> tuple[SinkState, Notice | None] | None:
        """Where a sink is, and the first notice after that; None: the sink has no place yet, or it cannot be read."""
        state = next((each for each in tx.notices.of_machine(self.machine) if each.sink is name), None)
        if state is None:
            return None
        after = max(state.seq, self._passed.get(name, 0))
        while page := tx.journal.after(after, _PAGE):
            for entry in page:
                notice = notice_of(tx, entry, self.machine) if self._is_wanted(entry) else None
                if notice is not None:
                    return state, notice
            after = page[-1].seq
        self._passed[name] = after
        return state, None

    def _is_wanted(self, entry: JournalEntry) -> bool:
        return kind_of(entry.kind, entry.data) in self.wanted

    def _pass(self, state: SinkState) -> None:
        """Now and then, record that there was nothing for a sink, so that a restart does not read all of it once more."""
        passed = self._passed[state.sink]
        if passed - state.seq >= _PAGE:
            after = SinkState(machine=state.machine, sink=state.sink, seq=passed)
            self.store.transact("notices_passed", lambda tx: tx.notices.put(after), durable=False)

    def _record(self, tx: Tx, was: SinkState, after: SinkState, notice: Notice) -> None:
        tx.notices.put(after)
        if given_up(was, after):
            data = {"sink": after.sink.value, "notice": notice.id, "reason": after.problem}
            _ = tx.journal.append("notice.given_up", self.clock.now(), task_id=notice.task_id, data=data)


def send_test(sinks: Iterable[Sink], now: datetime) -> list[tuple[Sink, Answer]]:
    """Send each sink a notice that says that it is a test."""
    notice = Notice(
        id=f"test-{now:%Y%m%dT%H%M%S%f}", seq=0, kind=NoticeKind.NEEDS_YOU, at=now, task_id=None,
        title="a test of Watchkeeper's notices", reason="Nothing is wrong: you asked for this test.", command="wk notify ls",
    )  # fmt: skip
    return [(sink, sink.send(notice)) for sink in sinks]


def notice_of(tx: Tx, entry: JournalEntry, machine: str) -> Notice | None:
    """What an entry of the history is to people of this machine; None: nothing, its task is gone, or another machine sends it.

    A machine sends what concerns the tasks that were handed over on it, and what closes its own lanes.
    """
    kind = kind_of(entry.kind, entry.data)
    if kind is None:
        return None
    if entry.task_id is None:
        return _of_many(tx, entry, kind) if entry.data.get("machine") == machine else None
    try:
        task = tx.tasks.get(entry.task_id)
    except (NoSuchTask, RecordTorn):
        return None
    if task.environment_machine not in {"", machine}:
        return None
    reason = entry.data.get("reason") or entry.data.get("detail") or ""
    return Notice(
        id=_id(tx, entry), seq=entry.seq, kind=kind, at=entry.at, task_id=task.id, title=_title(task), reason=str(reason),
        command=f"wk show {task.id}",
    )  # fmt: skip


def _of_many(tx: Tx, entry: JournalEntry, kind: NoticeKind) -> Notice:
    about = [str(entry.data[name]) for name in ("harness", "account", "project") if entry.data.get(name)]
    return Notice(
        id=_id(tx, entry), seq=entry.seq, kind=kind, at=entry.at, task_id=None, title=f"tasks of {', '.join(about)}",
        reason=str(entry.data.get("detail", "")), command="wk status",
    )  # fmt: skip


def _id(tx: Tx, entry: JournalEntry) -> str:
    return f"{tx.machines.database_id()}-{entry.seq}"


def _title(task: Task) -> str:
    return clean(task.spec.title) or task.id


def states(store: Store) -> Sequence[SinkState]:
    """How far each sink of each machine is."""
    return store.read(lambda tx: tx.notices.all())
