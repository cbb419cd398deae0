"""Sinks get each change once, in order and under one id, whatever becomes of other sinks and of the daemon."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from app.stage import Verbs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.records import add, make_spec, make_task

from watchkeeper.app.notices import Notifier, Sent, send_test, states
from watchkeeper.domain.notice import Answer, Notice, NoticeKind, QuietHours, SinkName


@dataclass
class Book:
    """Writes down what it gets; `answers` are given first."""

    name: SinkName = SinkName.COMMAND
    detail: str = "a book"
    received: list[Notice] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def send(self, notice: Notice) -> Answer:
        answer = self.answers.pop(0) if self.answers else Answer()
        if not answer.problem:
            self.received.append(notice)
        return answer

    def titles(self) -> list[str]:
        return [f"{notice.kind.value} {notice.title}" for notice in self.received]


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def notifier(verbs: Verbs, book: Book) -> Notifier:
    made = Notifier(store=verbs.store, clock=verbs.clock, machine="m1", sinks={book.name: book})
    made.begin()
    return made


def rest(verbs: Verbs, task_id: str, state: str = "done", machine: str = "") -> None:
    """A task comes to rest, as settling journals it."""

    def work(tx) -> None:
        _ = add(tx, make_task(task_id, spec=make_spec(title=f"title of {task_id}"), environment_machine=machine))
        data = {"state": state, "reason": f"reason of {task_id}"}
        _ = tx.journal.append("task.run_settled", verbs.clock.now(), task_id=task_id, data=data)

    verbs.store.transact("test", work)


def all_sent(notifier: Notifier, name: SinkName = SinkName.COMMAND) -> list[Sent]:
    found = list[Sent]()
    while (sent := notifier.send_next(name)).notice is not None and sent.due_at is None:
        found.append(sent)
    return found


def test_each_change_is_told_once_in_order(verbs: Verbs, notifier: Notifier, book: Book) -> None:
    for number, state in enumerate(("done", "failed", "needs_input", "stopped", "queued")):
        rest(verbs, f"t{number}", state)
    assert len(all_sent(notifier)) == 3
    assert book.titles() == ["done title of t0", "failed title of t1", "needs_you title of t2"]
    assert book.received[0].reason == "reason of t0" and book.received[0].command == "wk show t0"
    assert all_sent(notifier) == []
    assert len({notice.id for notice in book.received}) == 3


def test_a_new_daemon_continues_where_the_old_one_was_with_the_same_ids(
    verbs: Verbs, notifier: Notifier, book: Book
) -> None:
    """One that died between sending and recording sends once more, under the same id."""
    rest(verbs, "t0")
    rest(verbs, "t1")
    assert notifier.send_next(book.name).notice is not None
    dies = replace(notifier, store=_DiesWhileRecording(verbs.store), _passed={})
    with pytest.raises(KeyboardInterrupt):
        dies.send_next(book.name)
    next_one = replace(notifier, _passed={})
    next_one.begin()
    assert len(all_sent(next_one)) == 1
    assert book.titles() == ["done title of t0", "done title of t1", "done title of t1"]
    assert book.received[1].id == book.received[2].id


class _DiesWhileRecording:
    def __init__(self, store) -> None:
        self._store = store
        self.read = store.read

    def transact(self, name: str, work, *, durable: bool = True) -> None:
        assert name == "notice_sent"
        raise KeyboardInterrupt


def test_a_dead_sink_delays_no_other_and_loses_nothing(verbs: Verbs, book: Book) -> None:
    dead = Book(name=SinkName.WEBHOOK, answers=[Answer(problem="it is down")] * 3)
    notifier = Notifier(store=verbs.store, clock=verbs.clock, machine="m1", sinks={book.name: book, dead.name: dead})
    notifier.begin()
    rest(verbs, "t0")
    rest(verbs, "t1")
    assert len(all_sent(notifier)) == 2 and len(book.received) == 2
    waits = list[float]()
    for _ in range(3):
        sent = notifier.send_next(dead.name)
        assert sent.problem == "it is down" and not sent.lost and sent.due_at is not None
        waits.append((sent.due_at - verbs.clock.now()).total_seconds())
        early = notifier.send_next(dead.name)
        assert early.notice is None and early.due_at == sent.due_at, "nothing is tried before its time"
        verbs.clock.step(waits[-1])
    assert waits == [5, 10, 20]
    assert [state.problem for state in states(verbs.store)] == ["", "it is down"]
    assert len(all_sent(notifier, dead.name)) == 2
    assert dead.titles() == book.titles()
    assert [state.problem for state in states(verbs.store)] == ["", ""]


def test_a_notice_that_is_refused_is_given_up_and_that_is_on_record(
    verbs: Verbs, notifier: Notifier, book: Book
) -> None:
    book.answers = [Answer(problem="it answered with 404", passing=False)]
    rest(verbs, "t0")
    rest(verbs, "t1")
    sent = all_sent(notifier)
    assert [each.lost for each in sent] == [True, False] and book.titles() == ["done title of t1"]
    (entry,) = [each for each in verbs.store.read(lambda tx: tx.journal.after(0, 99)) if each.kind == "notice.given_up"]
    assert entry.task_id == "t0" and entry.data["sink"] == "command" and entry.data["reason"] == "it answered with 404"


def test_a_sink_that_is_new_is_not_told_old_news(verbs: Verbs, notifier: Notifier, book: Book) -> None:
    """Also one that was taken out of the settings for a while."""
    rest(verbs, "t0")
    replace(notifier, sinks={}).begin()
    rest(verbs, "t1")
    again = replace(notifier, _passed={})
    again.begin()
    rest(verbs, "t2")
    assert len(all_sent(again)) == 1 and book.titles() == ["done title of t2"]


def test_only_what_is_wanted_is_told(verbs: Verbs, notifier: Notifier, book: Book) -> None:
    rest(verbs, "t0")
    rest(verbs, "t1", "needs_input")
    assert len(all_sent(replace(notifier, wanted=frozenset({NoticeKind.NEEDS_YOU})))) == 1
    assert book.titles() == ["needs_you title of t1"]


def test_quiet_hours_put_off_and_lose_nothing(verbs: Verbs, notifier: Notifier, book: Book) -> None:
    local = verbs.clock.now().astimezone()
    minute = local.hour * 60 + local.minute
    quiet = replace(notifier, quiet=QuietHours(begin=minute, end=(minute + 60) % 1440))
    rest(verbs, "t0")
    sent = quiet.send_next(book.name)
    assert sent.notice is None and sent.due_at is not None and book.received == []
    verbs.clock.step((sent.due_at - verbs.clock.now()).total_seconds())
    assert len(all_sent(quiet)) == 1 and book.titles() == ["done title of t0"]


def test_a_machine_tells_of_what_was_handed_over_on_it(verbs: Verbs, notifier: Notifier, book: Book) -> None:
    rest(verbs, "t0", machine="m1")
    rest(verbs, "t1", machine="m2")

    def lanes(tx) -> None:
        for machine in ("m1", "m2"):
            data = {
                "machine": machine,
                "harness": "claude",
                "account": "own",
                "project": "",
                "wait": "signed out",
                "detail": "Sign in.",
            }
            _ = tx.journal.append("queue.waiting", verbs.clock.now(), data=data)

    verbs.store.transact("test", lanes)
    assert len(all_sent(notifier)) == 2
    assert book.titles() == ["done title of t0", "needs_you tasks of claude, own"]
    assert book.received[1].command == "wk status" and book.received[1].reason == "Sign in."


def test_a_task_that_is_gone_or_torn_keeps_no_notice_back(verbs: Verbs, notifier: Notifier, book: Book) -> None:
    rest(verbs, "t0")
    verbs.store.transact("test", lambda tx: tx.journal.append("task.torn", verbs.clock.now(), task_id="gone"))
    rest(verbs, "t1")
    assert len(all_sent(notifier)) == 2 and book.titles() == ["done title of t0", "done title of t1"]


def test_a_history_without_notices_is_not_read_again_after_a_restart(
    verbs: Verbs, notifier: Notifier, book: Book
) -> None:
    def many(tx) -> None:
        for _ in range(1200):
            _ = tx.journal.append("task.ready", verbs.clock.now(), task_id="t9")

    verbs.store.transact("test", many)
    before = states(verbs.store)[0].seq
    assert all_sent(notifier) == []
    assert states(verbs.store)[0].seq - before == 1200


def test_a_test_tells_every_sink_and_moves_none(verbs: Verbs, notifier: Notifier, book: Book) -> None:
    before = states(verbs.store)
    broken = Book(name=SinkName.DESKTOP, answers=[Answer(problem="no desktop")])
    answers = send_test([book, broken], verbs.clock.now())
    assert [answer.problem for _, answer in answers] == ["", "no desktop"]
    assert "test" in book.received[0].head and states(verbs.store) == before


@given(st.lists(st.sampled_from(["rest", "send", "fail", "restart", "hour"]), max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_whatever_happens_each_notice_is_told_at_least_once_and_in_order(verbs: Verbs, steps: list[str]) -> None:
    """Within a day; beyond that one is given up, which is on record."""
    book = Book()
    made = Notifier(store=verbs.store, clock=verbs.clock, machine="m1", sinks={book.name: book})
    replace(made, sinks={}).begin()
    made.begin()
    expected = list[str]()
    for number, step in enumerate(steps):
        match step:
            case "rest":
                task_id = f"x{verbs.store.read(lambda tx: tx.journal.last())}n{number}"
                rest(verbs, task_id)
                expected.append(f"done title of {task_id}")
            case "send":
                _ = made.send_next(book.name)
            case "fail":
                book.answers = [Answer(problem="it is down")]
                _ = made.send_next(book.name)
                book.answers = []
            case "restart":
                made = replace(made, _passed={})
                made.begin()
            case _:
                verbs.clock.step(3600)
    verbs.clock.step(timedelta(hours=1).total_seconds())
    _ = all_sent(made)
    assert book.titles() == expected
