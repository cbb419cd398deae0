"""From facts to an outcome: total, deterministic, and right in every case that people care about."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from errno import E2BIG, EACCES, EIO, ENOENT, ENOEXEC, ENOTDIR
from itertools import product

import pytest

from watchkeeper.domain.account import CredentialState
from watchkeeper.domain.failure import ROWS, FailureKind
from watchkeeper.domain.model import (
    Changes,
    Disposition,
    EarlyFail,
    EndReason,
    ExitFact,
    FileChange,
    OnLost,
    Outcome,
    OutcomeStatus,
    Proof,
    Run,
    RunState,
    StopHow,
    StopRequest,
    Task,
    TaskState,
    Trace,
    Usage,
)
from watchkeeper.domain.resolution import resolve_held
from watchkeeper.domain.run import decide_run
from watchkeeper.domain.run_events import (
    NeverLaunched,
    RunLost,
    Settled,
)
from watchkeeper.domain.samples import AT, EXIT, LATER, STOP, a_run, a_spec, a_task
from watchkeeper.domain.service import LONGEST_LIMIT_S, SERVICE_KINDS, SPARED
from watchkeeper.domain.settlement import (
    MAX_UNLAUNCHED,
    Facts,
    Hold,
    RetryPolicy,
    describe_exit,
    settle,
)
from watchkeeper.domain.task import RunSettled, decide_task

OK = Trace(finished=True, ok=True, text="Done.", tool_calls=1, expects_trace=True)
OURS = {FailureKind.NEVER_LAUNCHED, FailureKind.LOST, FailureKind.STOPPED}


def ended(end: ExitFact = EXIT, early_fail: FailureKind | None = None) -> Run:
    """A run whose exit was recorded."""
    recorded = EarlyFail(kind=early_fail, reason="") if early_fail is not None else None
    return replace(a_run(RunState.ENDED), exit=end, early_fail=recorded)


def exited(reason: EndReason = EndReason.EXITED, *, status: int | None = 0, errno: int | None = None) -> ExitFact:
    """How an agent ended."""
    return replace(EXIT, status=status, reason=reason, errno=errno)


def lost(proof: Proof) -> Run:
    """A run that was lost."""
    return decide_run(a_run(RunState.RUNNING), RunLost(proof=proof, reason="The shim was killed.")).run


def never(kind: FailureKind = FailureKind.NEVER_LAUNCHED) -> Run:
    """A run for which no agent was started."""
    return decide_run(a_run(RunState.STARTING), NeverLaunched(reason="It was never started.", kind=kind)).run


def task(
    *, attempts: int = 0, unlaunched: int = 0, most: int = 3, on_lost: OnLost = OnLost.HOLD, stopped: bool = False
) -> Task:
    """The task that the run is of."""
    running = a_task(TaskState.RUNNING, spec=a_spec(max_attempts=most, on_lost=on_lost), stop=STOP if stopped else None)
    return replace(running, attempts=attempts, unlaunched=unlaunched)


def failing(kind: FailureKind) -> Trace:
    """What a program printed that failed in this way."""
    return Trace(finished=True, ok=False, kind=kind)


def decided(run: Run, trace: Trace | None = OK, owner: Task | None = None, *, gone: bool = True) -> Outcome:
    """The outcome of these facts; fails if it is a hold."""
    found = settle(Facts(task=owner or task(), run=run, at=LATER, trace=trace, gone_proven=gone))
    assert isinstance(found, Outcome)
    return found


def with_key(trace: Trace, owner: Task) -> Outcome:
    """The outcome of a run with a key of the caller's own."""
    facts = Facts(
        task=owner, run=ended(), at=LATER, trace=trace, gone_proven=True, credential_state=CredentialState(keyed=True)
    )
    found = settle(facts)
    assert isinstance(found, Outcome)
    return found


def traces() -> Iterator[Trace | None]:
    """Every shape of what a program may have printed."""
    yield None
    kinds = (None, *FailureKind)
    for finished, ok, kind, expects in product((False, True), (False, True), kinds, (False, True)):
        yield Trace(finished=finished, ok=ok, kind=kind, expects_trace=expects)
    for until in (AT, LATER + timedelta(hours=1)):
        yield Trace(finished=True, ok=False, kind=FailureKind.QUOTA, quota_until=until)


def runs() -> Iterator[Run]:
    """Every shape of a run that has ended."""
    for reason, status, errno in product(EndReason, (0, None), (None, ENOENT)):
        for early_fail in (None, FailureKind.QUOTA, FailureKind.LOST):
            yield ended(exited(reason, status=status, errno=errno), early_fail)
    yield from (lost(proof) for proof in Proof)
    yield from (never(kind) for kind in (FailureKind.NEVER_LAUNCHED, FailureKind.PROGRAM_MISSING))
    yield replace(a_run(RunState.ENDED), exit=None)


