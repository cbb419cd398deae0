"""Which tasks may run here now, decided for many at once.

Tasks that agree on machine, harness, account and project share a *lane*: whatever closes the way for one of them closes it for all. So a claim looks at
the lanes that have ready tasks, however many tasks those are, and takes the first task of the open ones. What stands in the way of a single task
(a dependency, a busy checkout, a time) is kept beside its row; see `waiting`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from shlex import quote

from watchkeeper.domain.account import AccountState, SignIn
from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.service import Phase, phase, rests_until
from watchkeeper.domain.wait import Wait
from watchkeeper.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """What tasks have in common when the same things close their way."""

    id: int
    machine: str | None
    """The only machine that may run them; None: any."""
    harness: str
    account: str
    """The account's id, `HARNESS:NAME`."""
    project: str
    """Empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupied:
    """How many agents may be at work for the tasks of one lane, on one machine."""

    lane: Lane
    machine: str
    agents: int


SCOPES = ("all", "machine", "harness", "account", "project")
"""What a rule of the queue can speak of."""


MOST_AT_ONCE = 10_000
"""The highest concurrency limit of a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRule:
    """A person's word on a part of the queue: paused, or so many agents at once."""

    scope: str
    """One of `SCOPES`."""
    name: str
    """Which machine (its id), harness, account or project; empty for `all`."""
    paused: bool = False
    max_running: int | None = None
    by: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessState:
    """Whether a machine has a harness's program, as it was last found."""

    harness: str
    machine: str
    present: bool
    detail: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason why a task waits, in a sentence for people."""

    wait: Wait
    detail: str
    since: datetime | None = None
    """Since when, if that is known."""
    until: datetime | None = None
    """When it ends by itself, if that is known; of a service, when the next probe may start."""
    tasks: tuple[str, ...] = ()
    """The tasks that it speaks of, by their ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneConditions:
    """What may close a lane on one machine."""

    machine: str
    now: datetime
    limit: int
    """Agents at once on this machine."""
    occupied: Sequence[Occupied] = ()
    rules: Sequence[QueueRule] = ()
    accounts: Mapping[str, AccountState] = field(default_factory=dict[str, AccountState])
    """States of accounts on this machine, by the account's id; an account without one is taken to be signed in."""
    harnesses: Mapping[str, HarnessState] = field(default_factory=dict[str, HarnessState])
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """What machines are called, by their ids."""


def open_lanes(lanes: Sequence[Lane], conditions: LaneConditions) -> list[Lane]:
    """The lanes whose tasks may be claimed at this place now."""
    return [lane for lane in lanes if not closed(lane, conditions)]


def closed(lane: Lane, conditions: LaneConditions) -> tuple[Reason, ...]:
    """Everything that closes a lane at this place, the most lasting reason first; empty if it is open."""
    found = (
        _other_machine(lane, conditions),
        _harness_missing(lane, conditions),
        _signed_out(lane, conditions),
        _service(lane, conditions),
    )
    return (*_paused(lane, conditions), *(reason for reason in found if reason is not None), *_limits(lane, conditions))


def concerns(rule: QueueRule, lane: Lane, machine: str) -> bool:
    """Whether a rule speaks of a lane's tasks when they run on that machine."""
    return rule.name == {
        "all": "",
        "machine": machine,
        "harness": lane.harness,
        "account": lane.account,
        "project": lane.project,
    }.get(rule.scope)


def check_limit(at_once: int | None) -> None:
    """Refuse a concurrency limit that cannot be. None sets no limit. Raises UsageError."""
    if at_once == 0:
        raise UsageError("A limit of 0 would start nothing.", hint="That is `wk queue pause`.")
    if at_once is not None and not 0 < at_once <= MOST_AT_ONCE:
        raise UsageError(
            f"{at_once} is not a concurrency limit.", hint=f"Give a whole number from 1 to {MOST_AT_ONCE}, or `none`."
        )


