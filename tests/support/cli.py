"""`wk` called in this process, as it would be called without a terminal."""

import io
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from watchkeeper.app.claim import Claimant, claim
from watchkeeper.cli.main import main
from watchkeeper.compose import Watchkeeper
from watchkeeper.domain.model import Task, TaskState


@dataclass
class Answer:
    """What a call of `wk` came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON lines on standard output."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Wk:
    """Calls `wk` and looks into its database."""

    home: Path
    cwd: Path
    environ: dict[str, str]
    monkeypatch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]
    ensured: list[str] = field(default_factory=list)

    def __call__(
        self, *arguments: str, stdin: bytes = b"", also: Mapping[str, str] | None = None, **environ: str
    ) -> Answer:
        """Call it as it would be called without a terminal; with `also` and `environ` in its environment."""
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        _ = self.capture.readouterr()
        code = main(list(arguments), {**self.environ, **(also or {}), **environ})
        out, err = self.capture.readouterr()
        return Answer(code, out, err)

    @property
    def parts(self) -> Watchkeeper:
        """The parts, for a look from outside."""
        return Watchkeeper.open(self.cwd, self.environ, writes=True)

    def add(self, prompt: str = "do it", *options: str) -> str:
        """Hand a task over; returns its id."""
        answer = self("run", "--harness", "demo", *options, prompt)
        assert answer.code == 0, answer.err
        return answer.out.strip()

    def task(self, task_id: str) -> Task:
        """A task as it is recorded."""
        return self.parts.store.read(lambda tx: tx.tasks.get(task_id))

    def claim(self) -> str:
        """Claim the next task, as a daemon would; returns the id of its run."""
        parts = self.parts
        at = parts.clock.now()
        machine = parts.store.transact("begin", lambda tx: tx.machines.begin_incarnation("m", "boot", at))
        claimed = claim(parts.store, parts.clock, parts.ids, Claimant(machine=machine, limit=9), parts.ids.operation())
        assert claimed is not None
        return claimed.run_id

    def become(self, task_id: str, state: TaskState, **changes: Any) -> Task:
        """Record a task in another state, as the daemon would in the end."""
        parts = self.parts

        def work(tx: Any) -> Task:
            was = tx.tasks.get(task_id)
            ended = parts.clock.now() if state in {TaskState.DONE, TaskState.FAILED, TaskState.STOPPED} else None
            tx.tasks.save(replace(was, state=state, ended_at=ended, **changes), was)
            return tx.tasks.get(task_id)

        return parts.store.transact("test", work)
