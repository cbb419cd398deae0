"""Following what agents print: each for itself."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from app.stage import NOWHERE, Verbs
from support.records import add, make_spec, make_task, reserve

from watchkeeper.app import follow, read_output
from watchkeeper.app.follow import Followers
from watchkeeper.app.record import apply_run
from watchkeeper.domain.effects import EndExecution
from watchkeeper.domain.model import EndReason, Run, RunState, StopHow
from watchkeeper.domain.run_events import (
    AgentSeen,
    Prepared,
    RunEvent,
)
from watchkeeper.domain.samples import AGENT
from watchkeeper.harnesses.registry import Registry
from watchkeeper.ports.harness import Harness
from watchkeeper.ports.store import Tx


def _working(verbs: Verbs, task_id: str) -> tuple[Run, Path]:
    run = replace(verbs.prepared(task_id), state=RunState.RUNNING)
    log = verbs.runtime.executions().log(run, "stdout")
    log.parent.mkdir(parents=True)
    return run, log


def _followers(verbs: Verbs, harness: Callable[[str], Harness] | None = None) -> Followers:
    return Followers(
        store=verbs.store, clock=verbs.clock, executions=verbs.runtime.executions(), harness=harness or Registry().get
    )


def test_a_log_that_cannot_be_read_keeps_no_other_from_being_followed(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said which one, it is tried again ever more seldom, and it is followed when it can be read."""
    (bad, bad_log), (good, good_log) = _working(verbs, "t1"), _working(verbs, "t2")
    bad_log.mkdir()
    good_log.write_bytes(b"hello\n")
    followers = _followers(verbs)
    read: list[str] = []
    monkeypatch.setattr(Followers, "_record_findings", lambda _self, run, _follower: bool(read.append(run.id)))
    found = followers.follow([bad, good])
    assert list(found.problems) == [bad.id] and read == [good.id]
    assert not followers.follow([bad, good]).problems, "it rests"
    waits: list[float] = []
    for _ in range(3):
        waited = 0.0
        while not followers.follow([bad, good]).problems:
            verbs.clock.step(0.5)
            waited += 0.5
        waits.append(waited)
    assert waits == sorted(set(waits)), "each rest is longer than the last"
    bad_log.rmdir()
    bad_log.write_bytes(b"hello\n")
    verbs.clock.step(60)
    assert not followers.follow([bad, good]).problems
    assert bad.id in read


def test_a_reader_that_breaks_is_made_anew(verbs: Verbs) -> None:
    """Nothing of what was half read is kept."""
    run, log = _working(verbs, "t1")
    log.write_bytes(b"hello\n")
    made: list[str] = []

    def harness(name: str) -> Harness:
        made.append(name)
        if len(made) == 1:
            raise RuntimeError("a plug-in's mistake")
        return Registry().get(name)

    followers = _followers(verbs, harness)
    assert list(followers.follow([run]).problems) == [run.id]
    verbs.clock.step(2)
    assert not followers.follow([run]).problems
    assert len(made) == 2


def test_a_pipe_in_place_of_a_log_is_said_and_not_waited_for(verbs: Verbs) -> None:
    """To open it would wait for a writer."""
    run, log = _working(verbs, "t1")
    os.mkfifo(log)
    found = _followers(verbs).follow([run])
    assert "stdout.log is a named pipe" in str(found.problems[run.id])