def describe_scope(scope: str, name: str, names: Mapping[str, str]) -> str:
    """`the queue`, `harness claude`, `machine m2`."""
    return "the queue" if scope == "all" else f"{scope} {names.get(name, name) if scope == 'machine' else name}"


def _paused(lane: Lane, conditions: LaneConditions) -> Iterator[Reason]:
    for rule in conditions.rules:
        if rule.paused and concerns(rule, lane, conditions.machine):
            what = describe_scope(rule.scope, rule.name, conditions.names)
            by = f" by {rule.by}" if rule.by else ""
            part = "" if rule.scope == "all" else f" --{rule.scope} {quote(conditions.names.get(rule.name, rule.name))}"
            yield Reason(wait=Wait.PAUSED, detail=f"{what} is paused{by}; `wk queue resume{part}` resumes it")


def _other_machine(lane: Lane, conditions: LaneConditions) -> Reason | None:
    if lane.machine is None or lane.machine == conditions.machine:
        return None
    return Reason(
        wait=Wait.MACHINE, detail=f"only machine {conditions.names.get(lane.machine, lane.machine)} may run it"
    )


def _harness_missing(lane: Lane, conditions: LaneConditions) -> Reason | None:
    state = conditions.harnesses.get(lane.harness)
    if state is None or state.present:
        return None
    return Reason(
        wait=Wait.HARNESS_MISSING, detail=state.detail or f"the program of harness {lane.harness} is missing here"
    )


def _signed_out(lane: Lane, conditions: LaneConditions) -> Reason | None:
    state = conditions.accounts.get(lane.account)
    if state is None or state.sign_in is not SignIn.OUT:
        return None
    return Reason(
        wait=Wait.SIGNED_OUT, detail=f"account {lane.account} is signed out; `wk account login {lane.account}` signs in"
    )


def _service(lane: Lane, conditions: LaneConditions) -> Reason | None:
    """Its limit is used up, or its service fails; and when a pause is over, one task is the probe for all."""
    state = conditions.accounts.get(lane.account)
    if state is None or phase(state, conditions.now) in {Phase.OPEN, Phase.DUE}:
        return None
    until = rests_until(state, conditions.now)
    probe = () if until is not None or state.probe_run is None else (state.probe_run.rpartition(".")[0],)
    if state.trouble is not None and (until is None or until == state.probe_at):
        detail = f"the service of {lane.account} {SERVICE_DETAILS[state.trouble]}"
        return Reason(wait=Wait.SERVICE, detail=detail, since=state.trouble_since, until=until, tasks=probe)
    detail = f"the limit of account {lane.account} is used up"
    if probe:
        detail = f"the limit of account {lane.account} should be over, and task {probe[0]} tries it"
    return Reason(wait=Wait.QUOTA_UNTIL, detail=detail, until=until, tasks=probe)


SERVICE_DETAILS: Mapping[FailureKind, str] = {
    FailureKind.OVERLOADED: "is overloaded",
    FailureKind.NETWORK: "cannot be reached",
}
"""What is said of a service, by how it fails."""


def probed_accounts(conditions: LaneConditions) -> frozenset[str]:
    """The accounts of which exactly one task may start now, to try the service."""
    return frozenset(
        account for account, state in conditions.accounts.items() if phase(state, conditions.now) is Phase.DUE
    )


def _limits(lane: Lane, conditions: LaneConditions) -> Iterator[Reason]:
    here = sum(each.agents for each in conditions.occupied if each.machine == conditions.machine)
    if here >= conditions.limit:
        yield Reason(wait=Wait.LIMIT, detail=f"{here} of {conditions.limit} agents are running on this machine")
    for rule in conditions.rules:
        if rule.max_running is None or not concerns(rule, lane, conditions.machine):
            continue
        at_work = sum(each.agents for each in conditions.occupied if concerns(rule, each.lane, each.machine))
        if at_work >= rule.max_running:
            what = describe_scope(rule.scope, rule.name, conditions.names)
            yield Reason(wait=Wait.LIMIT, detail=f"{at_work} of {rule.max_running} agents of {what} are running")
