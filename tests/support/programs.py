"""Random programs over everything that the store's port offers: each step is a name and a transaction, the same for every database it is run on.

Tokens (a task, a run, a machine as it was read at some time) are kept and used again when they are long stale: that is the point.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from support.records import claim, end, later, make_outcome, make_run, make_spec, make_task, reserve, settle

from watchkeeper.domain.account import Account, SignIn, SignInSeen
from watchkeeper.domain.effects import EndExecution, ForgetEnvironment, StartShim
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.lanes import HarnessState, QueueRule
from watchkeeper.domain.model import (
    AgentIdentity,
    DirectoryIdentity,
    Disposition,
    EarlyFail,
    EndReason,
    ExitFact,
    OutcomeStatus,
    Proof,
    Run,
    RunState,
    StopHow,
    StopRequest,
    Task,
    TaskState,
)
from watchkeeper.domain.service import (
    SERVICE_KINDS,
    ClosureLifted,
    ProbeStarted,
    QuotaSeen,
    ServiceAnswered,
    ServiceFailed,
)
from watchkeeper.domain.wait import Wait
from watchkeeper.errors import Stale
from watchkeeper.ports.store import Authorisation, BatchLimitReached, Claim, MachineRecord, Tx

Work = Callable[[Tx], Any]

MACHINES, HARNESSES, PROJECTS = ("m1", "m2"), ("command", "claude"), ("", "p1", "p2")
CHECKOUTS = (None, None, "/a", "/b")
TEXTS = ("", "plain", "naïve ü", "quotes '\" \\", "100% :name $1 --", "line\nline", "\udcff broken", "emoji \U0001f642")
SCOPES = (
    ("all", ("",)),
    ("machine", MACHINES),
    ("harness", HARNESSES),
    ("project", PROJECTS[1:]),
    ("account", ("claude:own",)),
)


class Program:
    """One program. `step` gives the next transaction; `learn` receives what became of it."""

    def __init__(self, seed: str) -> None:
        """Everything follows from the seed."""
        self._rng = random.Random(seed)
        self._now = 0
        self._names = 0
        self._tasks: list[Task] = []
        self._runs: list[Run] = []
        self._machines: list[MachineRecord] = []
        self._operations: list[tuple[str, Claim | None]] = []
        self._kinds: list[tuple[int, Callable[[], tuple[str, Work]]]] = [
            (10, self._add), (14, self._claim), (6, self._first_of_some), (4, self._reserve_any), (9, self._launch), (8, self._end),
            (12, self._settle), (6, self._stop), (7, self._edit), (4, self._steer), (4, self._retry), (5, self._operation),
            (3, self._rule), (3, self._tell), (4, self._account), (4, self._observe), (3, self._machine), (5, self._outbox),
            (3, self._journal), (4, self._authorise), (4, self._fails), (4, self._look), (3, self._impossible),
        ]  # fmt: skip

    def step(self) -> tuple[str, Work]:
        """The next transaction. Time passes."""
        self._now += self._rng.choice((0, 0, 1, 3))
        weights = [weight for weight, _ in self._kinds]
        return self._rng.choices(self._kinds, weights)[0][1]()

    def restarts(self) -> bool:
        """Whether everybody closes the database and opens it again now."""
        return self._rng.random() < 0.02

    def learn(self, result: object) -> None:
        """Keep the tokens in an answer for later."""
        for one in result if isinstance(result, list | tuple) else (result,):
            match one:
                case Task():
                    self._tasks.append(one)
                case Run():
                    self._runs.append(one)
                case MachineRecord():
                    self._machines.append(one)
                case _:
                    pass

    # --- drawing ---------------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The time of the program."""
        return later(self._now)

    def _soon(self) -> datetime | None:
        return self._rng.choice((None, None, later(self._now + self._rng.randint(-1, 6))))

    def _token(self, tokens: list[Any]) -> Any:
        """One of them, the newer the likelier; None if there is none."""
        if not tokens:
            return None
        recent = self._rng.random() < 0.8
        return self._rng.choice(tokens[-6:] if recent else tokens)

    def _id(self) -> str:
        token = self._token(self._tasks)
        return "nobody" if token is None or self._rng.random() < 0.05 else token.id

    def _spec_fields(self) -> dict[str, Any]:
        pick = self._rng.choice
        after = tuple(self._id() for _ in range(pick((0, 0, 0, 1, 2))))
        return {
            "prompt": pick(TEXTS), "title": pick(TEXTS), "harness": pick(HARNESSES), "priority": self._rng.randint(-1, 1),
            "machine": pick((None, None, *MACHINES)), "project": pick(PROJECTS), "checkout": pick(CHECKOUTS),
            "after": tuple(one for one in after if one != "nobody") if self._rng.random() < 0.95 else after,
            "labels": tuple(pick(("x", "y", "z%")) for _ in range(pick((0, 0, 1, 2)))), "not_before": self._soon(),
            "account": pick(("own", "own", "work")),
        }  # fmt: skip

    # --- tasks -----------------------------------------------------------------------------------------------------

    def _add(self) -> tuple[str, Work]:
        if self._rng.random() < 0.95:
            self._names += 1
        wake = self._soon()
        task = make_task(
            f"t{self._names}", spec=make_spec(**self._spec_fields()), wake_at=wake, wake_for=wake and Wait.NOT_BEFORE,
            environment_id=f"e{self._rng.randint(1, 5)}", reason=self._rng.choice(TEXTS), created_at=self.now, updated_at=self.now,
        )  # fmt: skip

        def work(tx: Tx) -> Any:
            tx.tasks.add(task)
            return tx.tasks.get(task.id), tx.journal.append(
                "task.added", self.now, task_id=task.id, data={"r": task.reason}
            )

        return "add", work

    def _edit(self) -> tuple[str, Work]:
        was: Task | None = self._token(self._tasks)
        fields, some = self._spec_fields(), self._rng.random()
        if was is None:
            return self._journal()
        if some < 0.5:  # a few of them; a new title is allowed at any time, the rest only while it waits
            names = self._rng.sample(sorted(fields), 2) if some < 0.3 else ["title"]
            fields = {name: fields[name] for name in names}
        task = replace(was, spec=replace(was.spec, **fields), updated_at=self.now)
        return "edit", lambda tx: (tx.tasks.save(task, was), tx.tasks.get(task.id))[1]

    def _steer(self) -> tuple[str, Work]:
        was: Task | None = self._token(self._tasks)
        if was is None:
            return self._journal()
        task = replace(
            was,
            pinned_at=self._soon(),
            reason=self._rng.choice(TEXTS),
            environment_machine=self._rng.choice(("", "m1")),
        )
        return "steer", lambda tx: (tx.tasks.save(task, was), tx.tasks.get(task.id))[1]

    def _stop(self) -> tuple[str, Work]:
        was: Task | None = self._token(self._tasks)
        if was is None:
            return self._journal()
        wish = StopRequest(
            how=self._rng.choice(list(StopHow)), by="me", at=self.now, grace_s=self._rng.choice((None, 0, 1.5))
        )
        ends = was.state is TaskState.QUEUED and self._rng.random() < 0.6
        over: dict[str, Any] = {"state": TaskState.STOPPED, "ended_at": self.now, "kind": FailureKind.STOPPED, "wake_at": None,
                                "wake_for": None} if ends else {}  # fmt: skip
        task = replace(was, stop=wish, **over)
        return "stop", lambda tx: (tx.tasks.save(task, was), tx.tasks.get(task.id))[1]

    def _retry(self) -> tuple[str, Work]:
        """Back into the queue from wherever it is, which is refused where it cannot be."""
        was: Task | None = self._token(self._tasks)
        if was is None:
            return self._journal()
        wake = self._soon()
        task = replace(
            was, state=self._rng.choice((TaskState.QUEUED, TaskState.QUEUED, TaskState.NEEDS_INPUT)), stop=None, ended_at=None,
            wake_at=wake, wake_for=wake and Wait.RETRY_AT, attempts=0,
        )  # fmt: skip
        return "retry", lambda tx: (tx.tasks.save(task, was), tx.tasks.get(task.id))[1]

    # --- runs ------------------------------------------------------------------------------------------------------

    def _claim(self) -> tuple[str, Work]:
        self._operations.append((f"op{len(self._operations)}", None))
        operation = self._token(self._operations)[0] if self._rng.random() < 0.7 else None
        now = self.now

        def work(tx: Tx) -> Any:
            claimed = claim(tx, now, operation)
            return claimed and (claimed, tx.runs.get(claimed.run_id), tx.tasks.get(claimed.task_id))

        return "claim", work

    def _first_of_some(self) -> tuple[str, Work]:
        machine, keep, now, take = self._rng.choice(MACHINES), self._rng.random(), self.now, self._rng.random() < 0.7
        probed = self._rng.choice(((), (), ("command:own",), ("command:own", "claude:own", "claude:work")))

        def work(tx: Tx) -> Any:
            woke = tx.queue.wake(now)
            lanes = tx.queue.lanes()
            some = lanes[: max(1, int(len(lanes) * keep))]
            found = tx.queue.first(some, machine, None, probed)
            if not isinstance(found, Task) or not take:
                return woke, lanes, found, isinstance(found, BatchLimitReached)
            run = replace(make_run(found, tx.runs.next_fence()), machine=machine)
            tx.runs.add(run)
            saved = replace(found, state=TaskState.RUNNING, run_id=run.id, runs=run.number, wake_at=None, wake_for=None)
            tx.tasks.save(saved, found)
            return lanes, tx.runs.get(run.id), tx.tasks.get(found.id)

        return "first", work

    def _reserve_any(self) -> tuple[str, Work]:
        """Claim a task that may be anything but free."""
        task_id = self._id()
        return "reserve", lambda tx: (reserve(tx, tx.tasks.get(task_id)), tx.tasks.get(task_id))

    def _launch(self) -> tuple[str, Work]:
        was: Run | None = self._token(self._runs)
        if was is None:
            return self._journal()
        pick = self._rng.choice
        steps: list[dict[str, Any]] = [
            {"state": RunState.PREPARED, "directory": DirectoryIdentity(device=2**64 - 1, inode=pick((7, 2**63)))},
            {"state": RunState.STARTING, "shim_started_at": self.now},
            {"state": RunState.RUNNING, "harness_session": pick((None, "s")),
             "agent": AgentIdentity(pid=pick((5, 9)), start_ticks=2**40, boot_id="b", started_at=self.now)},
            {"early_fail": EarlyFail(kind=FailureKind.QUOTA, reason=pick(TEXTS)), "stop_told": StopHow.KILL},
            {"state": RunState.HELD, "kind": FailureKind.UNKNOWN, "reason": pick(TEXTS), "proof": pick((None, Proof.SWEPT))},
        ]  # fmt: skip
        order = [RunState.RESERVED, RunState.PREPARED, RunState.STARTING, RunState.RUNNING]
        likely = order.index(was.state) if was.state in order else 4
        run = replace(was, **(steps[likely] if self._rng.random() < 0.85 else pick(steps)))
        return "launch", lambda tx: (tx.runs.save(run, was), tx.runs.get(run.id))[1]

    def _end(self) -> tuple[str, Work]:
        was: Run | None = self._token(self._runs)
        if was is None:
            return self._journal()
        if self._rng.random() < 0.5:
            return "end", lambda tx: end(tx, was)
        fact = ExitFact(
            status=256,
            reason=EndReason.EXITED,
            at=self.now,
            elapsed_s=self._rng.choice((0.25, 3)),
            errno=None,
            max_rss_kib=7,
        )
        run = replace(was, state=RunState.ENDED, exit=fact)
        return "exit", lambda tx: (tx.runs.save(run, was), tx.runs.get(run.id))[1]

    def _settle(self) -> tuple[str, Work]:
        run: Run | None = self._token(self._runs)
        if run is None:
            return self._journal()
        wake = self._soon()
        if self._rng.random() < 0.7:
            return "settle", lambda tx: settle(tx, run, wake_at=wake)
        return "hold", lambda tx: self._settled_for_a_person(tx, run)

    @staticmethod
    def _settled_for_a_person(tx: Tx, run: Run) -> Task:
        ended = end(tx, run) if run.state is not RunState.ENDED else run
        tx.runs.save(replace(ended, state=RunState.SETTLED, settled_at=later(1), proof=Proof.PROVEN), ended)
        tx.outcomes.add(make_outcome(run, status=OutcomeStatus.FAILED, disposition=Disposition.NEEDS_INPUT, kind=FailureKind.QUOTA,
                                     text="said \ud83d \x00", turns=10**30))  # fmt: skip
        task = tx.tasks.get(run.task_id)
        tx.tasks.save(replace(task, state=TaskState.NEEDS_INPUT, run_id=None), task)
        return tx.tasks.get(task.id)

    # --- everything else -------------------------------------------------------------------------------------------

    def _operation(self) -> tuple[str, Work]:
        if not self._operations:
            return self._journal()
        operation = self._token(self._operations)[0]
        other = self._rng.choice((None, None, Claim(task_id="x", run_id="y", fence=1)))

        def work(tx: Tx) -> Any:
            known = tx.queue.operation(operation)
            claimed = known.claim if known is not None and other is None else other
            tx.queue.record_operation(operation, claimed, at=later(0))
            return tx.queue.operation(operation)

        return "operation", work

    def _rule(self) -> tuple[str, Work]:
        scope, names = self._rng.choice(SCOPES)
        rule = QueueRule(scope=scope, name=self._rng.choice(names), paused=self._rng.random() < 0.5,
                         max_running=self._rng.choice((None, 1, 3)), by=self._rng.choice(TEXTS), at=self.now)  # fmt: skip
        return "rule", lambda tx: (tx.rules.put(rule), tx.rules.all())[1]

    def _tell(self) -> tuple[str, Work]:
        machine, reason = self._rng.choice(MACHINES), self._rng.choice((None, "paused", "signed out"))

        def work(tx: Tx) -> Any:
            for lane in tx.queue.lanes()[:2]:
                tx.rules.announce(machine, lane, reason, later(0))
            return tx.rules.announced(machine)

        return "tell", work

    def _account(self) -> tuple[str, Work]:
        account = Account(harness=self._rng.choice(HARNESSES), name=self._rng.choice(("work", "play")), home=self._rng.choice((None, "/h")),
                          variables=("A", "B=C"), created_at=self.now, by=self._rng.choice(TEXTS))  # fmt: skip
        if self._rng.random() < 0.5:
            return "account", lambda tx: (tx.accounts.add(account), tx.accounts.all(), tx.accounts.open_tasks())
        return "account gone", lambda tx: (tx.accounts.remove(account.id), tx.accounts.all())

    def _observe(self) -> tuple[str, Work]:
        pick, at = self._rng.choice, later(self._now + self._rng.randint(-3, 3))
        account, machine = f"{pick(HARNESSES)}:own", pick(MACHINES)
        if self._rng.random() < 0.3:
            state = HarnessState(
                harness=pick(HARNESSES), machine=machine, present=pick((True, False)), detail=pick(TEXTS), at=at
            )
            return "found", lambda tx: (tx.accounts.record_harness(state), tx.accounts.harnesses(machine))
        token: Run | None = self._token(self._runs)
        run = "nobody.1" if token is None else token.id
        seen = pick(
            (
                QuotaSeen(until=self._soon() or at, at=at, now=self.now, run_id=run),
                ServiceFailed(run_id=run, kind=pick(sorted(SERVICE_KINDS)), detail=pick(TEXTS), at=at, now=self.now),
                ServiceAnswered(run_id=run, at=at, now=self.now, succeeded=pick((True, False))),
                ClosureLifted(at=self.now),
                SignInSeen(sign_in=pick(list(SignIn)), at=at, detail=pick(TEXTS), mark=pick("ab")),
            )
        )
        if token is not None and self._rng.random() < 0.2:
            probe = token

            def begin(tx: Tx) -> Any:
                own = tx.tasks.get(probe.task_id).spec.account_id
                return tx.accounts.observe(own, probe.machine, ProbeStarted(run_id=probe.id)), tx.accounts.states(
                    probe.machine
                )

            return "probe", begin
        return "observe", lambda tx: (tx.accounts.observe(account, machine, seen), tx.accounts.states(machine))

    def _machine(self) -> tuple[str, Work]:
        name, until = self._rng.choice(MACHINES), later(self._now + 60)
        token: MachineRecord | None = self._token(self._machines)
        if token is None or self._rng.random() < 0.4:
            return "daemon", lambda tx: tx.machines.begin_incarnation(
                name, "b", later(0), name=name.upper(), holder=f"h{until.second}"
            )
        return "renew", lambda tx: (tx.machines.renew(token, until), *tx.machines.all())

    def _outbox(self) -> tuple[str, Work]:
        pick, now, machine, what = self._rng.choice, self.now, self._rng.choice(("", *MACHINES)), self._rng.random()
        effects = [
            pick((StartShim(run_id="r", fence=1, execution_id="x"), ForgetEnvironment(environment_id=pick(TEXTS)),
                  EndExecution(run_id="r", fence=2, execution_id="x", how=StopHow.KILL, why=EndReason.STOP, grace_s=1.5)))
            for _ in range(2)
        ]  # fmt: skip
        later_on = later(self._now + 4)

        def work(tx: Tx) -> Any:
            if what < 0.5:
                tx.outbox.put(effects, now, machine)
            for row in tx.outbox.due(now, 2, machine):
                if what < 0.75:
                    tx.outbox.done(row.id)
                else:
                    tx.outbox.again(row.id, later_on)
            return tx.outbox.due(now, 9, machine), tx.outbox.next_due(machine), tx.outbox.pending()

        return "outbox", work

    def _journal(self) -> tuple[str, Work]:
        run: Run | None = self._token(self._runs)
        data = {"text": self._rng.choice(TEXTS), "list": [1, None, 0.5]}
        return "journal", lambda tx: tx.journal.append("seen", later(0), run=run, data=data)

    def _authorise(self) -> tuple[str, Work]:
        run: Run | None = self._token(self._runs)
        word = Authorisation(id=f"a{self._rng.randint(1, 40)}", task_id=self._id(), kind="person", by="me", detail=self._rng.choice(TEXTS),
                             at=self.now)  # fmt: skip
        if run is None or self._rng.random() < 0.5:
            return "authorise", lambda tx: (tx.outcomes.authorise(word), tx.outcomes.authorisation(word.task_id))
        return "launch on word", lambda tx: tx.outcomes.record_launch(run, word.id)

    def _fails(self) -> tuple[str, Work]:
        """Do something, then think better of it: nothing of it stays."""
        name, inner = self._rng.choice((self._add, self._claim, self._outbox, self._settle, self._rule))()

        def work(tx: Tx) -> Any:
            _ = inner(tx)
            raise Stale(f"{name} after all not")

        return f"{name}, undone", work

    def _impossible(self) -> tuple[str, Work]:
        was: Task | None = self._token(self._tasks)
        if was is None:
            return self._journal()
        wrong: dict[str, Any] = self._rng.choice(({"attempts": -1}, {"state": TaskState.RUNNING, "run_id": None}, {"ended_at": self.now},
                                                  {"run_id": "nobody", "state": TaskState.HELD}))  # fmt: skip
        return "impossible", lambda tx: tx.tasks.save(replace(was, **wrong), was)

    def _look(self) -> tuple[str, Work]:
        """Ask everything that can be asked about a few tasks."""
        tasks, run, now = [self._id() for _ in range(3)], self._token(self._runs), self.now
        states = self._rng.sample(list(TaskState), 3)

        def work(tx: Tx) -> Any:
            there = [one for one in dict.fromkeys(tasks) if one in tx.tasks.ids_like(one, 50)]
            return [
                (tx.tasks.get(one), tx.waits.facts(one), tx.waits.dependencies(one), tx.waits.dependents(one), tx.runs.of_task(one),
                 tx.journal.after(3, 4, one), tx.outcomes.authorisation(one), tx.tasks.brief(one))
                for one in there
            ], (
                tx.tasks.in_states(states, 4, before=there[0] if there else None), tx.tasks.labelled("x"), tx.tasks.labels("", 9),
                tx.tasks.pinned(), tx.tasks.counts(), tx.runs.live(), tx.runs.live("m1"), tx.queue.waiting(5), tx.queue.next_wake(),
                tx.queue.occupied(), tx.queue.lanes(), tx.rules.all(), tx.rules.announced("m1"), tx.accounts.states("m1"), tx.outbox.due(now, 3),
                tx.tasks.environment_in_use("e1"), run and (tx.outcomes.get(run.id), tx.runs.by_execution(run.execution_id)),
                tx.waits.audit(), tx.machines.all(),
            )  # fmt: skip

        return "look", work