def tasks() -> Iterator[Task]:
    """Every shape of a task that they may be of."""
    for on_lost, stopped, attempts, unlaunched in product(OnLost, (False, True), (0, 2), (0, MAX_UNLAUNCHED)):
        yield task(on_lost=on_lost, stopped=stopped, attempts=attempts, unlaunched=unlaunched)


NO_AGENT_RAN = frozenset({
    FailureKind.PROGRAM_MISSING, FailureKind.DIRECTORY_MISSING, FailureKind.DIRECTORY_CHANGED, FailureKind.ENVIRONMENT_UNKNOWN,
    FailureKind.NEVER_LAUNCHED,
})  # fmt: skip


def test_every_kind_has_a_row_and_a_sentence() -> None:
    """None is missing, and each sentence is one."""
    assert set(ROWS) == set(FailureKind)
    assert all(row.detail.endswith(".") for row in ROWS.values())
    assert not any(ROWS[kind].counts for kind in NO_AGENT_RAN)
    assert all(row.retried for row in ROWS.values() if row.defers)


def test_settlement_is_total_and_sane() -> None:
    """Every combination of run, output, task and emptiness is decided, the same each time, and can be applied."""
    owners, printed = list(tasks()), list(traces())
    seen: set[Disposition] = set()
    holds = 0
    for number, (run, trace) in enumerate(product(runs(), printed)):
        # The tasks are dealt out in turn: each meets every shape of run and of output, if not every pair of them.
        owner, gone = owners[number % len(owners)], number % 5 > 1
        facts = Facts(task=owner, run=run, at=LATER, trace=trace, gone_proven=gone)
        found = settle(facts)
        assert settle(facts) == found
        if isinstance(found, Hold):
            holds += 1
            assert run.kind is FailureKind.LOST and owner.stop is None and found.reason
        else:
            seen.add(found.disposition)
            _assert_sane(facts, found)
    assert holds
    assert seen == set(Disposition)


def _assert_sane(facts: Facts, found: Outcome) -> None:
    owner, disposition = facts.task, found.disposition
    assert (found.run_id, found.fence, found.at) == (facts.run.id, facts.run.fence, LATER)
    assert found.reason
    assert (found.kind is None) == (disposition is Disposition.DONE) == (found.status is OutcomeStatus.SUCCEEDED)
    assert (found.kind is FailureKind.STOPPED) == (disposition is Disposition.STOPPED)
    assert (found.status is OutcomeStatus.STOPPED) == (disposition is Disposition.STOPPED)
    if owner.stop is not None:
        assert disposition in {Disposition.STOPPED, Disposition.DONE}
    if facts.run.exit is not None:
        assert found.kind not in OURS - {FailureKind.STOPPED}
    if disposition is Disposition.RETRY:
        by_lane = facts.run.exit is not None and found.kind in {*SERVICE_KINDS, FailureKind.QUOTA}
        assert by_lane if found.wake_at is None else found.wake_at > LATER
        assert found.proof is Proof.PROVEN
    else:
        assert found.wake_at is None
    assert decide_run(facts.run, Settled(outcome=found)).run.state is RunState.SETTLED
    after = decide_task(owner, RunSettled(outcome=found)).task
    assert after.state is not TaskState.RUNNING
    assert after.attempts <= owner.spec.max_attempts


def test_success() -> None:
    """The program's own final event decides."""
    outcome = decided(ended())
    assert (outcome.status, outcome.disposition, outcome.text) == (OutcomeStatus.SUCCEEDED, Disposition.DONE, "Done.")


@pytest.mark.parametrize(
    ("trace", "kind"),
    [
        (None, FailureKind.UNKNOWN),
        (Trace(finished=False, ok=False), FailureKind.CRASH),
        (Trace(finished=False, ok=True), FailureKind.CRASH),
        (Trace(finished=True, ok=False), FailureKind.UNKNOWN),
        (Trace(finished=True, ok=True, expects_trace=True), FailureKind.NOTHING_RECORDED),
        (Trace(finished=True, ok=True, text=" \n", expects_trace=True), FailureKind.NOTHING_RECORDED),
        (Trace(finished=True, ok=True, text="All done.", expects_trace=True), FailureKind.NOTHING_RECORDED),
        (Trace(finished=True, ok=True, text="All done.", tool_calls=1, expects_trace=True), None),
        (Trace(finished=True, ok=True, text="Shall I?", tool_calls=1, expects_trace=True), FailureKind.ASKED),
        (Trace(finished=True, ok=True, text="Shall I?"), None),
        (Trace(finished=True, ok=True, text="All done.", expects_trace=True, whole=False), None),
        (Trace(finished=False, ok=False, whole=False), FailureKind.UNKNOWN),
        (Trace(finished=True, ok=True), None),
    ],
)
def test_an_exit_alone_is_no_success(trace: Trace | None, kind: FailureKind | None) -> None:
    """Without a final event, or without any trace of work where one is due, it failed, whatever the exit code."""
    assert decided(ended(), trace).kind is kind


