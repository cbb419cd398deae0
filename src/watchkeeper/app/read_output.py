"""Read what an agent printed: all of it at the end, or as it grows."""

import errno
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from watchkeeper.app.secrets import hide_trace
from watchkeeper.domain.model import EarlyFail, ExitFact, Run, TaskSpec, Trace
from watchkeeper.domain.progress import LOOKED_AT, Progress
from watchkeeper.ports.harness import EventKind, Harness, StreamEvent, StreamReader, has_answered
from watchkeeper.ports.runtime import Executions, Hole, Log
from watchkeeper.redaction.engine import RedactedStream, Redactor

_AT_ONCE = 8 * 1024 * 1024
"""Bytes that one look at a working agent reads at most."""

_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_LONGEST_LOOK_S = 5.0
"""Two looks that are further apart had a sleep of the machine, or a suspension of this process, between them."""

_LOST = b"\0"
"""A secret does not continue after a part that is not kept."""
_STDERR_TAIL = 8 * 1024
_ANSWERS = frozenset({EventKind.TEXT, EventKind.TOOL})
"""What a program prints only once its model has answered."""


class Read(NamedTuple):
    """What a run's output came to, or why it cannot be read."""

    trace: Trace | None
    why: str = ""


def read_trace(
    harness: Harness,
    spec: TaskSpec,
    executions: Executions,
    run: Run,
    exit_fact: ExitFact | None,
    redactor: Redactor,
) -> Read:
    """What a run's output came to, its words without secrets. It costs what is kept of the output, and is read as far as it went when this began.

    What happened is judged by the output as it is. Where it holds a secret, the words are read again from output without it: a reader that shortens them
    could cut a secret in two, and the halves would not be recognised.

    Raises:
        OSError: the system lacks descriptors or memory.
    """
    reader, stream = harness.reader(spec), redactor.stream()
    try:
        with executions.open_log(run, "stdout") as log:
            if log is None:
                return Read(None, "it is not there any more")
            for piece in log.read():
                _ = take(reader, piece)
                _ = hide(stream, piece)
            _ = stream.finish()
            tail, hidden_tail = _tail(executions, run, redactor)
            trace = reader.trace(exit_fact, tail)
            if stream.count or tail != hidden_tail:
                words = _words(harness.reader(spec), log, redactor).trace(exit_fact, hidden_tail)
                named = {"harness_session": words.harness_session, "model": words.model}
                trace = replace(trace, text=words.text, reason=words.reason, **named)
    except OSError as problem:
        if problem.errno in _PASSING:
            raise  # that says nothing of the log
        return Read(None, problem.strerror or str(problem))
    return Read(hide_trace(redactor, trace))


def take(reader: StreamReader, piece: bytes | Hole) -> list[StreamEvent]:
    """Hand a piece of a log to its reader."""
    return reader.gap() if isinstance(piece, Hole) else reader.feed(piece)


def hide(stream: RedactedStream, piece: bytes | Hole) -> bytes:
    """Hand a piece of a log to the redactor; a secret does not continue after a hole."""
    return stream.feed(_LOST if isinstance(piece, Hole) else piece)


def _words(reader: StreamReader, log: Log, redactor: Redactor) -> StreamReader:
    stream, lost = redactor.stream(), False
    for piece in log.read():
        if isinstance(piece, Hole):
            _ = reader.feed(stream.finish(cut=True))
            _ = reader.gap()
            lost = True
        else:
            _ = reader.feed(stream.resume(piece) if lost else stream.feed(piece))
            lost = False
    _ = reader.feed(stream.finish())
    return reader


