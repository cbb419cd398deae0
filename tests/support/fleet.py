"""Two installations on one database: state directories, node ids and daemons of their own."""

import contextlib
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from support.rig import Rig

from watchkeeper.app.add import Checked, hand_over
from watchkeeper.app.claim import Claimant, claim
from watchkeeper.app.profiles import Wanted, compile_profile
from watchkeeper.compose import Watchkeeper
from watchkeeper.domain.model import Task, TaskSpec, TaskState
from watchkeeper.domain.wait import Wait
from watchkeeper.environment import capture
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Authorisation, Claim, MachineRecord, Store, Tx

T = TypeVar("T")


def _checked(parts: Watchkeeper, spec: TaskSpec) -> Checked:
    """A task that may be handed over, also for a directory that is not on this machine."""
    harness, machine = parts.harness("demo"), parts.state.node()
    environment = capture(parts.environ, (), harness)
    wanted = Wanted(environment=environment, options={}, machine=machine)
    profile = compile_profile(harness, spec, harness.find(environment, {}), wanted)
    return Checked(spec=spec, profile=profile, environment=environment, by="ada", machine=machine)


class Fleet:
    """Machines that share a database."""

    def __init__(self, root: Path, url: str, *, machines: int = 2, limit: int = 4, **settings: str) -> None:
        """Nothing runs yet."""
        self.url = url
        self.work = root / "work"
        self.work.mkdir()
        self.log = root / "began"
        given = {"WATCHKEEPER_STORE_URL": url, "WATCHKEEPER_QUEUE_LIMIT": str(limit), **settings}
        self.rigs = [Rig(root / f"m{number}", settings=given) for number in range(1, machines + 1)]
        self._parts = [Watchkeeper.open(rig.repo, rig.environment, writes=True, repository=False) for rig in self.rigs]

    def start(self) -> None:
        """Every machine's daemon."""
        for rig in self.rigs:
            rig.start_daemon()

    def keep(self) -> None:
        """A new daemon where one has died."""
        for rig in self.rigs:
            rig.keep_daemon()

    def kill(self, rig: Rig) -> None:
        """`kill -9` of a machine's daemon, and another one in its place."""
        if rig.daemons[-1].poll() is None:
            rig.kill_daemon()
        rig.start_daemon()

    def node(self, number: int) -> str:
        """The id of a machine."""
        return self._parts[number].state.node()

    def add(self, tasks: int, *, on_hold: datetime | None = None, **given: Any) -> list[Task]:
        """Hand over so many tasks that may run anywhere, on each machine in turn; each notes that its agent began. None begins before `on_hold`."""
        prompts = [f"append {self.log} {number}" for number in range(tasks)]
        return [
            self._add(self._parts[at % len(self._parts)], prompt, on_hold, given) for at, prompt in enumerate(prompts)
        ]

    def _add(self, parts: Watchkeeper, prompt: str, on_hold: datetime | None, given: dict[str, Any]) -> Task:
        fields: dict[str, Any] = {
            "prompt": prompt,
            "title": "one of many",
            "harness": "demo",
            "model": None,
            "cwd": str(self.work),
        }
        checked = _checked(parts, TaskSpec(**(fields | given)))
        if on_hold is None:
            return hand_over(parts, [checked])[0].task
        return parts.store.transact("test", lambda tx: self._later(tx, parts, checked, on_hold))

    def _later(self, tx: Tx, parts: Watchkeeper, checked: Checked, at: datetime) -> Task:
        now = parts.clock.now()
        task = Task(
            id=parts.ids.task(), spec=checked.spec, state=TaskState.QUEUED, created_at=now, updated_at=now,
            environment_id=parts.ids.execution(), environment_machine="elsewhere", wake_at=at, wake_for=Wait.NOT_BEFORE,
        )  # fmt: skip
        tx.tasks.add(task)
        allowed = Authorisation(
            id=task.environment_id, task_id=task.id, kind="person", by="ada", detail="", at=now,
            profile=checked.profile,
        )  # fmt: skip
        tx.outcomes.authorise(allowed)
        return task

    def started(self) -> Counter[str]:
        """How often the agent of each task began."""
        return Counter(self.log.read_text(encoding="utf-8").split()) if self.log.exists() else Counter()

    def read(self, work: Callable[[Tx], T]) -> T:
        """Look into the database. Raises StateError while it cannot be reached."""
        return self._parts[0].store.read(work)

    def transact(self, work: Callable[[Tx], T]) -> T:
        """Change something in the database."""
        return self._parts[0].store.transact("test", work)

    def store(self, number: int) -> Store:
        """A machine's way into the database."""
        return self._parts[number].store

    def clock(self, number: int) -> Clock:
        """A machine's clock."""
        return self._parts[number].clock

    def now(self) -> datetime:
        """The time, by the database."""
        return self.clock(0).now()

    def claim(self, number: int, machine: MachineRecord) -> Claim | None:
        """Claim as that machine."""
        parts = self._parts[number]
        return claim(parts.store, parts.clock, parts.ids, Claimant(machine=machine, limit=9), parts.ids.operation())

    def close(self) -> None:
        """End every process."""
        with contextlib.ExitStack() as last:
            for rig in self.rigs:
                last.callback(rig.close)
            for parts in self._parts:
                last.callback(parts.store.close)