@pytest.mark.parametrize("changes", [{"files": (FileChange(path="a", change="added"),)}, {"commits": ("abc",)}])
def test_a_change_is_a_trace_of_work(changes: dict) -> None:
    """A file or a commit is enough."""
    silent = Trace(finished=True, ok=True, expects_trace=True)
    facts = Facts(task=task(), run=ended(), at=LATER, trace=silent, changes=Changes(known=True, **changes))
    found = settle(facts)
    assert isinstance(found, Outcome)
    assert found.kind is None


def test_prose_is_an_answer_where_one_is_expected() -> None:
    """And only there; an empty answer does not count, and a question is not an answer."""
    owner = a_task(TaskState.RUNNING, spec=replace(a_spec(), expect="answer"))
    prose = Trace(finished=True, ok=True, text="It is the lock.", expects_trace=True)
    assert decided(ended(), prose, owner).disposition is Disposition.DONE
    assert decided(ended(), replace(prose, text=" "), owner).kind is FailureKind.NOTHING_RECORDED
    assert decided(ended(), replace(prose, text="Which lock?"), owner).kind is FailureKind.ASKED


def test_prose_without_work_is_paid_for_once() -> None:
    """It needs a person, keeps its text, and the sentence says how to read it and what can be done."""
    outcome = decided(ended(), Trace(finished=True, ok=True, text="All done.", expects_trace=True))
    assert (outcome.disposition, outcome.wake_at, outcome.text) == (Disposition.NEEDS_INPUT, None, "All done.")
    assert all(words in outcome.reason for words in ("wk show t1", "wk retry t1", "--expect answer"))


def test_changes_of_others_are_no_trace_of_work() -> None:
    """In a checkout where another agent or person worked too, a change proves nothing of an agent that called no tool."""
    silent = Trace(finished=True, ok=True, text="Done.", expects_trace=True)
    changes = Changes(known=True, files=(FileChange(path="a", change="added"),), beside=("t2",))
    found = settle(Facts(task=task(), run=ended(), at=LATER, trace=silent, changes=changes))
    assert isinstance(found, Outcome)
    assert (found.kind, found.changes) == (FailureKind.NOTHING_RECORDED, changes)


def test_a_run_that_asks_needs_an_answer_and_costs_no_attempt() -> None:
    """Its reason quotes the question."""
    outcome = decided(ended(), replace(OK, text="I looked.\n\nWhich of them?\n- a\n- b"))
    assert (outcome.kind, outcome.disposition) == (FailureKind.ASKED, Disposition.NEEDS_INPUT)
    assert outcome.reason == "The agent asks: “Which of them?”"
    after = decide_task(task(), RunSettled(outcome=outcome)).task
    assert (after.state, after.attempts) == (TaskState.NEEDS_INPUT, 0)


def test_what_could_not_be_read_is_not_tried_again() -> None:
    """The final event may have been in it. An end by a signal is known all the same."""
    torn = Trace(finished=False, ok=False, whole=False)
    outcome = decided(ended(), torn)
    assert (outcome.kind, outcome.disposition) == (FailureKind.UNKNOWN, Disposition.FAILED)
    assert "could not be read" in outcome.reason
    assert decided(ended(exited(status=9)), torn).kind is FailureKind.CRASH


def test_silence_names_itself() -> None:
    owner = a_task(TaskState.RUNNING, spec=replace(a_spec(), silence_s=600.0))
    outcome = decided(ended(exited(EndReason.SILENCE, status=15)), None, owner)
    assert (outcome.kind, outcome.reason) == (FailureKind.SILENCE, "The agent printed nothing for 600 s.")


