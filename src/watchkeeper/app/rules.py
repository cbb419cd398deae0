"""Pause and resume parts of the queue, and set their concurrency limits. Kept in the database, the same for every machine."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from watchkeeper.domain.lanes import QueueRule
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Of what a rule speaks: one of `lanes.SCOPES`, and which one of these."""

    scope: str
    name: str = ""


def pause(store: Store, clock: Clock, scope: Scope, by: str) -> bool:
    """Pause that part; running tasks continue. False if it is paused already."""
    return _change(store, clock, scope, "queue.paused", by, lambda rule: replace(rule, paused=True))


def resume(store: Store, clock: Clock, scope: Scope, by: str) -> bool:
    """Start tasks of that part again. False if it is not paused."""
    return _change(store, clock, scope, "queue.resumed", by, lambda rule: replace(rule, paused=False))


def limit(store: Store, clock: Clock, scope: Scope, at_once: int | None, by: str) -> bool:
    """Let at most so many agents be at work for that part, on all machines together; None: as many as there is room for. False if that is so already."""
    return _change(store, clock, scope, "queue.limited", by, lambda rule: replace(rule, max_running=at_once))


def find(tx: Tx, scope: Scope) -> QueueRule:
    """The rule about that part; one that says nothing if there is none."""
    found = (rule for rule in tx.rules.all() if (rule.scope, rule.name) == (scope.scope, scope.name))
    return next(found, QueueRule(scope=scope.scope, name=scope.name))


def _change(
    store: Store, clock: Clock, scope: Scope, kind: str, by: str, change: Callable[[QueueRule], QueueRule]
) -> bool:
    at = clock.now()

    def work(tx: Tx) -> bool:
        was = find(tx, scope)
        now = change(was)
        if now == was:
            return False
        tx.rules.put(replace(now, by=by, at=at))
        data: dict[str, object] = {"scope": scope.scope, "name": scope.name, "by": by}
        if kind == "queue.limited":
            data["max_running"] = now.max_running
        _ = tx.journal.append(kind, at, data=data)
        return True

    return store.transact("rule", work)
