"""From the facts of a finished run to its outcome and what that does to the task (R11). Pure; decided once, stored and applied in one transaction."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from watchkeeper.domain.account import CredentialState
from watchkeeper.domain.check_verdict import CheckVerdict, judge_checks, verdict_of
from watchkeeper.domain.expectation import judge_success
from watchkeeper.domain.failure import ROWS, FailureKind, Follow
from watchkeeper.domain.model import (
    Changes,
    Disposition,
    EndReason,
    ExitFact,
    Leftover,
    OnLost,
    Outcome,
    OutcomeStatus,
    Proof,
    Run,
    Task,
    Trace,
    Usage,
)
from watchkeeper.domain.result import result_of
from watchkeeper.domain.route import with_host
from watchkeeper.domain.service import LONGEST_LIMIT_S, SERVICE_KINDS, ProbePolicy, charged, service_failures
from watchkeeper.domain.side_command import SideCommand
from watchkeeper.domain.spawn_failure import judge_spawn

MAX_UNLAUNCHED = 5
"""How many launches in a row may come to nothing before the task is held."""

_MAX_DOUBLINGS = 64

_AFTER_ANSWER = {
    EndReason.STOP: "Its process went on after its answer, and was stopped.",
    EndReason.KILL: "Its process went on after its answer, and was killed.",
    EndReason.DEADLINE: "Its process went on after its answer, until its deadline.",
    EndReason.SILENCE: "Its process went on after its answer, and was ended because it printed nothing more.",
    EndReason.INTERRUPTED: "Its process went on after its answer, and was interrupted.",
    EndReason.ANSWERED: "Its process went on after its answer, and was ended.",
}
"""What ended a process that had given its final answer; a success stays one."""

_OURS_TO_SAY = frozenset(
    {
        FailureKind.DIRECTORY_CHANGED,
        FailureKind.ENVIRONMENT_UNKNOWN,
        FailureKind.NEVER_LAUNCHED,
        FailureKind.LOST,
        FailureKind.STOPPED,
        FailureKind.NOTHING_CHANGED,
        FailureKind.CHECK_FAILED,
        FailureKind.CHECK_NOT_RUN,
        FailureKind.SETUP_FAILED,
    }
)
"""Kinds that evidence or a person establishes. A program that claims one is not believed: it could have itself started again and again, uncounted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long to wait before another try: doubling from a base, up to a cap."""

    base_s: float = 15.0
    cap_s: float = 600.0
    relaunch_base_s: float = 1.0

    def after_attempt(self, attempts: int) -> float:
        """Seconds to wait after this many counted attempts."""
        return _doubled(self.base_s, attempts, self.cap_s)

    def after_unlaunched(self, unlaunched: int) -> float:
        """Seconds to wait after this many launches in a row that never happened."""
        return _doubled(self.relaunch_base_s, unlaunched, self.cap_s)


def _doubled(base_s: float, tries: int, cap_s: float) -> float:
    """The base, doubled for each try after the first, up to the cap. The exponent is bounded, because a float is."""
    return min(cap_s, base_s * 2.0 ** min(max(0, tries - 1), _MAX_DOUBLINGS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known about a run that has ended."""

    task: Task
    run: Run
    at: datetime
    trace: Trace | None = None
    unread: str = ""
    """Why there is no trace, where the agent's output could not be read."""
    changes: Changes | None = None
    leftovers: tuple[Leftover, ...] = ()
    gone_proven: bool = False
    swept: Proof | None = None
    """What a sweep came to, where the shim died after the agent's end and before the proof."""
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    probing: ProbePolicy = field(default_factory=ProbePolicy)
    credential_state: CredentialState = field(default_factory=CredentialState)
    host: str = ""
    """Where its requests went, as its launch profile says; empty: not known."""
    checks: tuple[SideCommand, ...] = ()
    """The task's checks, all of which have ended; none: they did not run, or not yet."""
    service_answered: bool = False
    """The service answered a task since the run began, or since it failed this task before."""
    resumed: bool = False
    """The run went on with a conversation, for messages: words are an answer to these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """No outcome can be decided: a person must look."""

    reason: str


def wants_checks(facts: Facts, decided: Outcome | Hold) -> bool:
    """Whether the task's checks are to run before this outcome may stand: it would be a success, no check has run, and the task is not to stop."""
    is_success = isinstance(decided, Outcome) and decided.status is OutcomeStatus.SUCCEEDED
    return is_success and bool(facts.task.spec.checks) and not facts.checks and facts.task.stop is None