def test_automatic_retries_never_exceed_the_attempts() -> None:
    """Of a task that is to be tried again when its agent is lost: two more after the first, with a growing wait, then it failed."""
    assert not [kind for kind, row in ROWS.items() if row.retried and row.counts], "others are tried again as well"
    owner, waits = task(most=3, on_lost=OnLost.RETRY), []
    while True:
        outcome = decided(lost(Proof.PROVEN), None, owner)
        if outcome.disposition is not Disposition.RETRY:
            break
        assert outcome.wake_at is not None
        waits.append((outcome.wake_at - LATER).total_seconds())
        queued = decide_task(owner, RunSettled(outcome=outcome)).task
        owner = replace(queued, state=TaskState.RUNNING, run_id="t1.1", wake_at=None)
    assert outcome.disposition is Disposition.FAILED
    assert waits == [15.0, 30.0]
    assert decide_task(owner, RunSettled(outcome=outcome)).task.attempts == 3


def test_trouble_with_the_service_names_where_the_requests_went() -> None:
    """As the launch profile says; other failures are not about it."""
    for kind, named in ((FailureKind.NETWORK, True), (FailureKind.BAD_REQUEST, True), (FailureKind.CRASH, False)):
        facts = Facts(
            task=task(), run=ended(), at=LATER, trace=failing(kind), gone_proven=True, host="gateway.example:8443"
        )
        outcome = settle(facts)
        assert isinstance(outcome, Outcome)
        assert ("(gateway.example:8443)" in outcome.reason) is named


def test_launches_that_never_happened_cost_no_attempt_and_end_held() -> None:
    """Five in a row are tried again, the sixth is a person's."""
    owner, retried = task(most=1), 0
    while (outcome := decided(never(), None, owner)).disposition is Disposition.RETRY:
        retried += 1
        queued = decide_task(owner, RunSettled(outcome=outcome)).task
        assert queued.attempts == 0
        owner = replace(queued, state=TaskState.RUNNING, run_id="t1.1", wake_at=None)
    assert retried == MAX_UNLAUNCHED == 5
    held = decide_task(owner, RunSettled(outcome=outcome)).task
    assert (held.state, held.run_id, held.attempts) == (TaskState.HELD, None, 0)


def test_a_refused_launch_follows_its_own_kind() -> None:
    """A missing program is waited for, also where a command line is the task's own, with a growing pause between two looks."""
    for runs, wait_s in ((1, 15), (3, 60), (99, 600)):
        outcome = decided(never(FailureKind.PROGRAM_MISSING), None, replace(task(), runs=runs))
        assert (outcome.kind, outcome.disposition) == (FailureKind.PROGRAM_MISSING, Disposition.RETRY)
        assert outcome.wake_at == LATER + timedelta(seconds=wait_s)


@pytest.mark.parametrize(
    ("on_lost", "proof", "disposition"),
    [
        *((OnLost.HOLD, proof, None) for proof in Proof),
        *((OnLost.FAIL, proof, Disposition.FAILED) for proof in Proof),
        (OnLost.RETRY, Proof.PROVEN, Disposition.RETRY),
        (OnLost.RETRY, Proof.SWEPT, None),
        (OnLost.RETRY, Proof.UNPROVEN, None),
    ],
)
def test_a_lost_run_follows_the_tasks_policy(on_lost: OnLost, proof: Proof, disposition: Disposition | None) -> None:
    """Held unless asked otherwise, and tried again only with proof that nothing of it is alive (R6)."""
    found = settle(Facts(task=task(on_lost=on_lost), run=lost(proof), at=LATER))
    assert (found.disposition if isinstance(found, Outcome) else None) is disposition


def test_a_lost_run_counts() -> None:
    """It may have worked: the last attempt is not tried again."""
    owner = task(on_lost=OnLost.RETRY, attempts=2, most=3)
    assert decided(lost(Proof.PROVEN), None, owner).disposition is Disposition.FAILED


@pytest.mark.parametrize("on_lost", OnLost)
def test_a_stopped_task_that_lost_its_run_is_stopped(on_lost: OnLost) -> None:
    """A person has said what they want: nothing is held back."""
    outcome = decided(lost(Proof.UNPROVEN), None, task(on_lost=on_lost, stopped=True), gone=False)
    assert (outcome.disposition, outcome.proof) == (Disposition.STOPPED, Proof.UNPROVEN)


def test_what_is_not_proven_gone_is_not_tried_again_by_itself() -> None:
    """The shim died after the exit record: the end is known, but two agents must never work in one tree (R6)."""
    outcome = decided(ended(), failing(FailureKind.OVERLOADED), gone=False)
    assert (outcome.disposition, outcome.kind) == (Disposition.HELD, FailureKind.OVERLOADED)
    assert (outcome.wake_at, outcome.proof) == (None, Proof.UNPROVEN)
    assert "not proven" in outcome.reason


