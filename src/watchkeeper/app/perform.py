"""Do what the outbox says. Each effect is safe to do twice; its row goes in the transaction that records what happened (R1)."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from watchkeeper.app import enforce
from watchkeeper.app.end import EndAnswer, end_settled
from watchkeeper.app.record import apply_run, journal_sweep
from watchkeeper.app.remove import Forget, discard
from watchkeeper.app.secrets import hide_sweep, redactor_of
from watchkeeper.app.side_by_side import side_by_side
from watchkeeper.domain.effects import EndExecution, ForgetEnvironment, RemoveExecution, StartShim
from watchkeeper.domain.evidence import DecidedBy
from watchkeeper.domain.model import UNDECIDED_RUN_STATES, Proof, Run, RunState
from watchkeeper.domain.run_events import (
    RunEvent,
    ShimStarted,
)
from watchkeeper.domain.side_command import CommandKind
from watchkeeper.errors import DatabaseUnusable, NotFound, RecordTorn, WatchkeeperError
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.environment import Environments
from watchkeeper.ports.runtime import Runtime, SweepReport
from watchkeeper.ports.store import OutboxRow, Store, Tx

MAX_START_ATTEMPTS = 5
"""How often the system may refuse to start a shim before the run is declared never launched."""

MAX_END_ATTEMPTS = 12
"""How often the end of a run that is settled already is tried. With the growing waits that is half a minute."""

SILENT_ATTEMPTS = 12
"""How often a shim is asked in vain before that is said and it is asked more seldom."""

_BATCH = 500
_AT_ONCE = 32
"""Shims that are asked at once."""
_NONE_KNOWN: Mapping[str, Run] = {}
_SELDOM_S = 30.0
_ENDS_S = 2.0
"""After so long a pass begins no further end of an execution: whatever is to be started comes first, and an end may take seconds."""

_REMOVALS_S = 1.0
"""After so long a pass begins no further removal: a repository may take seconds to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """The end of a settled run that came to nothing."""

    run_id: str
    detail: str


@dataclass(slots=True, kw_only=True)
class Performed:
    """What one pass came to."""

    touched: list[str] = field(default_factory=list[str])
    """The runs that something was done for."""
    acknowledged: set[str] = field(default_factory=set[str])
    """Those of them whose shims have received the request to end and act on it: they tell when there is something to see."""
    given_up: list[GivenUp] = field(default_factory=list[GivenUp])
    silent: list[str] = field(default_factory=list[str])
    """Runs whose shims have not answered for so long that a person should know."""