def settle(facts: Facts) -> Outcome | Hold:
    """Decide the outcome of an ended run, or hold it."""
    kind, reason = _judge(facts)
    if kind is None and facts.task.spec.checks:
        if facts.checks:
            kind, reason = judge_checks(facts.task.id, facts.checks, came_to=reason)
        elif facts.task.stop is not None:
            kind, reason = FailureKind.STOPPED, "You stopped it before its checks ran."
    elif kind is not None and is_stopped_by_us(facts.task, facts.run):
        detail = ROWS[FailureKind.STOPPED].detail
        kind, reason = FailureKind.STOPPED, detail if facts.run.exit is not None else f"{detail} {reason}"
    if kind is not None:
        reason = with_host(kind, reason, facts.host)
    proof = _proof(facts)
    if kind is FailureKind.LOST and facts.task.stop is None:
        held = _hold_if_lost(facts)
        if held is not None:
            return held
    disposition, wake_at = _dispose(facts, kind)
    if disposition is Disposition.RETRY and _continues_elsewhere(facts):
        reason = f"{reason} {_ELSEWHERE}"
    elif disposition is Disposition.RETRY and proof is not Proof.PROVEN:
        # Two agents must never work in one tree (R6): the end is known, so it is settled, but a person starts the next run.
        disposition, wake_at, reason = Disposition.HELD, None, f"{reason} {_NOT_PROVEN}"
    if kind in SERVICE_KINDS and disposition is Disposition.FAILED:
        reason += " It failed this task again and again while it answered others."
    if kind is FailureKind.SIGNED_OUT and disposition in {Disposition.RETRY, Disposition.NEEDS_INPUT}:
        reason += _sign_in_hint(facts, disposition)
    trace = facts.trace
    return Outcome(
        run_id=facts.run.id,
        fence=facts.run.fence,
        status=_status(kind, disposition),
        disposition=disposition,
        kind=FailureKind.STOPPED if disposition is Disposition.STOPPED else kind,
        reason=reason,
        at=facts.at,
        proof=proof,
        text=trace.text if trace else "",
        harness_session=(trace.harness_session if trace else None) or facts.run.harness_session,
        model=trace.model if trace else None,
        exit=facts.run.exit,
        turns=trace.turns if trace else None,
        tool_calls=trace.tool_calls if trace else 0,
        usage=trace.usage if trace else Usage(),
        changes=facts.changes,
        leftovers=facts.leftovers,
        wake_at=wake_at,
        result=result_of(kind, facts.changes),
        verdict=verdict_of(facts.checks) if facts.checks else CheckVerdict.UNCHECKED,
    )


_OUR_HAND = frozenset({EndReason.STOP, EndReason.KILL, EndReason.INTERRUPTED})
"""Reasons in an exit record which mean that the agent was asked to end, by whichever way its shim was reached."""

_OUR_SIGNALS = frozenset({9, 15})
"""KILL and TERM."""


def is_stopped_by_us(task: Task, run: Run) -> bool:
    """Whether a person's stop is what ended a run, by whatever way it took.

    The shim may have been told by its socket or by a signal; it may have been deaf, hung or dead, so that the agent was ended by its identity and its record
    names a bare signal, or there is none. What counts is that the stop was wished before the end, and that the end is one that we bring about.
    """
    stop, fact = task.stop, run.exit
    if stop is None:
        return False
    if fact is None:
        return run.kind is FailureKind.LOST
    if fact.reason in _OUR_HAND:
        return True
    return fact.reason is EndReason.EXITED and fact.signal in _OUR_SIGNALS and stop.at <= fact.at


def _judge(facts: Facts) -> tuple[FailureKind | None, str]:
    """The failure kind, or None for success, with the plain sentence."""
    run = facts.run
    if run.exit is None:
        kind = run.kind or FailureKind.UNKNOWN
        return kind, run.reason or ROWS[kind].detail
    if run.exit.reason in _AFTER_ANSWER and facts.trace is not None and facts.trace.answered:
        kind, reason = _judge_trace(facts, run.exit)
        if kind is None:
            return None, f"{reason} {_AFTER_ANSWER[run.exit.reason]}"
    match run.exit.reason:
        case EndReason.STOP | EndReason.KILL:
            return FailureKind.STOPPED, ROWS[FailureKind.STOPPED].detail
        case EndReason.DEADLINE:
            return FailureKind.DEADLINE, _describe_deadline(facts)
        case EndReason.SILENCE:
            return FailureKind.SILENCE, _describe_silence(facts)
        case EndReason.INTERRUPTED:
            return FailureKind.INTERRUPTED, ROWS[FailureKind.INTERRUPTED].detail
        case EndReason.EARLY_FAIL if run.early_fail is not None:
            return _programs_word(run.early_fail.kind, run.early_fail.reason)
        case EndReason.SPAWN_FAILED:
            return judge_spawn(run.exit, facts.task.id)
        case _:
            return _judge_trace(facts, run.exit)


