"""Several decisions in one transaction: a commit costs more than most decisions, so those that wait for a commit at the same time share one.

    decisions ─▶ one transaction ──refused──▶ each in a transaction of its own
                      └─the time is over──▶ commit; the rest in the next one

A decision is a plain function that may run twice, so a refused transaction is safe to repeat one by one: the failure of one decision is its own.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar, cast

from watchkeeper.errors import DatabaseUnusable, RecordTorn
from watchkeeper.ports.damage import Met
from watchkeeper.ports.store import Store, Tx

T = TypeVar("T")

LONGEST_S = 0.02
"""After so many seconds a shared transaction takes up no further decision: other writers wait meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionResult(Generic[T]):
    """What one decision came to: a value, or the problem for which nothing of it was recorded."""

    value: T | None = None
    problem: Exception | None = None

    def get(self) -> T:
        """The value. Raises the problem if there is one."""
        if self.problem is not None:
            raise self.problem
        return cast("T", self.value)


def transact_all(
    store: Store, name: str, works: Sequence[Callable[[Tx], T]], *, durable: bool = True
) -> list[DecisionResult[T]]:
    """Make all decisions, in their order, in as few transactions as take `LONGEST_S` each; returns the result of each. Never raises.

    When the database cannot be used, the decisions that are left fail without another attempt.
    """
    results: list[DecisionResult[T]] = []
    while len(results) < len(works):
        left = works[len(results) :]
        try:
            made = _made_together(store, name, left, durable=durable)
        except Exception as problem:  # noqa: BLE001 - the problem of one decision or of all; it is in the result of each that it concerns
            made = _made_apart(store, name, left, problem, durable=durable)
        results += made
    return results


def _made_together(
    store: Store, name: str, works: Sequence[Callable[[Tx], T]], *, durable: bool
) -> list[DecisionResult[T]]:
    """Make the first decisions in one transaction, at least one. Raises what one of them raised: then nothing was recorded."""

    def work(tx: Tx) -> list[DecisionResult[T]]:
        made: list[DecisionResult[T]] = []
        until = time.monotonic() + LONGEST_S
        for each in works:
            made.append(DecisionResult(value=each(tx)))
            if time.monotonic() >= until:
                break
        return made

    return store.transact(name, work, durable=durable)


def _made_apart(
    store: Store, name: str, works: Sequence[Callable[[Tx], T]], problem: Exception, *, durable: bool
) -> list[DecisionResult[T]]:
    """After the `problem` of a shared transaction: make each in one of its own, until the database cannot be used. Its problem is that of all."""
    if len(works) == 1 or is_away(problem):
        return [DecisionResult(problem=problem) for _ in works]
    results: list[DecisionResult[T]] = []
    for each in works:
        try:
            results.append(DecisionResult(value=store.transact(name, each, durable=durable)))
        except Exception as own:  # noqa: BLE001 - as above
            results.append(DecisionResult(problem=own))
            if is_away(own):
                break
    return results


def is_away(problem: Exception) -> bool:
    """Whether it concerns the database and not one record."""
    return isinstance(problem, DatabaseUnusable) and not isinstance(problem, RecordTorn)


class _Waiting(Generic[T]):
    """A decision that waits for its transaction."""

    def __init__(self, work: Callable[[Tx], T]) -> None:
        self.work = work
        self.result: DecisionResult[T] | None = None


class JoinedStore:
    """The port's `Store` for many threads: transactions of one name that wait for their turn at the same time become one."""

    def __init__(self, store: Store) -> None:
        """Write to `store`."""
        self._store = store
        self._guard = threading.Lock()
        self._turn = threading.Lock()
        self._queues: dict[tuple[str, bool], deque[_Waiting[object]]] = {}

    def transact(self, name: str, work: Callable[[Tx], T], *, durable: bool = True) -> T:
        """As the store does; what other threads wait to record under the same name is recorded with it."""
        mine = _Waiting(work)
        key = (name, durable)
        with self._guard:
            self._queues.setdefault(key, deque()).append(cast("_Waiting[object]", mine))
        with self._turn:
            # The first thread whose turn it is works for all that wait by then; they find their results.
            if mine.result is None:
                self._record(key)
        if mine.result is None:
            raise AssertionError("a decision was taken off the queue without a result")
        return mine.result.get()

    @property
    def waiting(self) -> int:
        """How many decisions wait to be recorded."""
        with self._guard:
            return sum(map(len, self._queues.values()))

    def _record(self, key: tuple[str, bool]) -> None:
        with self._guard:
            batch = list(self._queues.pop(key))
        results = transact_all(self._store, key[0], [each.work for each in batch], durable=key[1])
        for each, result in zip(batch, results, strict=True):
            each.result = result

    def read(self, work: Callable[[Tx], T]) -> T:
        """As the store does."""
        return self._store.read(work)

    def changed(self, since: int) -> tuple[bool, int]:
        """As the store does."""
        return self._store.changed(since)

    @property
    def met(self) -> Met:
        """As the store says."""
        return self._store.met

    @property
    def is_shared(self) -> bool:
        """As the store says."""
        return self._store.is_shared

    def time(self) -> datetime | None:
        """As the store says."""
        return self._store.time()

    def check(self, *, thorough: bool = False) -> None:
        """As the store does."""
        self._store.check(thorough=thorough)

    def close(self) -> None:
        """Let go of the database."""
        self._store.close()