def _tail(executions: Executions, run: Run, redactor: Redactor) -> tuple[str, str]:
    """The end of standard error, as it is and without secrets; where it was never opened it is empty, because the spawn failed before it."""
    with executions.open_log(run, "stderr") as log:
        data = (
            b"" if log is None else log.tail(_STDERR_TAIL + redactor.longest)
        )  # a secret may begin before the end does
    before = max(0, len(data) - _STDERR_TAIL)
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
    open_log: Callable[[], AbstractContextManager[Log | None]]
    redactor: Callable[[], Redactor]
    """What hides the run's secrets. It is asked for only where words of the output are stored: to make it may take a large part of a second."""
    open_errors: Callable[[], AbstractContextManager[Log | None]] | None = None
    """Opens its standard error, which counts for progress only."""
    waits: bool = False
    """Wait for what continues after the final answer."""
    offset: int = 0
    errors_offset: int = -1
    told_session: str | None = None
    early_fail_recorded: bool = field(default=False)
    read_at: datetime | None = None
    """When all that was printed had been read, so that what is read next was printed after it; None: not yet."""
    progress: Progress = field(default_factory=Progress)
    looked_s: float | None = None
    """When, in seconds since boot, the last look was."""
    idle_s: float = 0.0
    """For how long it has printed nothing new: counted look by look, so that no sleep counts."""
    lingers_s: float = 0.0
    """For how long it has gone on after its final answer, counted in the same way."""
    progressed: datetime | None = None
    """When something new was seen last; None: since we follow it, nothing was."""
    moved: bool = False
    """Something new was printed that was not counted yet."""
    told_lingering: bool = False
    answered: datetime | None = None
    """When at the earliest the model gave the newest answer that was read; None if there is none that was not taken."""

    def advance(self, started: datetime, now: datetime) -> bool:
        """Read what is new, at most a few chunks at a time; True if there was anything. `started`: when the agent was."""
        since, got = self.read_at or started, 0
        with self.open_log() as log:
            for piece in log.read(self.offset, _AT_ONCE) if log is not None else ():
                self.offset = piece.end if isinstance(piece, Hole) else self.offset + len(piece)
                got += 0 if isinstance(piece, Hole) else len(piece)
                if any(event.kind in _ANSWERS for event in take(self.reader, piece)):
                    self.answered = since
                self.moved = (isinstance(piece, bytes) and self.progress.feed(piece)) or self.moved
            if log is not None and got < _AT_ONCE:
                self.read_at = now
        return got > 0

    def advance_errors(self) -> bool:
        """Look at the newest part of what is new on standard error; True if there was anything."""
        if self.open_errors is None:
            return False
        with self.open_errors() as log:
            size = 0 if log is None else log.size
            start = max(0, size - LOOKED_AT, self.errors_offset)
            first, self.errors_offset = self.errors_offset < 0, size
            for piece in log.read(start, LOOKED_AT) if log is not None and size > start else ():
                self.moved = (isinstance(piece, bytes) and self.progress.feed(piece)) or self.moved
            return size > start and not first

    def watch(self, now: datetime, now_s: float) -> None:
        """Count for how long nothing new was printed. To be called at each look, after `advance`."""
        since_s = 0.0 if self.looked_s is None else min(max(0.0, now_s - self.looked_s), _LONGEST_LOOK_S)
        moved, self.moved = self.moved, False
        self.lingers_s = self.lingers_s + since_s if has_answered(self.reader) else 0.0
        if not self.caught_up:
            return
        if moved and self.looked_s is not None:
            self.idle_s, self.progressed = 0.0, now
        else:
            self.idle_s += since_s
        self.looked_s = now_s  # what was there when we caught up says nothing of when it was printed

    @property
    def caught_up(self) -> bool:
        """Whether all was read that was printed before we began to follow."""
        return self.read_at is not None

    def take_answer(self) -> datetime | None:
        """When at the earliest the model answered last, if it was not taken yet."""
        found, self.answered = self.answered, None
        return found

    def early_fail(self) -> EarlyFail | None:
        """A verdict of the stream that was not told yet, in words without secrets."""
        found = None if self.early_fail_recorded else self.reader.early_fail()
        return None if found is None else replace(found, reason=self.redactor().text(found.reason))

    def session(self) -> str | None:
        """The conversation's name, if it was not told yet."""
        session = self.reader.trace(None, "").harness_session
        session = None if session is None else self.redactor().text(session)
        return session if session != self.told_session else None
