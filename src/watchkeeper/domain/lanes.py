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
    says: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason why a task waits, in a sentence for people."""

    wait: Wait
    says: str
    since: datetime | None = None
    """Since when, if that is known."""
    until: datetime | None = None
    """When it ends by itself, if that is known; of a service, when the next probe may start."""
    tasks: tuple[str, ...] = ()
    """The tasks that it speaks of, by their ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the question is asked: a machine, with everything that may close a lane there."""

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


def open_lanes(lanes: Sequence[Lane], place: Place) -> list[Lane]:
    """The lanes whose tasks may be claimed at this place now."""
    return [lane for lane in lanes if not closed(lane, place)]


def closed(lane: Lane, place: Place) -> tuple[Reason, ...]:
    """Everything that closes a lane at this place, the most lasting reason first; empty if it is open."""
    found = (
        _other_machine(lane, place),
        _harness_missing(lane, place),
        _signed_out(lane, place),
        _service(lane, place),
    )
    return (*_paused(lane, place), *(reason for reason in found if reason is not None), *_limits(lane, place))


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


def scope_says(scope: str, name: str, names: Mapping[str, str]) -> str:
    """`the queue`, `harness claude`, `machine m2`."""
    return "the queue" if scope == "all" else f"{scope} {names.get(name, name) if scope == 'machine' else name}"


def _paused(lane: Lane, place: Place) -> Iterator[Reason]:
    for rule in place.rules:
        if rule.paused and concerns(rule, lane, place.machine):
            what = scope_says(rule.scope, rule.name, place.names)
            by = f" by {rule.by}" if rule.by else ""
            part = "" if rule.scope == "all" else f" --{rule.scope} {quote(place.names.get(rule.name, rule.name))}"
            yield Reason(wait=Wait.PAUSED, says=f"{what} is paused{by}; `wk queue resume{part}` resumes it")


def _other_machine(lane: Lane, place: Place) -> Reason | None:
    if lane.machine is None or lane.machine == place.machine:
        return None
    return Reason(wait=Wait.MACHINE, says=f"only machine {place.names.get(lane.machine, lane.machine)} may run it")


def _harness_missing(lane: Lane, place: Place) -> Reason | None:
    state = place.harnesses.get(lane.harness)
    if state is None or state.present:
        return None
    return Reason(
        wait=Wait.HARNESS_MISSING, says=state.says or f"the program of harness {lane.harness} is missing here"
    )


def _signed_out(lane: Lane, place: Place) -> Reason | None:
    state = place.accounts.get(lane.account)
    if state is None or state.sign_in is not SignIn.OUT:
        return None
    return Reason(
        wait=Wait.SIGNED_OUT, says=f"account {lane.account} is signed out; `wk account login {lane.account}` signs in"
    )


def _service(lane: Lane, place: Place) -> Reason | None:
    """Its limit is used up, or its service fails; and when a pause is over, one task is the probe for all."""
    state = place.accounts.get(lane.account)
    if state is None or phase(state, place.now) in {Phase.OPEN, Phase.DUE}:
        return None
    until = rests_until(state, place.now)
    probe = () if until is not None or state.probe_run is None else (state.probe_run.rpartition(".")[0],)
    if state.trouble is not None and (until is None or until == state.probe_at):
        says = f"the service of {lane.account} {SERVICE_SAYS[state.trouble]}"
        return Reason(wait=Wait.SERVICE, says=says, since=state.trouble_since, until=until, tasks=probe)
    says = f"the limit of account {lane.account} is used up"
    if probe:
        says = f"the limit of account {lane.account} should be over, and task {probe[0]} tries it"
    return Reason(wait=Wait.QUOTA_UNTIL, says=says, until=until, tasks=probe)


SERVICE_SAYS: Mapping[FailureKind, str] = {
    FailureKind.OVERLOADED: "is overloaded",
    FailureKind.NETWORK: "cannot be reached",
}
"""What is said of a service, by how it fails."""


def probed_accounts(place: Place) -> frozenset[str]:
    """The accounts of which exactly one task may start now, to try the service."""
    return frozenset(account for account, state in place.accounts.items() if phase(state, place.now) is Phase.DUE)


def _limits(lane: Lane, place: Place) -> Iterator[Reason]:
    here = sum(each.agents for each in place.occupied if each.machine == place.machine)
    if here >= place.limit:
        yield Reason(wait=Wait.LIMIT, says=f"{here} of {place.limit} agents are running on this machine")
    for rule in place.rules:
        if rule.max_running is None or not concerns(rule, lane, place.machine):
            continue
        at_work = sum(each.agents for each in place.occupied if concerns(rule, each.lane, each.machine))
        if at_work >= rule.max_running:
            what = scope_says(rule.scope, rule.name, place.names)
            yield Reason(wait=Wait.LIMIT, says=f"{at_work} of {rule.max_running} agents of {what} are running")