@pytest.mark.parametrize("kind", FailureKind)
def test_a_stop_wins_over_every_failure(kind: FailureKind) -> None:
    """After a stop, nothing is tried again or set aside, and no person is asked."""
    assert decided(ended(), failing(kind), task(stopped=True)).disposition is Disposition.STOPPED


@pytest.mark.parametrize("reason", [EndReason.STOP, EndReason.KILL])
def test_an_agent_that_was_stopped_is_stopped(reason: EndReason) -> None:
    """Whatever it printed."""
    outcome = decided(ended(exited(reason, status=15)))
    assert (outcome.kind, outcome.disposition) == (FailureKind.STOPPED, Disposition.STOPPED)


def test_an_interrupted_agent_is_not_tried_again() -> None:
    """A person is asked; it costs no attempt; and it is not `stopped`, because no person asked for that."""
    outcome = decided(ended(exited(EndReason.INTERRUPTED, status=15)))
    assert (outcome.kind, outcome.disposition) == (FailureKind.INTERRUPTED, Disposition.NEEDS_INPUT)
    assert not ROWS[FailureKind.INTERRUPTED].counts


def test_a_deadline_names_itself() -> None:
    """The sentence carries the number."""
    owner = a_task(TaskState.RUNNING, spec=a_spec(deadline_s=90.0))
    outcome = decided(ended(exited(EndReason.DEADLINE, status=9)), None, owner)
    assert (outcome.kind, outcome.reason) == (FailureKind.DEADLINE, "The deadline of 90 s passed.")


def test_a_run_that_fails_early_fails_as_recorded() -> None:
    """Unless it ended by itself before the signal."""
    end = exited(EndReason.EARLY_FAIL, status=15)
    assert decided(ended(end, FailureKind.SIGNED_OUT)).kind is FailureKind.SIGNED_OUT
    assert decided(ended(EXIT, FailureKind.SIGNED_OUT)).kind is None


@pytest.mark.parametrize(
    ("until", "wait_s"),
    [
        (LATER + timedelta(hours=2), 7200.0),
        (LATER - timedelta(hours=2), 15.0),
        (LATER, 15.0),
        (LATER + timedelta(days=3650), LONGEST_LIMIT_S),
    ],
    ids=["later", "long ago", "now", "in ten years"],
)
def test_a_quota_defers_until_its_time(until: object, wait_s: float) -> None:
    """Of a key, whose limit is its own. Without costing an attempt; a time that has passed does not make it start over and over."""
    trace = replace(failing(FailureKind.QUOTA), quota_until=until)
    outcome = with_key(trace, task(attempts=2))
    assert outcome.disposition is Disposition.RETRY
    assert outcome.wake_at == LATER + timedelta(seconds=wait_s)


def test_a_limit_of_an_account_is_waited_for_by_its_lanes() -> None:
    """The task has no time of its own: all that wait would start at once."""
    trace = replace(failing(FailureKind.QUOTA), quota_until=LATER + timedelta(hours=2))
    outcome = decided(ended(), trace, task(attempts=2))
    assert (outcome.disposition, outcome.wake_at) == (Disposition.RETRY, None)


@pytest.mark.parametrize("kind", sorted(SERVICE_KINDS))
@pytest.mark.parametrize("attempts", [0, 2])
def test_a_failing_service_costs_no_attempt(kind: FailureKind, attempts: int) -> None:
    """However often it fails: the task waits by the lanes of its account."""
    owner = task(attempts=attempts)
    for _ in range(50):
        outcome = decided(ended(), failing(kind), owner)
        assert (outcome.disposition, outcome.wake_at) == (Disposition.RETRY, None)
        after = decide_task(owner, RunSettled(outcome=outcome)).task
        assert (after.attempts, after.service_failures) == (attempts, 0)
        owner = replace(task(attempts=after.attempts), service_failures=after.service_failures)


def test_a_service_that_fails_one_task_alone_does_not_start_it_for_ever() -> None:
    """Others are answered meanwhile: it is spared a few times, with a growing pause of its own, then its attempts count."""
    owner, waits = task(most=3), list[float]()
    while True:
        facts = Facts(task=owner, run=ended(), at=LATER, trace=failing(FailureKind.NETWORK), gone_proven=True, service_answered=True)  # fmt: skip
        outcome = settle(facts)
        assert isinstance(outcome, Outcome)
        after = decide_task(owner, RunSettled(outcome=outcome, service_answered=True)).task
        if outcome.disposition is Disposition.FAILED:
            break
        assert outcome.wake_at is not None
        waits.append((outcome.wake_at - LATER).total_seconds())
        owner = replace(task(most=3, attempts=after.attempts), service_failures=after.service_failures)
    assert (after.state, after.attempts, after.service_failures) == (TaskState.FAILED, 3, SPARED + 3)
    assert waits == [15, 30, 60, 120, 240, 480, 600]
    assert "while it answered others" in outcome.reason