def test_a_hole_of_sixty_gigabytes_is_stepped_over_at_once(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    run, log = _working(verbs, "t1")
    with log.open("wb") as file:
        file.truncate(60 * 1024**3)
        file.seek(0, os.SEEK_END)
        file.write(b"hello\n")
    seen: list[bytes] = []
    monkeypatch.setattr(read_output, "take", lambda _reader, piece: seen.append(piece) or [])
    followers = _followers(verbs)
    assert not followers.follow([run]).problems
    assert seen[-1] == b"hello\n" and len(seen) == 2


RESULT = b'{"type":"result","ok":true,"text":"Done."}\n'


class Watched:
    """A run of the demo harness that works, and what is recorded of it while it is followed second by second."""

    def __init__(self, verbs: Verbs, **options: Any) -> None:
        self.verbs = verbs
        spec = make_spec(harness="demo", argv=(), **options)
        prepared = verbs.store.transact("test", lambda tx: reserve(tx, add(tx, make_task("t1", spec=spec))))
        self.id = prepared.id
        self.apply(Prepared(directory=NOWHERE), AgentSeen(agent=AGENT))
        executions = verbs.runtime.executions()
        self.log, self.errors = executions.log(self.run, "stdout"), executions.log(self.run, "stderr")
        self.log.parent.mkdir(parents=True)
        self.log.write_bytes(b"")
        self.begin()

    def begin(self) -> None:
        """A daemon begins to follow it."""
        self.followers = replace(_followers(self.verbs), answered_grace_s=10.0, stalled_after_s=60.0)

    def apply(self, *events: RunEvent) -> None:
        def work(tx: Tx) -> None:
            for event in events:
                _ = apply_run(tx, tx.runs.get(self.id), event, self.verbs.clock.now())
            for row in tx.outbox.due(self.verbs.clock.now(), 10, "m1"):
                tx.outbox.done(row.id)

        self.verbs.store.transact("test", work)

    @property
    def run(self) -> Run:
        return self.verbs.run(self.id)

    def prints(self, data: bytes, *, errors: bool = False) -> None:
        with (self.errors if errors else self.log).open("ab") as log:
            log.write(data)

    def for_s(self, seconds: int, step: float = 1.0) -> None:
        """Look at it again and again."""
        for _ in range(seconds):
            assert not self.followers.follow([self.run]).problems
            self.verbs.clock.step(step)

    def ends(self) -> list[EndExecution]:
        due = self.verbs.store.read(lambda tx: tx.outbox.due(self.verbs.clock.now(), 10, "m1"))
        return [row.effect for row in due if isinstance(row.effect, EndExecution)]


def test_a_program_that_goes_on_after_its_answer_is_said_and_ended_in_the_end(verbs: Verbs) -> None:
    """Once each; as what it left behind would be, and with a reason of its own."""
    watched = Watched(verbs)
    watched.prints(RESULT)
    watched.for_s(2)
    assert watched.run.answered_at is not None
    watched.for_s(8)
    assert watched.ends() == []
    watched.for_s(5)
    (end,) = watched.ends()
    assert (end.why, end.how) == (EndReason.ANSWERED, StopHow.STOP)
    watched.for_s(20)
    assert len(watched.ends()) == 1
    assert [kind for kind in verbs.kinds() if kind in {"run.answered", "run.lingered"}] == [
        "run.answered",
        "run.lingered",
    ]


def test_no_sleep_of_the_machine_counts_as_going_on(verbs: Verbs) -> None:
    watched = Watched(verbs)
    watched.prints(RESULT)
    watched.for_s(2)
    verbs.clock.step(3600)
    watched.for_s(1)
    assert watched.ends() == []


def test_who_waits_for_leftovers_waits_for_the_program_too(verbs: Verbs) -> None:
    watched = Watched(verbs, leftovers="wait")
    watched.prints(RESULT)
    watched.for_s(60)
    assert watched.run.answered_at is not None and watched.ends() == []


def test_a_run_without_progress_is_marked_and_never_ended(verbs: Verbs) -> None:
    """A spinner is not progress; the mark is written once when it begins and once when it is over."""
    watched = Watched(verbs)
    watched.for_s(3)
    watched.prints(b"begin\n")
    watched.for_s(1)
    last = verbs.clock.now()
    for number in range(70):
        watched.prints(b"waiting %d s\r" % number)
        watched.for_s(1)
    stalled = watched.run.stalled_since
    assert stalled is not None and abs((stalled - last).total_seconds()) <= 2
    watched.for_s(100)
    assert watched.run.stalled_since == stalled and watched.ends() == []
    watched.begin()
    watched.for_s(3)
    assert watched.run.stalled_since == stalled, "a daemon that begins anew knows no more than that"
    watched.prints(b"a warning\n", errors=True)
    watched.for_s(2)
    assert watched.run.stalled_since is None
    assert verbs.kinds().count("run.stalled") == 2


def test_no_sleep_of_the_machine_is_a_lack_of_progress(verbs: Verbs) -> None:
    watched = Watched(verbs)
    watched.for_s(2)
    verbs.clock.step(36000)
    watched.for_s(2)
    assert watched.run.stalled_since is None


def test_what_hides_secrets_is_made_only_where_words_are_stored(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    """To make it for an environment of many secrets takes a large part of a second, and other threads wait for it. A plain command has no words to store."""
    run, log = _working(verbs, "t1")
    log.write_bytes(b"hello\n")
    made: list[str] = []
    monkeypatch.setattr(follow, "redactor_of", lambda *_: made.append("made"))
    followers = _followers(verbs)
    assert not followers.follow([run]).problems
    assert made == []
