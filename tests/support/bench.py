"""A queue on one machine with scripted agents: claims, following and settlement are the real ones, over a real database, on a clock that is moved by hand.

Agents are not processes. What they print goes into the logs that the real reader of the demo harness reads; how they end is reported as an observer would.
"""

import json
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from runtimes.stage import SteppedClock
from support.handing import again, retry_with
from support.records import make_spec, make_task
from support.side import side_commands

from watchkeeper.app.claim import Claimant, claim
from watchkeeper.app.follow import Followers
from watchkeeper.app.record import apply_run, apply_task
from watchkeeper.app.settle import Settler
from watchkeeper.app.views.why import Here, why
from watchkeeper.domain.account import AccountState, CredentialState
from watchkeeper.domain.evidence import DecidedBy, DirectoryState, Evidence, GoneFact
from watchkeeper.domain.lanes import Reason
from watchkeeper.domain.lock_state import LockState
from watchkeeper.domain.model import (
    AgentIdentity,
    Changes,
    DirectoryIdentity,
    EndReason,
    ExitFact,
    Outcome,
    Run,
    RunState,
    StopHow,
    StopRequest,
    Task,
)
from watchkeeper.domain.run_events import (
    AgentSeen,
    ExitSeen,
    HeldBack,
    NeverLaunched,
    Prepared,
    RunEvent,
    ShimStarted,
)
from watchkeeper.domain.samples import BOOT, DECISIONS, NAMESPACE
from watchkeeper.domain.service import ProbePolicy
from watchkeeper.domain.settlement import RetryPolicy
from watchkeeper.domain.task import RunHeld, RunRegained, StopAsked
from watchkeeper.harnesses.registry import Registry
from watchkeeper.ports.off_record import StopNote
from watchkeeper.ports.runtime import Log
from watchkeeper.ports.store import Authorisation, JournalEntry, Store, Tx
from watchkeeper.runtimes.kept_log import open_kept
from watchkeeper.runtimes.system import RandomIds

if TYPE_CHECKING:
    from watchkeeper.ports.runtime import Runtime

IDS = RandomIds()


class Directories:
    """The part of a runtime that following and settlement ask: logs in a directory, and evidence of agents that have ended."""

    def __init__(self, root: Path) -> None:
        """Keep the logs in `root`."""
        self._root = root

    def executions(self) -> "Directories":
        """This."""
        return self

    @property
    def off_record(self) -> "Directories":
        """This."""
        return self

    def notes(self) -> list[StopNote]:
        """Every stop is on record."""
        return []

    def log(self, run: Run, stream: str) -> Path:
        """Where a run's output goes."""
        return self._root / f"{run.id}.{stream}"

    def open_log(self, run: Run, stream: str) -> AbstractContextManager[Log | None]:
        """The same, for reading."""
        return open_kept(self.log(run, stream))

    def environment(self, run: Run) -> None:
        """No secrets."""

    def before(self, run: Run) -> None:
        """Nothing is known of the directory."""

    def gone(self, run: Run) -> GoneFact:
        """Nothing is left of any agent."""
        del run
        return GoneFact(proven=True)

    def observe(self, run: Run, *, stop_asked: bool) -> Evidence:
        """Its end is on record."""
        return Evidence(
            directory=DirectoryState.INTACT, lock=LockState.FREE, decision=DECISIONS[DecidedBy.SHIM], boot_id=BOOT,
            pid_namespace=NAMESPACE, since_spawn_s=60.0, start_grace_s=10.0, stop_asked=stop_asked, agent=run.agent,
            exit=run.exit, gone=GoneFact(proven=True),
        )  # fmt: skip

    def living_agent(self, run: Run) -> None:
        """None lives."""

    def identify(self, cwd: str) -> None:
        """Nothing is known of it."""

    def changes(self, cwd: str, before: Mapping[str, object] | None, name: str = "") -> Changes:
        """Nothing is known."""
        del cwd, before, name
        return Changes(known=False)

    def keep(self, environment_id: str, environment: Mapping[str, str]) -> None:
        """Keep no environment."""

    def forget(self, environment_id: str) -> None:
        """Forget none."""


