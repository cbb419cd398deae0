"""Work of runs, each on a thread of its own: what one of them waits for keeps no other waiting.

    offer(run) ──▶ room? not at work already? not resting? ──▶ a thread ──▶ collect()

At most so many run at once. One that takes too long is abandoned: it takes no more room, its result is used if it comes after all, and until then
nothing else is begun for the same run, so no work is ever done twice at once. The threads keep no process alive.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

MOST = 8
"""Works at once that are not abandoned."""

MOST_APART = 64
"""Works at once that wait for another process, and so use no processor here, beside the others."""

MOST_ABANDONED = 256
"""So many threads may hang; beyond that nothing new is begun, and that is said."""

LATE_S = 5.0
"""A work that takes longer is said to wait, and for what."""

_FIRST_REST_S = 0.25
_LONGEST_REST_S = 30.0


class Step(NamedTuple):
    """What a work is at, as the beginning of a sentence, and what that is about."""

    detail: str
    about: str = ""


@dataclass(slots=True)
class _Work:
    thread: threading.Thread
    began_s: float
    step: Step
    reported: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """A work that takes long."""

    run_id: str
    step: Step

    @property
    def detail(self) -> str:
        """What it waits for, in a sentence that stays true."""
        return f"{self.step.detail} for {LATE_S:g} s and more{f': {self.step.about}' if self.step.about else '.'}"


@dataclass(slots=True)
class _Rest:
    until_s: float
    wait_s: float
    soft: bool = False
    """A hint that something has happened may cut this rest short."""


@dataclass(slots=True, kw_only=True)
class Done(Generic[T]):
    """What came of the works that are over."""

    results: dict[str, T] = field(default_factory=dict[str, T])
    problems: dict[str, Exception] = field(default_factory=dict[str, Exception])


class Workers(Generic[T]):
    """The works of one loop. Safe to use from several threads."""

    def __init__(
        self,
        name: str,
        done: Callable[[bool], None],
        *,
        detail: str,
        abandon_s: float,
        most: int = MOST,
        apart: str | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Hold nothing yet.

        Args:
            name: of the loop.
            done: called, from the work's own thread, whenever one is over, with whether others are running.
            detail: what a work is at that says nothing else, as the beginning of a sentence.
            abandon_s: one that takes longer is abandoned.
            most: works at once that are not abandoned.
            apart: the step, by what it says, in which a work waits for another process: it takes up the room of another kind, of which there is more.
            now_s: a monotonic clock that stops while the machine sleeps.
        """
        self._name = name
        self._usual = Step(detail)
        self._done = done
        self._abandon_s = abandon_s
        self._most = most
        self._apart = apart
        self._now_s = now_s
        self._guard = threading.Condition()
        self._works: dict[str, _Work] = {}
        self._over: Done[T] = Done()
        self._rests: dict[str, _Rest] = {}
        self._heard = 0
        """How often something was heard."""
        self._heard_before: dict[str, int] = {}
        """The same when a run's work began: what is heard after that, the work may have missed."""

    def offer(self, run_id: str, work: Callable[[], T]) -> bool:
        """Begin the work of a run; False if it is running or resting, or if there is no room."""
        with self._guard:
            rest = self._rests.get(run_id)
            if run_id in self._works or not self._has_room() or (rest is not None and self._now_s() < rest.until_s):
                return False
            # What is over and was not collected yet may have changed what is to be done.
            if run_id in self._over.results or run_id in self._over.problems:
                return False
            thread = threading.Thread(
                target=self._run, args=(run_id, work), name=f"wk-{self._name}-{run_id}", daemon=True
            )
            self._works[run_id] = _Work(thread, self._now_s(), self._usual)
            self._heard_before[run_id] = self._heard
            try:
                thread.start()
            except RuntimeError:  # no more threads for us now
                del self._works[run_id]
                return False
            return True

    def on_step(self, run_id: str, detail: str = "", about: str = "") -> None:
        """The current step of a run's work, to explain why it takes long; empty: the usual."""
        with self._guard:
            if run_id in self._works:
                self._works[run_id].step = Step(detail, about) if detail else self._usual
        if detail and detail == self._apart:
            self._done(True)  # noqa: FBT003 - as at the end of a work: there may be room for another one

    def rest(self, run_id: str, for_s: float) -> None:
        """Begin nothing for a run for a while, unless something is heard of it, or was since its work began."""
        with self._guard:
            if self._heard_before.get(run_id, self._heard) != self._heard:
                return
            self._rests[run_id] = _Rest(self._now_s() + for_s, _FIRST_REST_S, soft=True)

    def rouse(self) -> None:
        """Something has happened: look at those too that were left in peace for a while."""
        with self._guard:
            self._heard += 1
            for run_id in [run_id for run_id, rest in self._rests.items() if rest.soft]:
                del self._rests[run_id]

    def collect(self) -> Done[T]:
        """What is over since the last time. A work that failed rests for a growing while."""
        with self._guard:
            over, self._over = self._over, Done()
            for run_id in over.results:
                self._rests.pop(run_id, None)
            for run_id in over.problems:
                before = self._rests.get(run_id)
                wait_s = _FIRST_REST_S if before is None or before.soft else min(_LONGEST_REST_S, before.wait_s * 2)
                self._rests[run_id] = _Rest(self._now_s() + wait_s, wait_s)
            return over

    def late(self) -> list[Late]:
        """The works that have become late since the last time."""
        with self._guard:
            now_s, found = self._now_s(), list[Late]()
            for run_id, work in self._works.items():
                if not work.reported and now_s - work.began_s >= LATE_S:
                    work.reported = True
                    found.append(Late(run_id=run_id, step=work.step))
            return found

    def forget_all_but(self, run_ids: set[str]) -> None:
        """Let runs that are over rest in peace."""
        with self._guard:
            for gone in self._rests.keys() - run_ids:
                del self._rests[gone]
            for gone in self._heard_before.keys() - run_ids - self._works.keys():
                del self._heard_before[gone]

    @property
    def due_s(self) -> float | None:
        """In how many seconds there is something to see to: a work that becomes late or is abandoned, a rest that ends; None: nothing."""
        with self._guard:
            now_s = self._now_s()
            times = [rest.until_s for rest in self._rests.values()]
            for work in self._works.values():
                times += [] if work.reported else [work.began_s + LATE_S]
                times += [work.began_s + self._abandon_s] if now_s - work.began_s < self._abandon_s else []
            return max(0.02, min(times) - now_s) if times else None

    def wait(self, within_s: float) -> bool:
        """Wait until none is running; False if that took too long."""
        with self._guard:
            return self._guard.wait_for(lambda: not self._works, within_s)

    def _has_room(self) -> bool:
        now_s = self._now_s()
        abandoned = apart = 0
        for work in self._works.values():
            if now_s - work.began_s >= self._abandon_s:
                abandoned += 1
            elif work.step.detail == self._apart:
                apart += 1
        busy = len(self._works) - abandoned - apart
        return abandoned < MOST_ABANDONED and apart < MOST_APART and busy < self._most

    def _run(self, run_id: str, work: Callable[[], T]) -> None:
        try:
            result = work()
        except Exception as problem:  # noqa: BLE001 - the top of a thread: whatever it is, it is handed to the loop, which logs it
            with self._guard:
                self._over.problems[run_id] = problem
        else:
            with self._guard:
                self._over.results[run_id] = result
        finally:
            with self._guard:
                del self._works[run_id]
                more = len(self._works) > 1
                self._guard.notify_all()
            self._done(more)