def test_a_service_that_always_names_a_time_that_has_passed_is_asked_less_and_less() -> None:
    """No attempt is counted, so nothing else bounds how often it is asked."""
    trace = replace(failing(FailureKind.QUOTA), quota_until=LATER - timedelta(hours=2))
    waits = [with_key(trace, replace(task(), runs=runs)).wake_at for runs in (1, 2, 3, 30)]
    assert waits == [LATER + timedelta(seconds=each) for each in (15, 30, 60, 600)]


def test_a_quota_without_a_known_time_needs_a_person() -> None:
    """It is not known when to try again."""
    assert decided(ended(), failing(FailureKind.QUOTA)).disposition is Disposition.NEEDS_INPUT


@pytest.mark.parametrize("kind", sorted(OURS))
@pytest.mark.parametrize("early_fail", [False, True])
def test_a_program_is_not_believed_what_is_ours_to_say(kind: FailureKind, early_fail: bool) -> None:
    """It could have itself started again and again, uncounted."""
    run = ended(exited(EndReason.EARLY_FAIL), kind) if early_fail else ended()
    assert decided(run, failing(kind)).kind is FailureKind.UNKNOWN


@pytest.mark.parametrize(
    ("errno", "kind", "detail"),
    [
        (ENOENT, FailureKind.PROGRAM_MISSING, "missing"),
        (ENOTDIR, FailureKind.PROGRAM_MISSING, "missing"),
        (EACCES, FailureKind.PROGRAM_BROKEN, "may not be executed"),
        (ENOEXEC, FailureKind.PROGRAM_BROKEN, f"error {ENOEXEC}"),
        (None, FailureKind.PROGRAM_BROKEN, "could not be started."),
    ],
)
def test_a_program_that_could_not_be_started(errno: int | None, kind: FailureKind, detail: str) -> None:
    """The reason is named."""
    outcome = decided(ended(exited(EndReason.SPAWN_FAILED, status=None, errno=errno)))
    assert outcome.kind is kind
    assert detail in outcome.reason


@pytest.mark.parametrize(
    ("step", "path", "errno", "kind", "detail"),
    [
        ("chdir", "/a/d", ENOENT, FailureKind.DIRECTORY_MISSING, "The directory '/a/d' is missing"),
        ("chdir", "/a/d", ENOTDIR, FailureKind.DIRECTORY_MISSING, "'/a/d' is no directory any more"),
        ("chdir", "/a/d", EACCES, FailureKind.DIRECTORY_MISSING, "The directory '/a/d' may not be entered"),
        ("exec", "mytool", ENOENT, FailureKind.PROGRAM_MISSING, "The program 'mytool' is missing from the PATH"),
        ("exec", "/b/mytool", ENOENT, FailureKind.PROGRAM_MISSING, "The program '/b/mytool' is missing, so"),
        ("interpreter", "/b/mytool", ENOENT, FailureKind.PROGRAM_MISSING, "the interpreter"),
        ("exec", "/b/mytool", EACCES, FailureKind.PROGRAM_BROKEN, "The program '/b/mytool' may not be executed"),
        ("exec", "/b/mytool", ENOEXEC, FailureKind.PROGRAM_BROKEN, "'/b/mytool' is no program"),
        ("exec", "/b/mytool", E2BIG, FailureKind.PROGRAM_BROKEN, "too long"),
        ("exec", "/b/mytool", EIO, FailureKind.PROGRAM_BROKEN, f"(error {EIO})"),
    ],
)
def test_what_was_missing_is_named_with_its_path(
    step: str, path: str, errno: int, kind: FailureKind, detail: str
) -> None:
    """A directory and a program are two things, and each sentence says what to do."""
    end = replace(exited(EndReason.SPAWN_FAILED, status=None, errno=errno), step=step, path=path)
    outcome = decided(ended(end))
    assert outcome.kind is kind
    assert detail in outcome.reason
    assert "wk retry t1" in outcome.reason or errno in {E2BIG, EIO}


@pytest.mark.parametrize(
    ("status", "detail"), [(768, "exit code 3"), (9, "signal 9"), (137, "signal 9"), (None, "not")]
)
def test_an_exit_is_described(status: int | None, detail: str) -> None:
    """From the raw wait status, also with a core dump."""
    assert detail in describe_exit(exited(status=status))


