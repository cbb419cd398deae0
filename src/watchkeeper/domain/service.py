"""The service behind an account, as one machine sees it: whether tasks of the account may start there, and which run tries it first.

A service that is overloaded, or that cannot be reached, fails every run of its account. The first such failure closes the account's lanes on that
machine. When a pause is over, exactly one task is claimed: its run is the *probe*. An answer of the service opens the lanes for all; a failed probe
makes the next pause longer. A limit that was used up ends the same way: one probe first, then the rest.

    open ──failed──▶ resting ──probe_at──▶ due ──claimed──▶ probing ──answered──▶ open
                        ▲                   ▲                  │  │
                        └───────failed──────┼──────────────────┘  │
                                            └──ended otherwise────┘

Which run is the probe is recorded in the transaction that claims it. Whether it is still at work is read from the run itself, so a crash, a stop or a
lost run can neither leave the lanes closed nor let two probes out.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from watchkeeper.domain.account import AccountState, SignInSeen
from watchkeeper.domain.account import observed as signed
from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.outcome_record import Trace
from watchkeeper.domain.task_record import Task

SERVICE_KINDS = frozenset({FailureKind.OVERLOADED, FailureKind.NETWORK})
"""Failures of the service, not of the task."""

SPARED = 5
"""How many failures by the service a task is spared although the service answered others meanwhile. Each further one counts as an attempt."""

LONGEST_LIMIT_S = 35 * 24 * 3600.0
"""Seconds after which a limit that is used up is tried again, whatever time the program named."""

ANSWERED_EVERY_S = 60.0
"""How fresh, in seconds, the record of the service's last answer is kept while agents of the account work."""

_CLOCK_SLACK = timedelta(minutes=1)
"""A record from further in the future than this is from a clock that was set back since."""