class _Act(NamedTuple):
    """An effect that was done and is not recorded yet."""

    row: OutboxRow
    run_id: str
    record: Callable[[Tx], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Performer:
    """Performs effects."""

    store: Store
    clock: Clock
    runtime: Runtime
    environments: Environments
    machine: str
    """Whose effects are done."""
    forget: Forget
    """Lets go of what repositories keep of a run."""

    def perform_due(self) -> Performed:
        """Do everything that is due. What fails is tried again later, with a growing wait.

        Raises:
            OSError: the system failed at one effect or several, each of which stays in the outbox; all others were done.
            WatchkeeperError: what one effect came to could not be recorded; it stays in the outbox, and all others were done.
        """
        now, began = self.clock.now(), self.clock.boottime_s()
        done = Performed()
        problems: list[OSError] = []
        refusals: list[WatchkeeperError] = []
        due = self.store.read(lambda tx: tx.outbox.due(now, _BATCH, self.machine))
        ends = [row for row in due if isinstance(row.effect, EndExecution)]
        forgets = [row for row in due if isinstance(row.effect, ForgetEnvironment)]
        # Nothing that is slow goes before a start; what is left over is due at the next pass, behind the starts that have come by then.
        for row in due:
            if not isinstance(row.effect, EndExecution | ForgetEnvironment | RemoveExecution):
                self._try(row, done, problems)
        forgotten = [act for row in forgets if (act := self._act(row, done, problems))]
        refusals += self._record(forgotten, durable=False)
        # A shim that does not answer costs two seconds: it keeps none of the others from being asked.
        first = sorted(ends, key=lambda row: row.attempts)
        for some in (first[at : at + _AT_ONCE] for at in range(0, len(first), _AT_ONCE)):
            if self.clock.boottime_s() - began > _ENDS_S:
                break
            acts: list[_Act] = []
            known = self._known(some)

            def record(acts: list[_Act] = acts) -> None:
                ready = [acts.pop() for _ in range(len(acts))]
                refusals.extend(self._record(ready, durable=True))
                done.touched.extend(act.run_id for act in ready)

            try:
                side_by_side([partial(self._collect, row, done, problems, acts, known) for row in some], record)
            finally:
                record()
        self._remove(due, done, problems)
        if refusals:
            raise refusals[0]
        if problems and not done.touched:
            raise problems[0]
        return done

    def _remove(self, due: Sequence[OutboxRow], done: Performed, problems: list[OSError]) -> None:
        """Remove executions, as many as there is time for; at least one, so that none waits forever. A repository that does not answer holds up no start."""
        began = self.clock.boottime_s()
        for row in due:
            if isinstance(row.effect, RemoveExecution):
                self._try(row, done, problems)
                if self.clock.boottime_s() - began > _REMOVALS_S:
                    return  # the others are due at the next pass, which comes soon

    def _try(self, row: OutboxRow, done: Performed, problems: list[OSError]) -> None:
        try:
            run_id = self._perform(row)
        except RecordTorn:
            self._again(row, _SELDOM_S)  # what it is about cannot be read, which is on record; the others are done
            return
        except OSError as problem:
            self._again(row)
            problems.append(problem)
            return
        if run_id is not None:
            done.touched.append(run_id)

    def _perform(self, row: OutboxRow) -> str | None:
        match row.effect:
            case StartShim(run_id=run_id, fence=fence):
                self._start(row, self._run(run_id, fence))
                return run_id
            case RemoveExecution() as effect:
                if not discard(self.store, self.clock, self.runtime.executions(), self.forget, row, effect):
                    self._again(row)
                return None
            case _:
                return None  # recorded together with others of its kind

    def _collect(
        self,
        row: OutboxRow,
        done: Performed,
        problems: list[OSError],
        acts: list["_Act"],
        known: Mapping[str, Run],
    ) -> None:
        act = self._act(row, done, problems, known)
        if act is not None:
            acts.append(act)

    def _act(
        self, row: OutboxRow, done: Performed, problems: list[OSError], known: Mapping[str, Run] = _NONE_KNOWN
    ) -> "_Act | None":
        """Do an effect whose record is written together with others; None if it failed and is tried again."""
        try:
            match row.effect:
                case EndExecution(run_id=run_id, fence=fence) as effect:
                    run = self._run(run_id, fence, known)
                    if run is not None and run.state is RunState.SETTLED:
                        return _Act(row, run_id, self._end_settled(row, run, effect, done))
                    return _Act(row, run_id, self._end(row, run, effect, done))
                case ForgetEnvironment(environment_id=environment_id):
                    self.environments.forget(environment_id)
                case _:
                    pass
        except RecordTorn:
            self._again(row, _SELDOM_S)
            return None
        except OSError as problem:
            self._again(row)
            problems.append(problem)
            return None
        return _Act(row, "", _as_done(row))

    def _record(self, acts: list["_Act"], *, durable: bool) -> list[WatchkeeperError]:
        """Record what was done in one transaction: a transaction for each would cost more than most of the effects.

        Where that is refused, each is recorded by itself, so that one keeps no other from being recorded. Returns the refusals; what was refused is tried
        again later. Raises DatabaseUnusable: nothing can be recorded now.
        """

        def work(tx: Tx) -> None:
            for act in acts:
                act.record(tx)

        if not acts:
            return []
        try:
            self.store.transact(f"done_{acts[0].row.effect.kind}", work, durable=durable)
        except WatchkeeperError as refusal:
            if isinstance(refusal, DatabaseUnusable) and not isinstance(refusal, RecordTorn):
                raise
            if len(acts) > 1:
                return [each for act in acts for each in self._record([act], durable=durable)]
            self._again(acts[0].row, _SELDOM_S)
            return [] if isinstance(refusal, RecordTorn) else [refusal]
        return []

    def _known(self, rows: Sequence[OutboxRow]) -> Mapping[str, Run]:
        """The runs that these effects are to end, by id, in one read; none if one of them cannot be read: then each effect reads its own."""

        def found(tx: Tx) -> list[Run]:
            runs: list[Run] = []
            for row in rows:
                if isinstance(row.effect, EndExecution):
                    with contextlib.suppress(NotFound):
                        runs.append(tx.runs.get(row.effect.run_id))
            return runs

        try:
            return {run.id: run for run in self.store.read(found)}
        except RecordTorn:
            return _NONE_KNOWN

    def _run(self, run_id: str, fence: int, known: Mapping[str, Run] = _NONE_KNOWN) -> Run | None:
        try:
            run = known.get(run_id) or self.store.read(lambda tx: tx.runs.get(run_id))
        except NotFound:
            return None
        return run if run.fence == fence else None

    def _start(self, row: OutboxRow, run: Run | None) -> None:
        if run is None or run.state is not RunState.PREPARED:
            self._done(row)
            return
        try:
            self.runtime.start_shim(run)
        except OSError as refusal:
            if row.attempts + 1 >= MAX_START_ATTEMPTS:
                # From here on no shim of this run may launch; the next look at the evidence says so.
                _ = self.runtime.take_decision(run, DecidedBy.RECOVERY, refused=refusal.errno)
                self._done(row)
            else:
                self._again(row)
            return
        self._done(row, run, ShimStarted(at=self.clock.now()))

    def _end(self, row: OutboxRow, run: Run | None, effect: EndExecution, done: Performed) -> Callable[[Tx], None]:
        """Returns what records it."""
        if run is None or not self._is_to_end(run) or self._is_checked(run):
            return _as_done(row)
        if run.state in UNDECIDED_RUN_STATES and self.runtime.take_decision(run, DecidedBy.STOP):
            # Nothing was launched and nothing will be; the next look at the evidence settles it.
            return _as_done(row)
        made = enforce.step(self.runtime, run, effect, lambda sweep: self._hide(run, sweep))
        wait_s = _wait_s(row) if row.attempts + 1 < SILENT_ATTEMPTS else _SELDOM_S
        if made.done:
            done.acknowledged.add(run.id)
        elif row.attempts + 1 == SILENT_ATTEMPTS:
            done.silent.append(run.id)
        return lambda tx: enforce.record(tx, row, run, made, self.clock, wait_s)

    def _is_to_end(self, run: Run) -> bool:
        """A run that was held after its task had been told to stop is ended too; that settles it."""
        if run.state is RunState.HELD:
            return self.store.read(lambda tx: tx.tasks.get(run.task_id)).stop is not None
        return run.state in UNDECIDED_RUN_STATES | {RunState.RUNNING, RunState.ENDED}

    def _is_checked(self, run: Run) -> bool:
        """Nothing of the agent is left once its checks run; what settles the run ends those."""
        return run.state is RunState.ENDED and bool(
            self.store.read(lambda tx: tx.commands.of_run(run.id, CommandKind.CHECK))
        )

    def _end_settled(self, row: OutboxRow, run: Run, effect: EndExecution, done: Performed) -> Callable[[Tx], None]:
        """A person settled it, and something of it may be alive all the same. The run stays as it is; what was done is history.

        Returns what records it.
        """
        if run.proof in {Proof.PROVEN, Proof.SWEPT} or run.directory is None:
            return _as_done(row)
        try:
            answer = end_settled(self.runtime, run, effect, lambda sweep: self._hide(run, sweep))
        except OSError as problem:
            answer = EndAnswer(over=False, detail=str(problem))
        gives_up = not answer.over and row.attempts + 1 >= MAX_END_ATTEMPTS

        def work(tx: Tx) -> None:
            at = self.clock.now()
            if answer.sweep is not None and (answer.sweep.ended or answer.over or gives_up):
                journal_sweep(tx, run, answer.sweep, at)
            if gives_up:
                told: dict[str, object] = {"attempts": row.attempts + 1, "reason": answer.detail}
                _ = tx.journal.append("run.end_given_up", at, task_id=run.task_id, run=run, data=told)
            elif answer.over and answer.sweep is None:
                _ = tx.journal.append("run.end_told", at, task_id=run.task_id, run=run, data={"reason": answer.detail})
            if answer.over or gives_up:
                tx.outbox.done(row.id)
            else:
                tx.outbox.again(row.id, at + timedelta(seconds=_wait_s(row)))

        if gives_up:
            done.given_up.append(GivenUp(run_id=run.id, detail=answer.detail))
        return work

    def _hide(self, run: Run, sweep: SweepReport) -> SweepReport:
        spec = self.store.read(lambda tx: tx.tasks.get(run.task_id)).spec
        return hide_sweep(lambda: redactor_of(self.runtime.executions(), run, spec), sweep) or sweep

    def _done(self, row: OutboxRow, run: Run | None = None, event: RunEvent | None = None) -> None:
        def work(tx: Tx) -> None:
            tx.outbox.done(row.id)
            if run is None or event is None:
                return
            now = tx.runs.get(run.id)
            if now.fence == run.fence and now.state is not RunState.SETTLED:
                _ = apply_run(tx, now, event, self.clock.now())

        # All of these are harmless twice, so a power cut that forgets the record costs nothing; and it comes to the disk before any later durable one.
        self.store.transact(f"done_{row.effect.kind}", work, durable=False)

    def _again(self, row: OutboxRow, wait_s: float | None = None) -> None:
        not_before = self.clock.now() + timedelta(seconds=_wait_s(row) if wait_s is None else wait_s)
        self.store.transact("again", lambda tx: tx.outbox.again(row.id, not_before), durable=False)


def _as_done(row: OutboxRow) -> Callable[[Tx], None]:
    def record(tx: Tx) -> None:
        tx.outbox.done(row.id)

    return record


def _wait_s(row: OutboxRow) -> float:
    return min(5.0, 0.05 * (1 << min(row.attempts, 10)))
