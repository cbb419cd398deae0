"""Pause and resume parts of the queue, and set their concurrency limits. Kept in the database, the same for every machine."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from watchkeeper.app import account_choice, machines
from watchkeeper.app.parts import Caller, Parts
from watchkeeper.app.secrets import refuse_words
from watchkeeper.domain.lanes import QueueRule, check_limit
from watchkeeper.domain.plain_text import clean
from watchkeeper.errors import NotFound, UsageError
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRequest:
    """Which part of the queue a person means. At most one of these names it; without any it is the whole queue."""

    machine: str | None = None
    """What `machines.find` understands."""
    harness: str | None = None
    account: str | None = None
    """`HARNESS:NAME`."""
    project: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRequest:
    """How many agents may be at work for a part of the queue."""

    part: PartRequest
    at_once: int | None
    """On all machines together; None: as many as there is room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """The rule about a part of the queue as it stands now."""

    rule: QueueRule
    changed: bool
    """False: it was so already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Of what a rule speaks: one of `lanes.SCOPES`, and which one of these."""

    scope: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a rule becomes."""

    kind: str
    """What the journal calls it."""
    apply: Callable[[QueueRule], QueueRule]


PAUSED = Change(kind="queue.paused", apply=lambda rule: replace(rule, paused=True))
RESUMED = Change(kind="queue.resumed", apply=lambda rule: replace(rule, paused=False))


def limited(at_once: int | None) -> Change:
    """Another concurrency limit."""
    return Change(kind="queue.limited", apply=lambda rule: replace(rule, max_running=at_once))


def pause(parts: Parts, caller: Caller, request: PartRequest) -> RuleResult:
    """Pause that part; running tasks continue. Raises as `resolve`, and BadTask where the name holds a secret."""
    return put(parts.store, parts.clock, caller.by, _new(parts, caller, request), PAUSED)


def resume(parts: Parts, caller: Caller, request: PartRequest) -> RuleResult:
    """Start tasks of that part again. Raises as `resolve`."""
    return put(parts.store, parts.clock, caller.by, resolve(parts, request), RESUMED)


def limit(parts: Parts, caller: Caller, request: LimitRequest) -> RuleResult:
    """Set or lift the concurrency limit of that part. Raises as `pause`, and UsageError where the limit is out of range."""
    check_limit(request.at_once)
    return put(parts.store, parts.clock, caller.by, _new(parts, caller, request.part), limited(request.at_once))


def resolve(parts: Parts, request: PartRequest) -> Scope:
    """The part that is meant.

    Raises:
        UsageError: several were named, or one without a name.
        NotFound: there is no such account or machine.
        UnknownHarness: there is no such harness.
    """
    named = {"machine": request.machine, "harness": request.harness, "account": request.account}
    given = [(scope, name) for scope, name in (named | {"project": request.project}).items() if name is not None]
    if len(given) > 1:
        raise UsageError("A rule is about one part of the queue.", hint="Name one of them; make another rule for each.")
    if not given:
        return Scope(scope="all")
    scope, name = given[0]
    if not name.strip():
        raise UsageError(f"The name of the {scope} is empty.", hint="Leave the option away for the whole queue.")
    if scope == "harness":
        _ = parts.harness(name)
    elif scope == "machine":
        name = machines.find(parts, name)
    elif scope == "account":
        if not all(name.partition(":")):
            raise NotFound(f"'{clean(name)[:60]}' is no account.", hint="Accounts are called HARNESS:NAME.")
        _ = account_choice.named(parts, name)
    return Scope(scope=scope, name=name)


def _new(parts: Parts, caller: Caller, request: PartRequest) -> Scope:
    """The part, for a rule that keeps its name. Raises as `resolve`, and BadTask where the name holds a secret."""
    scope = resolve(parts, request)
    refuse_words([("The project's name", scope.name)], caller.environ)
    return scope


def find(tx: Tx, scope: Scope) -> QueueRule:
    """The rule about that part, or an empty rule."""
    found = (rule for rule in tx.rules.all() if (rule.scope, rule.name) == (scope.scope, scope.name))
    return next(found, QueueRule(scope=scope.scope, name=scope.name))


def put(store: Store, clock: Clock, by: str, scope: Scope, change: Change) -> RuleResult:
    """Change the rule about a part of the queue in the name of the person `by`."""
    at = clock.now()

    def work(tx: Tx) -> RuleResult:
        was = find(tx, scope)
        now = change.apply(was)
        if now == was:
            return RuleResult(rule=was, changed=False)
        now = replace(now, by=by, at=at)
        tx.rules.put(now)
        data: dict[str, object] = {"scope": scope.scope, "name": scope.name, "by": by}
        if now.max_running != was.max_running:
            data["max_running"] = now.max_running
        _ = tx.journal.append(change.kind, at, data=data)
        return RuleResult(rule=now, changed=True)

    return store.transact("rule", work)