class Bench:
    """The queue, its daemon's verbs, and its agents."""

    def __init__(
        self,
        store: Store,
        clock: SteppedClock,
        *,
        machine: str = "m1",
        limit: int = 4,
        policy: ProbePolicy | None = None,
    ) -> None:
        """Begin as the daemon of a machine with room for `limit` agents."""
        self._kept = tempfile.TemporaryDirectory()
        self.store, self.clock, self.machine = store, clock, machine
        self.parts = Directories(Path(self._kept.name))
        self.credential_state = CredentialState()
        at = clock.now()
        record = store.transact("begin", lambda tx: tx.machines.begin_incarnation(machine, BOOT, at, name=machine))
        self.claimant = Claimant(machine=record, limit=limit)
        runtime = cast("Runtime", self.parts)
        self.settler = Settler(
            store=store, clock=clock, runtime=runtime, workspace=cast("Any", self.parts), harness=Registry().get,
            policy=RetryPolicy(), commands=side_commands(store, clock, runtime),
            probing=policy or ProbePolicy(), credential_state=lambda _: self.credential_state,
        )  # fmt: skip
        self.restart()

    def restart(self) -> None:
        """The daemon is another one: what it held in memory is gone."""
        executions = cast("Any", self.parts)
        self.followers = Followers(store=self.store, clock=self.clock, executions=executions, harness=Registry().get)

    def close(self) -> None:
        """Delete the logs."""
        self._kept.cleanup()

    # What people do

    def add(self, name: str, **spec: Any) -> Task:
        """Hand a task over."""
        at = self.clock.now()
        task = make_task(
            name,
            spec=make_spec(**({"harness": "demo", "argv": (), "expect": "answer"} | spec)),
            created_at=at,
            updated_at=at,
        )
        allowed = Authorisation(id=f"a-{name}", task_id=name, kind="person", by="me", detail="It may.", at=at)

        def work(tx: Tx) -> Task:
            tx.tasks.add(task)
            tx.outcomes.authorise(allowed)
            return tx.tasks.get(name)

        return self.store.transact("add", work)

    def stop(self, name: str) -> None:
        """Stop a task."""
        request = StopRequest(how=StopHow.STOP, by="me", at=self.clock.now())
        self.store.transact(
            "stop", lambda tx: apply_task(tx, tx.tasks.get(name), StopAsked(request=request), request.at)
        )

    def retry(self, name: str) -> Task:
        """Try a task again."""
        wanted = again(self.store, name)
        return retry_with(self.store, wanted, environments=self.parts, runtime=self.parts, clock=self.clock)

    # What the daemon does

    def claim(self) -> Run | None:
        """Claim the next task."""
        found = claim(self.store, self.clock, IDS, self.claimant, IDS.operation())
        return None if found is None else self.store.read(lambda tx: tx.runs.get(found.run_id))

    def follow(self) -> None:
        """Read on in the output of all that work."""
        done = self.followers.follow(self.store.read(lambda tx: tx.runs.live(self.machine)))
        assert not done.problems, done.problems

    # What agents do

    def begin(self, run: Run) -> Run:
        """Its agent starts."""
        at = self.clock.now()
        self.parts.log(run, "stdout").touch()
        self.parts.log(run, "stderr").touch()
        agent = AgentIdentity(pid=run.fence, start_ticks=1, boot_id=BOOT, started_at=at)
        events: list[RunEvent] = [
            Prepared(directory=DirectoryIdentity(device=1, inode=run.fence)), ShimStarted(at=at), AgentSeen(agent=agent)
        ]  # fmt: skip
        for event in events:
            run = self.tell(run, event)
        return run

    def detail(self, run: Run, event: str = "text", **values: object) -> None:
        """It prints an event."""
        with self.parts.log(run, "stdout").open("a") as log:
            _ = log.write(json.dumps({"type": event, **values}) + "\n")

    def ends(self, run: Run, kind: str | None = None, **result: object) -> Outcome | None:
        """It ends well, or by that failure, and its run is settled."""
        self.detail(run, "result", ok=kind is None, kind=kind, text=f"It is {kind or 'done'}.", **result)
        return self.exits(run)

    def dies(self, run: Run, reason: EndReason = EndReason.EXITED) -> None:
        """Its process ends, whatever it has printed."""
        status = 0 if reason is EndReason.EXITED else 15
        _ = self.tell(run, ExitSeen(exit=ExitFact(status=status, reason=reason, at=self.clock.now(), elapsed_s=1.0)))

    def exits(self, run: Run, reason: EndReason = EndReason.EXITED) -> Outcome | None:
        """Its process ends, whatever it has printed, and its run is settled."""
        self.dies(run, reason)
        return self.settler.settle(run.id)

    def never(self, run: Run) -> Outcome | None:
        """It was never launched."""
        _ = self.tell(run, NeverLaunched(reason="It was never started."))
        return self.settler.settle(run.id)

    def hold(self, run: Run) -> None:
        """What became of it is uncertain."""
        at = self.clock.now()

        def work(tx: Tx) -> None:
            held = apply_run(tx, tx.runs.get(run.id), HeldBack(reason="Its directory is missing."), at)
            assert held.kind is not None
            _ = apply_task(tx, tx.tasks.get(run.task_id), RunHeld(reason=held.reason, kind=held.kind, at=at), at)

        self.store.transact("hold", work)

    def regain(self, run: Run) -> None:
        """Its evidence came back."""
        at = self.clock.now()

        def work(tx: Tx) -> None:
            now = tx.runs.get(run.id)
            agent = now.agent or AgentIdentity(pid=run.fence, start_ticks=1, boot_id=BOOT, started_at=at)
            _ = apply_run(tx, now, AgentSeen(agent=agent), at)
            _ = apply_task(tx, tx.tasks.get(run.task_id), RunRegained(at=at), at)

        self.store.transact("regain", work)

    def tell(self, run: Run, event: RunEvent) -> Run:
        """Record an event of a run."""
        return self.store.transact("tell", lambda tx: apply_run(tx, tx.runs.get(run.id), event, self.clock.now()))

    # What is known

    def task(self, name: str) -> Task:
        """A task as it is recorded."""
        return self.store.read(lambda tx: tx.tasks.get(name))

    def live(self) -> list[Run]:
        """The runs that own a task, those that are held left out."""
        return [run for run in self.store.read(lambda tx: tx.runs.live()) if run.state is not RunState.HELD]

    def state(self, account: str = "demo:own") -> AccountState:
        """What is known of an account here."""
        known = self.store.read(lambda tx: tx.accounts.states(self.machine))
        return known.get(account, AccountState(account=account, machine=self.machine))

    def why(self, name: str) -> tuple[Reason, ...]:
        """Why a task waits."""
        here = Here(machine=self.machine, limit=self.claimant.limit, now=self.clock.now())
        return why(self.store, here, name).reasons

    def journal(self, *kinds: str) -> list[JournalEntry]:
        """The entries of these kinds."""
        found = self.store.read(lambda tx: tx.journal.after(0, 100_000))
        return [entry for entry in found if entry.kind in kinds]

    def pass_until(self, at: datetime) -> None:
        """Let time pass up to then."""
        self.clock.step(max(0.0, (at - self.clock.now()).total_seconds()))

    def set_back(self, seconds: float) -> None:
        """The clock of the day is set back."""
        self.clock.wall -= timedelta(seconds=seconds)

    def reopen(self, store: Store) -> None:
        """Continue with another connection to the same database."""
        self.store = store
        commands = side_commands(store, self.clock, cast("Runtime", self.parts))
        self.settler = replace(self.settler, store=store, commands=commands)
        self.restart()
