"""Follow the output of the runs that work now: name their conversation, end early what can only fail, and notice that a service answers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial

from watchkeeper.app.account_seen import see
from watchkeeper.app.read_output import Follower
from watchkeeper.app.record import apply_run
from watchkeeper.app.secrets import redactor_of
from watchkeeper.domain.model import Run, RunState
from watchkeeper.domain.run_events import (
    Answered,
    EarlyFailSeen,
    Lingered,
    RunEvent,
    SessionSeen,
    Stalled,
)
from watchkeeper.domain.service import ANSWERED_EVERY_S, ServiceAnswered, answered_since, observed
from watchkeeper.errors import HarnessError
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.harness import Harness, has_answered
from watchkeeper.ports.runtime import Executions
from watchkeeper.ports.store import Store, Tx

_FIRST_REST_S = 1.0
_LONGEST_REST_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What one pass came to."""

    recorded: bool
    """Something was recorded."""
    problems: Mapping[str, Exception]
    """By run, what kept it from being followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trouble:
    until_s: float
    wait_s: float


@dataclass(slots=True, kw_only=True)
class Followers:
    """One follower for each run that works. Lost with the daemon, and made anew by reading from the beginning."""

    store: Store
    clock: Clock
    executions: Executions
    harness: Callable[[str], Harness]
    answered_grace_s: float = 60.0
    """How long a program may continue after its final answer."""
    stalled_after_s: float = 600.0
    """After how long without anything new a run makes no progress."""
    _by_run: dict[str, Follower] = field(default_factory=dict)
    _troubles: dict[str, _Trouble] = field(default_factory=dict)

    def follows(self, run_ids: Iterable[str]) -> bool:
        """Whether each of these runs is followed already."""
        return all(run_id in self._by_run for run_id in run_ids)

    def follow(self, runs: list[Run], *, only_new: bool = False) -> Followed:
        """Read on in the output of these runs, and forget all others. One that fails keeps no other from being followed, and rests for a growing while.

        `only_new`: only of those that are not followed yet.
        """
        recorded, problems = False, dict[str, Exception]()
        working = {run.id: run for run in runs if run.state is RunState.RUNNING}
        for known in (self._by_run, self._troubles):
            for gone in known.keys() - working.keys():
                del known[gone]
        now_s = self.clock.boottime_s()
        for run in working.values():
            if only_new and run.id in self._by_run:
                continue
            trouble = self._troubles.get(run.id)
            if trouble is not None and now_s < trouble.until_s:
                continue
            try:
                recorded = self._follow(run) or recorded
            except Exception as problem:  # noqa: BLE001 - a reader may come from a plug-in; after any error the other runs continue and this one is tried again
                # What was read of it in part is read anew from the beginning.
                self._by_run.pop(run.id, None)
                wait_s = _FIRST_REST_S if trouble is None else min(_LONGEST_REST_S, trouble.wait_s * 2)
                self._troubles[run.id] = _Trouble(until_s=now_s + wait_s, wait_s=wait_s)
                problems[run.id] = problem
            else:
                self._troubles.pop(run.id, None)
        return Followed(recorded=recorded, problems=problems)

    def _follow(self, run: Run) -> bool:
        follower = self._follower(run)
        started = run.agent.started_at if run.agent is not None else run.claimed_at
        if follower is None:
            return False
        now = self.clock.now()
        grew = follower.advance(started, now)
        grew = follower.advance_errors() or grew
        follower.watch(now, self.clock.boottime_s())
        recorded = self._watch(run, follower) if follower.caught_up else False
        if not grew:
            return recorded
        recorded = self._record_findings(run, follower) or recorded
        answered = follower.take_answer()
        if answered is None or not follower.account:
            return recorded
        return self._record_answer(run, follower.account, answered) or recorded

    def _follower(self, run: Run) -> Follower | None:
        known = self._by_run.get(run.id)
        if known is not None:
            return known
        spec = self.store.read(lambda tx: tx.tasks.get(run.task_id)).spec
        try:
            reader = self.harness(spec.harness).reader(spec)
        except HarnessError:
            return None  # its harness was uninstalled meanwhile; the end is judged without it
        follower = Follower(
            account="" if spec.argv else spec.account_id,
            reader=reader,
            open_log=partial(self.executions.open_log, run, "stdout"),
            open_errors=partial(self.executions.open_log, run, "stderr"),
            waits=spec.leftovers == "wait",
            redactor=cache(partial(redactor_of, self.executions, run, spec)),
            told_session=run.harness_session,
            early_fail_recorded=run.early_fail is not None,
        )
        self._by_run[run.id] = follower
        return follower

    def _record_findings(self, run: Run, follower: Follower) -> bool:
        session = follower.session()
        if session is not None:
            self._apply(run, SessionSeen(harness_session=session), durable=False)
            follower.told_session = session
        early_fail = follower.early_fail()
        if early_fail is not None:
            self._apply(run, EarlyFailSeen(early_fail=early_fail), durable=True)
            follower.early_fail_recorded = True
        return session is not None or early_fail is not None

    def _watch(self, run: Run, follower: Follower) -> bool:
        """Record what changes between the start and the end of a run: its final answer, and whether it makes progress. Nothing else is written."""
        if has_answered(follower.reader):
            if run.answered_at is None:
                self._apply(run, Answered(since=self.clock.now()), durable=False)
                return True
            if follower.lingers_s < self.answered_grace_s or follower.told_lingering or follower.waits:
                return False
            self._apply(run, Lingered(), durable=True)
            follower.told_lingering = True
            return True
        follower.told_lingering = False
        if run.answered_at is not None:
            self._apply(run, Answered(since=None), durable=False)
            return True
        stalled = follower.idle_s >= self.stalled_after_s
        if stalled is (run.stalled_since is not None) or (not stalled and follower.progressed is None):
            return False
        since = follower.progressed or self.clock.now() - timedelta(seconds=follower.idle_s)
        self._apply(run, Stalled(since=since if stalled else None), durable=False)
        return True

    def _record_answer(self, run: Run, account: str, at: datetime) -> bool:
        """Record that the service answers, if that is worth a record; True if it lets tasks of the account continue."""
        now = self.clock.now()
        seen = ServiceAnswered(run_id=run.id, at=at, now=now)
        known = self.store.read(lambda tx: tx.accounts.states(run.machine)).get(account)
        if known is not None and answered_since(known, at - timedelta(seconds=ANSWERED_EVERY_S), now):
            after = observed(known, seen)
            if replace(after, answered_at=known.answered_at) == known:
                return False
        return self.store.transact("answered", lambda tx: see(tx, account, run.machine, seen, now), durable=False)

    def _apply(self, seen: Run, event: RunEvent, *, durable: bool) -> None:
        def work(tx: Tx) -> None:
            run = tx.runs.get(seen.id)
            if run.fence == seen.fence and run.state is RunState.RUNNING:
                _ = apply_run(tx, run, event, self.clock.now())

        self.store.transact("followed", work, durable=durable)
