"""Read what an agent printed: all of it at the end, or as it grows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from watchkeeper.app.secrets import hide_trace
from watchkeeper.domain.model import Condemnation, ExitFact, Run, TaskSpec, Trace
from watchkeeper.domain.redaction import Redactor
from watchkeeper.ports.harness import EventKind, Harness, StreamEvent, StreamReader
from watchkeeper.ports.runtime import Executions

_CHUNK = 1024 * 1024
_LOST = b"\0"
"""No secret goes on behind a part that is not kept."""
_STDERR_TAIL = 8 * 1024
_ANSWERS = frozenset({EventKind.TEXT, EventKind.TOOL})
"""What a program prints only once its model has answered."""


def read_trace(
    harness: Harness,
    spec: TaskSpec,
    executions: Executions,
    run: Run,
    exit_fact: ExitFact | None,
    redactor: Redactor,
) -> Trace | None:
    """What a run's output came to, its words without secrets, or None if it cannot be read.

    What happened is judged by the output as it is. Where it holds a secret, the words are read again from output without it: a reader that shortens them
    could cut a secret in two, and nobody would know the halves.
    """
    reader, stream = harness.reader(spec), redactor.stream()
    try:
        for data in _kept(executions, run):
            _ = take(reader, data)
            _ = stream.feed(_LOST if data is None else data)
        _ = stream.finish()
        tail, hidden_tail = _tail(executions.log(run, "stderr"), redactor)
        trace = reader.trace(exit_fact, tail)
        if stream.count or tail != hidden_tail:
            words = _words(harness.reader(spec), _kept(executions, run), redactor).trace(exit_fact, hidden_tail)
            named = {"harness_session": words.harness_session, "model": words.model}
            trace = replace(trace, text=words.text, reason=words.reason, **named)
    except OSError:
        return None
    return hide_trace(redactor, trace)


def take(reader: StreamReader, piece: bytes | None) -> list[StreamEvent]:
    """Hand a piece of a log to its reader; None is a part that is not kept."""
    return reader.gap() if piece is None else reader.feed(piece)


def _words(reader: StreamReader, pieces: Iterator[bytes | None], redactor: Redactor) -> StreamReader:
    stream, lost = redactor.stream(), False
    for piece in pieces:
        if piece is None:
            _ = reader.feed(stream.finish(cut=True))
            _ = reader.gap()
        else:
            _ = reader.feed(stream.resume(piece) if lost else stream.feed(piece))
        lost = piece is None
    _ = reader.feed(stream.finish())
    return reader


def _kept(executions: Executions, run: Run) -> Iterator[bytes | None]:
    """What is kept of standard output, and None for each part that is not."""
    at = 0
    with executions.log(run, "stdout").open("rb") as log:
        while True:
            hole = next((end for start, end in executions.dropped(run, "stdout") if start <= at < end), None)
            if hole is not None:
                yield None
                at = log.seek(hole)
                continue
            data = log.read(_CHUNK)
            if not data:
                return
            # A hole is on record before it is punched. One that appeared meanwhile may have zeroed what was just read.
            begins = min(
                (start for start, end in executions.dropped(run, "stdout") if end > at), default=at + len(data)
            )
            data = data[: max(0, begins - at)]
            at = log.seek(at + len(data))
            if data:
                yield data


def _tail(path: Path, redactor: Redactor) -> tuple[str, str]:
    """The end of a log, as it is and without secrets; one that was never opened is empty, because the spawn failed before it."""
    try:
        with path.open("rb") as log:
            start = max(0, log.seek(0, 2) - _STDERR_TAIL)
            before = min(start, redactor.longest)  # a secret may begin before the end does
            _ = log.seek(start - before)
            data = log.read()
    except FileNotFoundError:
        return "", ""
    stream = redactor.stream()
    _ = stream.feed(data[:before])
    hidden = stream.feed(data[before:]) + stream.finish()
    return data[before:].decode("utf-8", "replace"), hidden.decode("utf-8", "replace")


@dataclass(slots=True)
class Follower:
    """Follows one run's output from its beginning. Holds nothing that another could not read again."""

    account: str
    """The id of the account that it works under; empty: a plain command, behind which there is no service."""
    reader: StreamReader
    path: Path
    redactor: Redactor
    dropped: Callable[[], list[tuple[int, int]]] = list
    """Ranges of it that are not kept."""
    offset: int = 0
    told_session: str | None = None
    told_condemned: bool = field(default=False)
    read_at: datetime | None = None
    """When all that was printed had been read, so that what is read next was printed after it; None: not yet."""
    answered: datetime | None = None
    """When at the earliest the model gave the newest answer that was read; None if there is none that was not taken."""

    def advance(self, started: datetime, now: datetime) -> bool:
        """Read what is new, at most a few chunks at a time; True if there was anything. `started`: when the agent was."""
        try:
            with self.path.open("rb") as log:
                _ = log.seek(self.offset)
                data = log.read(8 * _CHUNK)
        except FileNotFoundError:
            return False
        hole = next((end for start, end in self.dropped() if start <= self.offset < end), None)
        if hole is not None:
            self.offset = hole
            _ = self.reader.gap()
            return True
        begins = min((start for start, end in self.dropped() if end > self.offset), default=None)
        data = data if begins is None else data[: begins - self.offset]
        since = self.read_at or started
        if len(data) < 8 * _CHUNK:
            self.read_at = now
        if not data:
            return False
        self.offset += len(data)
        if any(event.kind in _ANSWERS for event in self.reader.feed(data)):
            self.answered = since
        return True

    def take_answer(self) -> datetime | None:
        """When at the earliest the model answered last, if it was not taken yet."""
        found, self.answered = self.answered, None
        return found

    def condemned(self) -> Condemnation | None:
        """A verdict of the stream that was not told yet, in words without secrets."""
        found = None if self.told_condemned else self.reader.condemned()
        return None if found is None else replace(found, reason=self.redactor.text(found.reason))

    def session(self) -> str | None:
        """The conversation's name, if it was not told yet."""
        session = self.reader.trace(None, "").harness_session
        session = None if session is None else self.redactor.text(session)
        return session if session != self.told_session else None