def _describe_deadline(facts: Facts) -> str:
    limit = facts.task.spec.deadline_s
    return f"The deadline of {limit:g} s passed." if limit is not None else ROWS[FailureKind.DEADLINE].detail


def _describe_silence(facts: Facts) -> str:
    limit = facts.task.spec.silence_s
    return f"The agent printed nothing for {limit:g} s." if limit is not None else ROWS[FailureKind.SILENCE].detail


def _programs_word(kind: FailureKind, reason: str) -> tuple[FailureKind, str]:
    """A kind that was read out of what the program printed."""
    believed = FailureKind.UNKNOWN if kind in _OURS_TO_SAY else kind
    return believed, reason or ROWS[believed].detail


def _judge_trace(facts: Facts, exit_fact: ExitFact) -> tuple[FailureKind | None, str]:
    """The program ended by itself: its own final event decides, and its absence is a failure."""
    trace = facts.trace
    if trace is None:
        return (
            FailureKind.UNKNOWN,
            f"What the agent printed could not be read{f': {facts.unread}' if facts.unread else ''}.",
        )
    if trace.kind is not None:
        return _programs_word(trace.kind, trace.reason)
    if not trace.finished and not trace.whole and exit_fact.signal is None:
        detail = "and the part of its output that says how it went could not be read"
        return FailureKind.UNKNOWN, f"The agent program ended ({describe_exit(exit_fact)}), {detail}."
    if not trace.finished:
        return (
            FailureKind.CRASH,
            f"The agent program ended without a result ({describe_exit(exit_fact)}).",
        )
    if not trace.ok:
        return FailureKind.UNKNOWN, trace.reason or ROWS[FailureKind.UNKNOWN].detail
    expect = "answer" if facts.resumed and facts.task.spec.expect == "work" else facts.task.spec.expect
    return judge_success(facts.task.id, expect, trace, facts.changes)


def describe_exit(exit_fact: ExitFact) -> str:
    """`exit code 3` or `signal 9`, for people."""
    if exit_fact.exit_code is not None:
        return f"exit code {exit_fact.exit_code}"
    if exit_fact.signal is not None:
        return f"signal {exit_fact.signal}"
    return "not started"


def _hold_if_lost(facts: Facts) -> Hold | None:
    """The task's own policy for a run that may have worked; a retry in the same directory needs proof that nothing lives there."""
    policy = facts.task.spec.on_lost
    if policy is OnLost.HOLD:
        return Hold(reason=facts.run.reason)
    if policy is OnLost.RETRY and _proof(facts) is not Proof.PROVEN and not _continues_elsewhere(facts):
        return Hold(reason=f"{facts.run.reason} {_NOT_PROVEN}")
    return None


def _continues_elsewhere(facts: Facts) -> bool:
    """Whether the next run may start in a new worktree: a search found nothing alive, and what it may have missed stays in the old worktree."""
    spec = facts.task.spec
    return _proof(facts) is Proof.SWEPT and spec.worktree is not None and spec.on_lost is OnLost.RETRY


_ELSEWHERE = "It is not proven that nothing of it is alive in its worktree, so the task continues in a new one."
_NOT_PROVEN = "It is not proven that nothing of it is alive, so it is not tried again by itself."


