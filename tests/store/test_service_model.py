"""Random lives of tasks, agents and daemons while services fail and limits end: never two probes, never a lane that stays closed forever.

What a daemon does in several transactions is done by several rules, so that others come in between, or the rest never comes: that is a crash there.
"""

import contextlib

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from runtimes.stage import SteppedClock
from support.bench import Bench
from support.stores import check, fresh_place, open_place

from watchkeeper.app.claim import next_check_at
from watchkeeper.domain.model import EndReason, Run, RunState, TaskState
from watchkeeper.domain.service import Phase, phase, rests_until
from watchkeeper.domain.wait import Wait
from watchkeeper.errors import Refused

ANY = st.integers(0, 10**6)
ACCOUNTS = ("own", "work")
LIMIT = 3
KINDS = st.sampled_from(
    [None, "overloaded", "overloaded", "network", "quota", "crash", "context_full", "nothing_recorded"]
)
A_MONTH_S = 36 * 86400.0


class Services(RuleBasedStateMachine):
    """One database, one machine, two accounts."""

    kind = "sqlite"

    @initialize()
    def begin(self) -> None:
        self.fresh = fresh_place(self.kind)
        self.where = self.fresh.__enter__()
        self.bench = Bench(open_place(self.where), SteppedClock(), limit=LIMIT)
        self.added = 0
        self.closure: dict[str, int] = dict.fromkeys(ACCOUNTS, 0)
        self.probes: dict[str, tuple[str, int]] = {}
        """By run that was claimed as a probe, its account, and which closure of it that was."""

        for number in range(6):
            self.add(ACCOUNTS[number % 2], 0)

    def pick(self, number: int, *states: RunState) -> Run | None:
        found = [run for run in self.bench.store.read(lambda tx: tx.runs.live()) if run.state in states]
        return found[number % len(found)] if found else None

    def phase(self, account: str) -> Phase:
        return phase(self.bench.state(f"demo:{account}"), self.bench.clock.now())

    # People

    @rule(account=st.sampled_from(ACCOUNTS), priority=st.integers(-1, 1))
    def add(self, account: str, priority: int) -> None:
        _ = self.bench.add(f"t{self.added}", account=account, priority=priority)
        self.added += 1

    @precondition(lambda self: self.added)
    @rule(number=ANY)
    def stop(self, number: int) -> None:
        self.bench.stop(f"t{number % self.added}")

    @precondition(lambda self: self.added)
    @rule(number=ANY)
    def retry(self, number: int) -> None:
        name = f"t{number % self.added}"
        if self.bench.task(name).state in {TaskState.RUNNING, TaskState.HELD}:
            return
        with contextlib.suppress(Refused):  # it waits already, and there is nothing to hurry
            _ = self.bench.retry(name)

    # The daemon

    @rule(number=ANY, kind=st.sampled_from(["overloaded", "network", "quota"]))
    def strike(self, number: int, kind: str) -> None:
        """An agent at work ends by the service, and is settled; if none is, one is claimed first. What often comes in one go."""
        run = self.pick(number, RunState.RUNNING)
        if run is None:
            self.claim()
            run = self.pick(number, RunState.RESERVED)
            if run is None:
                return
            run = self.bench.begin(run)
        self.end(number, kind, 1)
        self.settle(number)

    @rule(account=st.sampled_from(ACCOUNTS), how=st.sampled_from(["", "", "never", "crash", "stop", "overloaded"]))
    def pause_ends(self, account: str, how: str) -> None:
        """Time passes until a probe is due, and two claims come at once; perhaps one of those that are reserved then ends."""
        until = rests_until(self.bench.state(f"demo:{account}"), self.bench.clock.now())
        if until is None:
            return
        self.bench.pass_until(until)
        self.claim()
        self.claim()
        run = self.pick(-1, RunState.RESERVED)
        if run is None or not how:
            return
        if how == "stop":
            self.bench.stop(run.task_id)
        if how in {"stop", "never"}:
            _ = self.bench.never(run)
        elif how == "crash":
            _ = self.bench.exits(self.bench.begin(run))
        else:
            _ = self.bench.ends(self.bench.begin(run), how)

    @rule()
    def claim(self) -> None:
        before = {account: self.phase(account) for account in ACCOUNTS}
        run = self.bench.claim()
        if run is None:
            return
        account = self.bench.task(run.task_id).spec.account
        assert before[account] in {Phase.OPEN, Phase.DUE}
        if before[account] is Phase.DUE:
            self.probes[run.id] = account, self.closure[account]

    @rule()
    def follow(self) -> None:
        self.bench.follow()

    @rule(number=ANY)
    def settle(self, number: int) -> None:
        run = self.pick(number, RunState.ENDED)
        if run is not None:
            _ = self.bench.settler.settle(run.id)

    @rule(number=ANY)
    def hold(self, number: int) -> None:
        run = self.pick(number, RunState.RUNNING)
        if run is not None:
            self.bench.hold(run)

    @rule(number=ANY)
    def regain(self, number: int) -> None:
        run = self.pick(number, RunState.HELD)
        if run is not None:
            self.bench.regain(run)
            _ = self.probes.pop(run.id, None)  # another may have taken its place meanwhile

    @rule()
    def restart(self) -> None:
        self.bench.store.close()
        self.bench.reopen(open_place(self.where))

    # Agents

    @rule(number=ANY, launched=st.booleans())
    def launch(self, number: int, launched: bool) -> None:
        run = self.pick(number, RunState.RESERVED)
        if run is not None and launched:
            _ = self.bench.begin(run)
        elif run is not None:
            _ = self.bench.never(run)

    @rule(number=ANY)
    def speak(self, number: int) -> None:
        run = self.pick(number, RunState.RUNNING)
        if run is not None:
            self.bench.detail(run, text="I go on.")

    @rule(number=ANY, kind=KINDS, hours=st.integers(-1, 3))
    def end(self, number: int, kind: str | None, hours: int) -> None:
        run = self.pick(number, RunState.RUNNING)
        if run is None:
            return
        until = self.bench.clock.now().replace(microsecond=0).isoformat() if hours < 0 else None
        if kind == "quota" and until is None:
            at = self.bench.clock.now()
            until = at.replace(hour=min(23, at.hour + hours)).isoformat()
        if kind != "crash":
            self.bench.detail(
                run, "result", ok=kind is None, kind=kind, text="So.", until=until if kind == "quota" else None
            )
        self.bench.dies(run, EndReason.EXITED)

    # Time

    @rule(seconds=st.sampled_from([0.5, 5, 31, 120, 1000, 4 * 3600]))
    def wait(self, seconds: float) -> None:
        self.bench.clock.step(seconds)

    @rule(seconds=st.sampled_from([1, 90, 7200]))
    def set_back(self, seconds: float) -> None:
        self.bench.set_back(seconds)

    # What must hold

    @invariant()
    def one_probe_at_most(self) -> None:
        if not hasattr(self, "bench"):
            return
        live = {run.id for run in self.bench.live()}
        for account in ACCOUNTS:
            state = self.bench.state(f"demo:{account}")
            if state.trouble is None and state.quota_until is None:
                self.closure[account] += 1
            out = [
                run for run, where in self.probes.items() if where == (account, self.closure[account]) and run in live
            ]
            assert len(out) <= 1
            if out and state.probe_run is not None:
                assert state.probe_run in out or state.probe_run not in self.probes

    @invariant()
    def what_is_kept_is_sound_and_people_are_told_the_truth(self) -> None:
        if not hasattr(self, "bench"):
            return
        assert self.bench.store.read(lambda tx: tx.waits.audit()) == []
        names = [f"t{number}" for number in range(self.added)]
        for name in names:
            task = self.bench.task(name)
            if task.state is not TaskState.QUEUED:
                continue
            closed = self.phase(task.spec.account) not in {Phase.OPEN, Phase.DUE}
            told = {reason.wait for reason in self.bench.why(name)}
            assert closed == bool(told & {Wait.SERVICE, Wait.QUOTA_UNTIL}), (name, told)

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        self.everything_ends()
        check(self.bench.store)
        self.bench.store.close()
        self.bench.close()
        _ = self.fresh.__exit__(None, None, None)

    def everything_ends(self) -> None:
        """Once the services answer, every queued task starts, whatever was left behind: at the latest after the longest limit."""
        for run in self.bench.live():
            if run.state is RunState.ENDED:
                _ = self.bench.settler.settle(run.id)
            else:
                _ = self.bench.ends(self.bench.begin(run) if run.state is RunState.RESERVED else run)
        self.bench.clock.step(A_MONTH_S)
        while any(self.bench.task(f"t{number}").state is TaskState.QUEUED for number in range(self.added)):
            run = self.bench.claim()
            assert run is not None, "a lane is closed forever"
            _ = self.bench.ends(self.bench.begin(run))
        assert self.bench.claim() is None
        assert self.bench.store.read(lambda tx: next_check_at(tx, "m1", self.bench.clock.now())) is None


class ServicesInPostgres(Services):
    """The same lives on PostgreSQL."""

    kind = "postgres"


TestServices = Services.TestCase
TestServicesInPostgres = ServicesInPostgres.TestCase
TestServices.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestServicesInPostgres.settings = settings(max_examples=10, stateful_step_count=25, deadline=None)