@pytest.mark.parametrize("tries", [0, 1, 2, 7, 100, 10**6])
def test_back_offs_double_up_to_the_cap(tries: int) -> None:
    """However many tries there were."""
    policy = RetryPolicy(base_s=15.0, cap_s=600.0, relaunch_base_s=1.0)
    assert policy.after_attempt(tries) == min(600.0, 15.0 * 2 ** min(max(0, tries - 1), 20))
    assert policy.after_unlaunched(tries) == min(600.0, 2.0 ** min(max(0, tries - 1), 20))


@pytest.mark.parametrize("stopped", [False, True])
def test_a_persons_word_on_a_held_run_keeps_what_is_known(stopped: bool) -> None:
    """Its proof, and its exit if there is one."""
    wish = StopRequest(how=StopHow.STOP, by="ada", at=LATER)
    owner = replace(a_task(TaskState.HELD, stop=wish if stopped else None), reason="The shim was killed.")
    run = replace(lost(Proof.SWEPT), state=RunState.HELD)
    outcome = resolve_held(owner, run, LATER, stopped=stopped, by="ada")
    assert outcome.proof is Proof.SWEPT
    assert outcome.kind is (FailureKind.STOPPED if stopped else FailureKind.LOST)
    assert outcome.reason.startswith("ada ")


ANSWERED = replace(OK, answered=True)
BY_OTHERS = (
    EndReason.STOP,
    EndReason.KILL,
    EndReason.DEADLINE,
    EndReason.SILENCE,
    EndReason.INTERRUPTED,
    EndReason.ANSWERED,
)


@pytest.mark.parametrize("reason", BY_OTHERS)
@pytest.mark.parametrize("stop", [None, STOP])
def test_a_success_stays_one_whatever_ends_the_process_later(reason: EndReason, stop: StopRequest | None) -> None:
    """And it is said that the process went on. The task is done, also where a person has stopped it."""
    facts = Facts(
        task=a_task(TaskState.RUNNING, stop=stop), run=ended(exited(reason, status=15)), at=LATER, trace=ANSWERED,
        gone_proven=True,
    )  # fmt: skip
    outcome = settle(facts)
    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.disposition, outcome.kind) == (OutcomeStatus.SUCCEEDED, Disposition.DONE, None)
    assert outcome.reason.startswith("Done. Its process went on after its answer, ")
    assert decide_task(facts.task, RunSettled(outcome=outcome)).task.state is TaskState.DONE


@pytest.mark.parametrize(
    "trace",
    [
        OK,
        replace(ANSWERED, answered=False, ok=False, kind=FailureKind.UNKNOWN),
        replace(ANSWERED, text="Which one do you want?"),
        replace(ANSWERED, tool_calls=0),
    ],
    ids=["an exit code", "a failure", "a question", "nothing done"],
)
def test_a_stop_of_anything_else_is_a_stop(trace: Trace) -> None:
    """A command that ends with 0 when it is asked to end has not done its work."""
    facts = Facts(
        task=a_task(TaskState.RUNNING, stop=STOP), run=ended(exited(EndReason.STOP)), at=LATER, trace=trace, gone_proven=True
    )  # fmt: skip
    outcome = settle(facts)
    assert isinstance(outcome, Outcome)
    assert (outcome.disposition, outcome.kind) == (Disposition.STOPPED, FailureKind.STOPPED)


def test_why_output_could_not_be_read_is_said() -> None:
    facts = Facts(
        task=a_task(TaskState.RUNNING), run=ended(), at=LATER, unread="stdout.log is a named pipe", gone_proven=True
    )
    outcome = settle(facts)
    assert isinstance(outcome, Outcome)
    assert outcome.reason == "What the agent printed could not be read: stdout.log is a named pipe."