def _dispose(facts: Facts, kind: FailureKind | None) -> tuple[Disposition, datetime | None]:
    if kind is None:
        return Disposition.DONE, None
    if facts.task.stop is not None or kind is FailureKind.STOPPED:
        return Disposition.STOPPED, None
    row = ROWS[kind]
    if kind in SERVICE_KINDS and facts.run.exit is not None:
        return _after_service_failure(facts, kind)
    if limit_of(facts, kind) is not None:
        return Disposition.RETRY, None  # the lanes of its account are closed until then
    if row.waits and _is_lacking(facts, kind):
        # What is missing does not belong to this task: it keeps its place, and the claim passes over it until the account or the program is there.
        return Disposition.RETRY, facts.at + timedelta(seconds=_wait_while_lacking(facts, kind))
    wait_s = _wait_before_retry(facts, kind)
    if wait_s is not None:
        return Disposition.RETRY, facts.at + timedelta(seconds=wait_s)
    if kind is FailureKind.LOST:
        return Disposition.FAILED, None
    return Disposition(Follow(row.then).value), None


def limit_of(facts: Facts, kind: FailureKind | None) -> datetime | None:
    """Until when the limit of the task's account is used up, as its program says; None if it is not, or if it is a key's own limit."""
    if kind is not FailureKind.QUOTA or facts.credential_state.keyed or facts.run.exit is None or facts.trace is None:
        return None
    return facts.trace.quota_until


def _is_lacking(facts: Facts, kind: FailureKind) -> bool:
    """What failed is the account's or the machine's lack, and it can be noticed when that is over."""
    if kind is FailureKind.SIGNED_OUT:
        return facts.credential_state.opens and not facts.credential_state.keyed and not facts.task.spec.argv
    return facts.run.exit is None


def _after_service_failure(facts: Facts, kind: FailureKind) -> tuple[Disposition, datetime | None]:
    """Back into the queue, where the lanes of its account are closed; with a pause of its own, and in the end a failure, if others were answered."""
    task, answered = facts.task, facts.service_answered
    if not answered:
        return Disposition.RETRY, None
    if charged(task, kind, answered=answered) and task.attempts + 1 >= task.spec.max_attempts:
        return Disposition.FAILED, None
    failures = service_failures(task, kind, answered=answered)
    return Disposition.RETRY, facts.at + timedelta(seconds=facts.policy.after_attempt(failures))


def _wait_while_lacking(facts: Facts, kind: FailureKind) -> float:
    """Seconds before the task is looked at again.

    No attempt is counted, so where what is known of the account or the machine does not hold it back (a clock was set back; its own PATH lacks the
    program, that of others does not), nothing else bounds how often it starts.
    """
    return facts.policy.base_s if kind is FailureKind.SIGNED_OUT else facts.policy.after_attempt(facts.task.runs)


def _sign_in_hint(facts: Facts, disposition: Disposition) -> str:
    """What a person does about a refused sign-in."""
    account = facts.task.spec.account_id
    if disposition is Disposition.RETRY:
        return f" `wk account login {account}` signs in; its tasks then continue by themselves."
    return f" {'Check the key' if facts.credential_state.keyed else 'Sign in'}, then `wk retry {facts.task.id}`."


def _wait_before_retry(facts: Facts, kind: FailureKind) -> float | None:
    """Seconds to wait before another run, or None if there is to be none."""
    row = ROWS[kind]
    task = facts.task
    if kind is FailureKind.NEVER_LAUNCHED:
        unlaunched = task.unlaunched + 1
        return facts.policy.after_unlaunched(unlaunched) if unlaunched <= MAX_UNLAUNCHED else None
    if kind is FailureKind.LOST and task.spec.on_lost is not OnLost.RETRY:
        return None
    if not row.retried and kind is not FailureKind.LOST:
        return None
    if row.defers:
        # The limit of a key is that key's alone, so it closes no lane.
        until = facts.trace.quota_until if facts.trace else None
        # A time that has passed must not make it start over and over, since no attempt is counted; and a time years away is a mistake, not the end of a limit.
        return _between(facts.policy.after_attempt(task.runs), until, facts.at) if until is not None else None
    attempts = task.attempts + (1 if row.counts else 0)
    return facts.policy.after_attempt(attempts) if attempts < task.spec.max_attempts else None


def _between(least_s: float, until: datetime, at: datetime) -> float:
    return min(max(least_s, (until - at).total_seconds()), max(least_s, LONGEST_LIMIT_S))


def _status(kind: FailureKind | None, disposition: Disposition) -> OutcomeStatus:
    if kind is None:
        return OutcomeStatus.SUCCEEDED
    return OutcomeStatus.STOPPED if disposition is Disposition.STOPPED else OutcomeStatus.FAILED


def _proof(facts: Facts) -> Proof:
    if facts.gone_proven:
        return Proof.PROVEN
    return facts.swept or facts.run.proof or Proof.UNPROVEN
