"""What an agent did, step by step, from its log, without secrets."""

from collections import deque
from dataclasses import dataclass, replace

from watchkeeper.domain.model import Run, TaskSpec
from watchkeeper.ports.harness import Harness, StreamEvent
from watchkeeper.ports.runtime import Executions, Hole
from watchkeeper.redaction.engine import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps of a run."""

    first: tuple[StreamEvent, ...] = ()
    left_out: int = 0
    """How many steps between the first and the last are not here."""
    last: tuple[StreamEvent, ...] = ()
    dropped_bytes: int = 0
    """How much of the log was given up to keep it bounded: what the agent did there is not known."""
    unreadable: str = ""
    """Why the log could not be read; empty if it was."""


def read_steps(
    harness: Harness, spec: TaskSpec, executions: Executions, run: Run, redactor: Redactor, *, most: int
) -> Steps:
    """The first and the last steps of a run, `most` of each. Never raises: what cannot be read is said inside."""
    reader, stream = harness.reader(spec), redactor.stream()
    first: list[StreamEvent] = []
    last: deque[StreamEvent] = deque(maxlen=most)
    count = dropped = offset = 0

    def keep(events: list[StreamEvent]) -> None:
        nonlocal count
        for event in events:
            count += 1
            (first if len(first) < most else last).append(replace(event, text=redactor.text(event.text)))

    try:
        with executions.open_log(run, "stdout") as log:
            if log is None:
                return Steps(unreadable="the log is not there any more")
            cut = False
            for piece in log.read():
                if isinstance(piece, Hole):
                    keep(reader.feed(stream.finish(cut=True)))
                    keep(reader.gap())
                    dropped += piece.end - offset
                    offset, cut = piece.end, True
                    continue
                offset += len(piece)
                keep(reader.feed(stream.resume(piece) if cut else stream.feed(piece)))
                cut = False
            keep(reader.feed(stream.finish()))
    except OSError as problem:
        return Steps(unreadable=problem.strerror or str(problem))
    return Steps(first=tuple(first), left_out=count - len(first) - len(last), last=tuple(last), dropped_bytes=dropped)
