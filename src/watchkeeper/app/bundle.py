"""Bundle a run: everything that is known of it in one archive that can be checked without the database.

Secrets are hidden as in `wk logs`, and the agent's environment is there by name only. The bundle holds

    explanation.json    task, run, authorisation with the launch profile, outcome, evidence, cost
    prompt.txt          the prompt
    history.jsonl       the journal's entries, in the order of commits
    steps.jsonl         what the agent did, as its harness reads its output
    stdout.log          what is kept of its output; a line in brackets stands for what was dropped
    stderr.log
    diff.patch          what it changed; where that cannot be had, the manifest says why
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.app.diff import DiffRequest, find
from watchkeeper.app.secrets import redactor_of
from watchkeeper.app.views import plain as values
from watchkeeper.app.views.explain import Explanation, explain
from watchkeeper.app.views.explained import plain, steps
from watchkeeper.errors import Elsewhere, WatchkeeperError
from watchkeeper.ports.bundles import BundleFacts, Bundles, Part
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.diffs import Diffs
from watchkeeper.ports.harness import Harness
from watchkeeper.ports.runtime import Executions, Hole, Runtime
from watchkeeper.ports.store import Store
from watchkeeper.redaction.engine import Redactor

_STEPS = 100_000
_STREAMS = ("stdout", "stderr")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRequest:
    """Which run to bundle, and where to."""

    task_id: str
    number: int | None = None
    """The run's number; None: the newest."""
    directory: Path
    file: Path | None = None
    """The file to write; None: one in `directory`, named after the run."""
    replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundler:
    """Writes bundles."""

    store: Store
    clock: Clock
    runtime: Callable[[], Runtime]
    harness: Callable[[str], Harness]
    bundles: Bundles
    diffs: Diffs
    version: str
    """Of Watchkeeper."""

    def bundle(self, request: BundleRequest) -> BundleFacts:
        """Write the bundle of a run.

        Raises:
            NotFound: the task has no such run.
            Elsewhere: the run's output is on another machine.
            Refused: the file exists.
            StateError: it cannot be written.
        """
        found = explain(self.store, self.runtime, self.harness, request.task_id, request.number, steps=_STEPS)
        if found.found.on is not None:
            msg = f"Run {found.run.number} of task {request.task_id} is on {found.found.on}, with its output."
            raise Elsewhere(msg, hint=f"Type `wk bundle {found.run.id}` there.")
        patch, no_patch = self._patch(found)
        file = request.file or request.directory / f"wk-{found.run.id}.zip"
        about = {
            "run": found.run.id,
            "title": found.task.spec.title,
            "state": found.run.state.value,
            "made_at": values.time(self.clock.now()),
            "made_by": f"watchkeeper {self.version}",
            "no_patch": no_patch or None,
        }
        return self.bundles.write(file, self._parts(found, patch), about, replace=request.replace)

    def _patch(self, found: Explanation) -> tuple[bytes | None, str]:
        """What the run changed as a patch, or None with the reason."""
        if found.found.outcome is None:
            return None, "The run has not ended."
        try:
            diff = find(self.store, self.runtime, DiffRequest(task_id=found.task.id, run=found.run.number))
            return self.diffs.patch(diff.kept(self.diffs)), ""
        except (WatchkeeperError, OSError) as problem:
            return None, str(problem)

    def _parts(self, found: Explanation, patch: bytes | None) -> Iterator[Part]:
        executions = self.runtime().executions()
        redactor = redactor_of(executions, found.run, found.task.spec)
        known = plain(found)
        history, done = known.pop("history"), known.pop("steps")
        del history, done  # they have files of their own
        yield Part(name="explanation.json", pieces=[_json(known, indent=2)])
        yield Part(name="prompt.txt", pieces=[_prompt(found, redactor)])
        yield Part(name="history.jsonl", pieces=(_json(values.entry(entry)) for entry in found.history))
        yield Part(name="steps.jsonl", pieces=(_json(step) for step in steps(found)))
        for stream in _STREAMS:
            yield Part(name=f"{stream}.log", pieces=_log(executions, found, stream, redactor))
        if patch is not None:
            yield Part(name="diff.patch", pieces=_hidden(patch, redactor))


def _prompt(found: Explanation, redactor: Redactor) -> bytes:
    return redactor.text(found.task.spec.prompt).encode("utf-8", "surrogateescape")


def _log(executions: Executions, found: Explanation, stream: str, redactor: Redactor) -> Iterator[bytes]:
    """A log without secrets, piece by piece."""
    hidden, offset, lost = redactor.stream(), 0, False
    with executions.open_log(found.run, stream) as log:
        if log is None:
            return
        for piece in log.read():
            if isinstance(piece, Hole):
                yield hidden.finish(cut=True)
                yield f"\n[{piece.end - offset} bytes were not kept]\n".encode()
                offset, lost = piece.end, True
                continue
            offset += len(piece)
            yield hidden.resume(piece) if lost else hidden.feed(piece)
            lost = False
        yield hidden.finish()


def _hidden(data: bytes, redactor: Redactor) -> Iterator[bytes]:
    stream = redactor.stream()
    yield stream.feed(data)
    yield stream.finish()


def _json(value: Mapping[str, object], indent: int | None = None) -> bytes:
    return json.dumps(value, ensure_ascii=True, indent=indent).encode("ascii") + b"\n"