TERMED, KILLED = replace(EXIT, status=15, at=LATER), replace(EXIT, status=9, at=LATER)
WAYS: dict[str, Run] = {
    "told by its socket": ended(replace(KILLED, reason=EndReason.STOP)),
    "killed by its socket": ended(replace(KILLED, reason=EndReason.KILL)),
    "its shim was signalled": ended(replace(TERMED, reason=EndReason.INTERRUPTED)),
    "ended past its shim": ended(TERMED),
    "killed past its shim": ended(KILLED),
    "its shim was killed": lost(Proof.SWEPT),
    "the machine was restarted": lost(Proof.PROVEN),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", StopHow)
@pytest.mark.parametrize("on_lost", OnLost)
def test_a_persons_stop_is_the_cause_by_every_way(way: str, how: StopHow, on_lost: OnLost) -> None:
    """The kind, the status and the sentence are the same, whichever process ended the agent and whatever its shim could write down."""
    wish = StopRequest(how=how, by="ada", at=AT)
    owner = replace(task(on_lost=on_lost), stop=wish)
    outcome = decided(WAYS[way], None, owner, gone=False)
    assert (outcome.kind, outcome.status) == (FailureKind.STOPPED, OutcomeStatus.STOPPED)
    assert outcome.disposition is Disposition.STOPPED
    assert outcome.reason.startswith("You stopped it.")


def test_what_a_stop_did_not_end_keeps_its_own_reason() -> None:
    """A crash before the stop was wished for, and an exit code of its own, are reported as they were; nothing is tried again."""
    wish = StopRequest(how=StopHow.STOP, by="ada", at=LATER)
    for fact in (replace(EXIT, status=9, at=AT), replace(EXIT, status=256, at=LATER)):
        outcome = decided(ended(fact), failing(FailureKind.CRASH), replace(task(), stop=wish))
        assert outcome.disposition is Disposition.STOPPED
        assert not outcome.reason.startswith("You stopped it.")


@pytest.mark.parametrize("opens", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("argv", [(), ("make",)], ids=["the harness's program", "a command line of its own"])
def test_a_refused_sign_in_is_waited_for_where_its_end_can_be_noticed(
    opens: bool, keyed: bool, argv: tuple[str, ...]
) -> None:
    """That is where a sign-in opens the lanes of the account. Everywhere else the reason names the next step for a person."""
    owner = a_task(TaskState.RUNNING, spec=replace(a_spec(), argv=argv, account="work"))
    for runs in (1, 5):
        found = settle(
            Facts(
                task=replace(owner, runs=runs), run=ended(), at=LATER, trace=failing(FailureKind.SIGNED_OUT),
                gone_proven=True, credential_state=CredentialState(opens=opens, keyed=keyed),
            )
        )  # fmt: skip
        assert isinstance(found, Outcome)
        if opens and not keyed and not argv:
            assert (found.disposition, found.wake_at) == (Disposition.RETRY, LATER + timedelta(seconds=15))
            login = f"`wk account login {owner.spec.account_id}` signs in; its tasks then continue by themselves."
            assert found.reason.endswith(login)
        else:
            assert (found.disposition, found.wake_at) == (Disposition.NEEDS_INPUT, None)
            assert found.reason.endswith(f"{'Check the key' if keyed else 'Sign in'}, then `wk retry t1`.")


@pytest.mark.parametrize("reason", ["", "It ran out of luck."])
def test_the_words_of_the_program_are_kept(reason: str) -> None:
    """Where it gives none, those of the kind stand in their place."""
    outcome = decided(ended(), replace(failing(FailureKind.REFUSED), reason=reason))
    assert outcome.reason == (reason or ROWS[FailureKind.REFUSED].detail)


def test_an_answer_that_is_missing_is_asked_for_and_work_that_is_missing_is_named() -> None:
    silent = Trace(finished=True, ok=True, expects_trace=True)
    owner = a_task(TaskState.RUNNING, spec=replace(a_spec(), expect="answer"))
    assert "gave no answer" in decided(ended(), silent, owner).reason
    assert "said and did nothing" in decided(ended(), silent).reason
    assert decided(ended(), replace(silent, text="All done.")).reason.startswith(
        "The agent says that it is done, but it called no tool and changed nothing. `wk show t1`"
    )


def test_an_end_at_the_moment_of_the_stop_is_the_stops() -> None:
    wish = StopRequest(how=StopHow.STOP, by="ada", at=LATER)
    outcome = decided(ended(replace(EXIT, status=15, at=LATER)), None, replace(task(), stop=wish))
    assert outcome.reason == "You stopped it."


def test_what_could_not_be_read_says_no_more_than_is_known() -> None:
    assert decided(ended(), None).reason == "What the agent printed could not be read."
    assert describe_exit(exited(status=None)) == "not started"
    assert decided(ended()).reason == "Done."


def test_an_outcome_keeps_what_the_agent_reported() -> None:
    usage = Usage(input_tokens=7, output_tokens=8, cost_usd=0.25)
    trace = replace(OK, text="All done.", harness_session="s-1", model="m-1", turns=3, tool_calls=4, usage=usage)
    found = decided(ended(), trace)
    assert (found.kind, found.reason) == (None, "Done.")
    assert (found.text, found.harness_session, found.model) == ("All done.", "s-1", "m-1")
    assert (found.turns, found.tool_calls, found.usage, found.exit) == (3, 4, usage, EXIT)
    without = decided(ended(), None)
    assert (without.text, without.model, without.turns, without.tool_calls, without.usage) == (
        "",
        None,
        None,
        0,
        Usage(),
    )
