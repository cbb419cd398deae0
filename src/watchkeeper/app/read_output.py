"""Read what an agent printed: all of it at the end, or as it grows."""

from dataclasses import dataclass, field
from pathlib import Path

from watchkeeper.domain.model import Condemnation, ExitFact, Run, TaskSpec, Trace
from watchkeeper.ports.harness import Harness, StreamReader
from watchkeeper.ports.runtime import Executions

_CHUNK = 1024 * 1024
_STDERR_TAIL = 8 * 1024


def read_trace(
    harness: Harness,
    spec: TaskSpec,
    executions: Executions,
    run: Run,
    exit_fact: ExitFact | None,
) -> Trace | None:
    """What a run's output came to, or None if it cannot be read."""
    reader = harness.reader(spec)
    try:
        with executions.log(run, "stdout").open("rb") as log:
            while data := log.read(_CHUNK):
                _ = reader.feed(data)
        tail = _tail(executions.log(run, "stderr"))
    except OSError:
        return None
    return reader.trace(exit_fact, tail)


def _tail(path: Path) -> str:
    """The end of a log; one that was never opened is empty, because the spawn failed before it."""
    try:
        with path.open("rb") as log:
            size = log.seek(0, 2)
            _ = log.seek(max(0, size - _STDERR_TAIL))
            return log.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


@dataclass(slots=True)
class Follower:
    """Follows one run's output from its beginning. Holds nothing that another could not read again."""

    reader: StreamReader
    path: Path
    offset: int = 0
    told_session: str | None = None
    told_condemned: bool = field(default=False)

    def advance(self) -> bool:
        """Read what is new, at most a few chunks at a time; True if there was anything."""
        try:
            with self.path.open("rb") as log:
                _ = log.seek(self.offset)
                data = log.read(8 * _CHUNK)
        except FileNotFoundError:
            return False
        if not data:
            return False
        self.offset += len(data)
        _ = self.reader.feed(data)
        return True

    def condemned(self) -> Condemnation | None:
        """A verdict of the stream that was not told yet."""
        return None if self.told_condemned else self.reader.condemned()

    def session(self) -> str | None:
        """The conversation's name, if it was not told yet."""
        session = self.reader.trace(None, "").harness_session
        return session if session != self.told_session else None