_MAX_DOUBLINGS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePolicy:
    """How long to pause between probes: doubling from a base, up to a cap."""

    base_s: float = 30.0
    cap_s: float = 900.0

    def pause(self, failed: int) -> timedelta:
        """The pause after so many failed probes in a row; none yet: after the failure that closed the lanes."""
        return timedelta(seconds=min(self.cap_s, self.base_s * 2.0 ** min(failed, _MAX_DOUBLINGS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFailed:
    """A run ended because the service was overloaded or could not be reached."""

    run_id: str
    kind: FailureKind
    detail: str
    at: datetime
    """When the agent gave up."""
    now: datetime
    policy: ProbePolicy = ProbePolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAnswered:
    """A run got an answer from the model."""

    run_id: str
    at: datetime
    """When at the earliest."""
    now: datetime
    succeeded: bool = False
    """It was the answer that ended a run well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSeen:
    """A run was refused because the account's limit is used up until then."""

    until: datetime
    at: datetime
    now: datetime
    run_id: str = ""
    policy: ProbePolicy = ProbePolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStarted:
    """A run was claimed as the probe."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosureLifted:
    """A person wants one probe now, whatever pause or limit was recorded."""

    at: datetime


Seen = SignInSeen | QuotaSeen | ServiceFailed | ServiceAnswered | ProbeStarted | ClosureLifted
"""Everything that changes what is known of an account on a machine."""


class Phase(StrEnum):
    """Whether tasks of an account may start, as far as its service is concerned."""

    OPEN = "open"
    RESTING = "resting"
    DUE = "due"
    """One task may start, as the probe."""
    PROBING = "probing"
    """The probe is running; no other task starts."""


def phase(state: AccountState, now: datetime) -> Phase:
    """Where the account stands."""
    if state.trouble is None and state.quota_until is None:
        return Phase.OPEN
    if rests_until(state, now) is not None:
        return Phase.RESTING
    return Phase.PROBING if state.probe_run is not None else Phase.DUE


def rests_until(state: AccountState, now: datetime) -> datetime | None:
    """When the next probe may start, if that is in the future; None if one may start now, or none is needed.

    A time that can only come from a clock that was set back since does not delay a task.
    """
    limit, probe = state.quota_until, state.probe_at
    if limit is not None and limit - now > timedelta(seconds=LONGEST_LIMIT_S):
        limit = None
    if state.trouble_at is not None and state.trouble_at - now > _CLOCK_SLACK:
        probe = None
    return max((at for at in (limit, probe) if at is not None and at > now), default=None)


def overdue(state: AccountState, now: datetime, patience_s: float) -> bool:
    """Whether the trouble has lasted for so long that a person should look."""
    return state.trouble_since is not None and (now - state.trouble_since).total_seconds() >= patience_s


def observed(state: AccountState, seen: Seen) -> AccountState:
    """What an observation makes of what was known. What is older than what was known changes nothing, unless the run is the probe: that came after."""
    match seen:
        case SignInSeen():
            return signed(state, seen)
        case ServiceFailed():
            return _failed(state, seen)
        case ServiceAnswered():
            return _answered(state, seen)
        case QuotaSeen():
            return _limited(state, seen)
        case ProbeStarted(run_id=run_id):
            wanted = state.trouble is not None or state.quota_until is not None
            return replace(state, probe_run=run_id) if wanted else state
        case ClosureLifted(at=at):
            return _lifted(state, at)


def answered_since(state: AccountState | None, since: datetime, now: datetime) -> bool:
    """Whether the service was seen to answer a task after that time."""
    last = None if state is None else _past(state.answered_at, now)
    return last is not None and last > since


def shows_answer(trace: Trace | None) -> bool:
    """Whether a run's output shows that the model answered it."""
    return trace is not None and (trace.steps > 0 or trace.tool_calls > 0)


def service_failures(task: Task, kind: FailureKind | None, *, answered: bool) -> int:
    """The task's count of failures by a service that answered others, after a run that ended so. `answered`: it did, since the failure before this one."""
    return task.service_failures + (1 if kind in SERVICE_KINDS and answered else 0)


def charged(task: Task, kind: FailureKind | None, *, answered: bool) -> bool:
    """Whether a failure by the service counts as one of the task's attempts: only if it fails this task again and again, and not others."""
    return kind in SERVICE_KINDS and answered and service_failures(task, kind, answered=answered) > SPARED


def _failed(state: AccountState, seen: ServiceFailed) -> AccountState:
    at = min(seen.at, seen.now)
    since = at if state.trouble_since is None else min(at, state.trouble_since)
    if state.probe_run == seen.run_id:
        probes = 1 if state.trouble is None else state.probes + 1
        return replace(
            state,
            trouble=seen.kind,
            trouble_detail=seen.detail,
            trouble_since=since,
            trouble_at=at,
            probes=probes,
            probe_at=at + seen.policy.pause(probes),
            probe_run=None,
        )
    if state.trouble_at is not None:
        # It began before the lanes closed: it tells that the trouble lasts, and nothing about pauses.
        return replace(state, trouble_since=since, trouble_at=max(at, state.trouble_at))
    if answered_since(state, at, seen.now):
        return state
    return replace(
        state,
        trouble=seen.kind,
        trouble_detail=seen.detail,
        trouble_since=at,
        trouble_at=at,
        probes=0,
        probe_at=at + seen.policy.pause(0),
    )


def _answered(state: AccountState, seen: ServiceAnswered) -> AccountState:
    at, is_probe = min(seen.at, seen.now), state.probe_run == seen.run_id
    last = _past(state.answered_at, seen.now)
    after = replace(state, answered_at=at if last is None else max(at, last))
    if after.trouble_at is not None and (is_probe or at >= after.trouble_at):
        after = _untroubled(after)
    if after.quota_until is not None and (is_probe or after.quota_until <= at):
        after = replace(after, quota_until=None)
    elif after.quota_until is not None and seen.succeeded and (after.quota_at is None or after.quota_at < at):
        after = replace(
            after, quota_until=min(after.quota_until, at)
        )  # the time that the program named may be wrong: a probe shows it
    if after.trouble is None and after.quota_until is None:
        after = replace(after, probes=0, probe_run=None)
    return after


def _limited(state: AccountState, seen: QuotaSeen) -> AccountState:
    at, is_probe = min(seen.at, seen.now), state.probe_run == seen.run_id
    last = _past(state.quota_at, seen.now)
    if not is_probe and last is not None and at < last:
        return state
    probes = (0 if state.trouble is not None else state.probes) + (1 if is_probe else 0)
    # A time that has passed must not make it start over and over, since no attempt is counted; and a time years away is a mistake, not the end of a limit.
    until = min(max(seen.until, at + seen.policy.pause(probes)), at + timedelta(seconds=LONGEST_LIMIT_S))
    after = replace(
        state,
        quota_until=until,
        quota_at=at if state.quota_at is None else max(at, state.quota_at),
        probes=probes,
        probe_run=None if is_probe else state.probe_run,
    )
    if after.trouble_at is not None and (is_probe or at >= after.trouble_at):
        after = _untroubled(after)  # a refusal is an answer too
    return after


def _lifted(state: AccountState, at: datetime) -> AccountState:
    if rests_until(state, at) is None:
        return state
    after = state
    if after.quota_until is not None and after.quota_until > at:
        after = replace(after, quota_until=at, quota_at=at if after.quota_at is None else max(at, after.quota_at))
    return after if after.probe_at is None else replace(after, probe_at=min(at, after.probe_at))


def _untroubled(state: AccountState) -> AccountState:
    return replace(state, trouble=None, trouble_detail="", trouble_since=None, trouble_at=None, probe_at=None)


def _past(at: datetime | None, now: datetime) -> datetime | None:
    """A recorded time, unless it lies in the future: then the clock was set back, and it says nothing about before and after."""
    return None if at is None or at > now else at
