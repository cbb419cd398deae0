"""The daemon's log: one line an event, a lower-case message with no values in it, then `key=value` pairs.

Messages and keys are an interface; `docs/daemon.md` lists them, and a test compares.
"""

import sys
import traceback
from collections.abc import Mapping
from typing import TextIO

from watchkeeper.ports.clock import Clock
from watchkeeper.redaction.engine import Redactor
from watchkeeper.safe_json import dumps

MESSAGES: Mapping[str, str] = {
    "started": "the daemon is ready; says pid, incarnation and version",
    "limited": "limits that the daemon inherited and could not raise; names them",
    "run found": "one line for each run that a starting daemon finds; `word` says what became of it",
    "claimed": "a task was claimed for a new run",
    "prepared": "an execution directory was written and recorded",
    "run waits": "the work for a run takes long, and `detail` names what it waits for; all other runs continue",
    "observed": "evidence moved a run to another state",
    "spared": "a sweep left a process alone, and why",
    "settled": "a run's outcome was decided and applied",
    "held": "a run waits for a person, because what happened is uncertain",
    "shim silent": "a shim that is to end its agent has not answered for half a minute; it is asked on, more seldom",
    "stop overdue": "a run that was asked to end has not ended in time, and is asked again",
    "no spare room": "room for a stop on a full disk could not be set aside",
    "not ended": "what may be left of a run that was settled without proof could not be ended, and is not tried any more",
    "record torn": "a record of the database cannot be read; its task is not started, all other tasks continue ([damage](damage.md))",
    "database damaged": "the database's own check failed, or a page of it could not be read",
    "not removed": "a task that ended long ago stays, because something stored about it contradicts the rest",
    "looked": "the sign-in of an account, or a program, for which tasks wait had changed, and was looked at",
    "pruned": "removed what is no longer needed: execution directories, tasks that ended long ago, sockets without a listener",
    "clock changed": "the wall clock moved by so much more than time passed; time that it jumped over makes nothing old enough to be removed",
    "notice": "a notice was sent, or could not be sent yet; `sink` names where to, `detail` says what became of it",
    "notice lost": "a notice could not be sent for so long, or in such a way, that it is given up",
    "tick failed": "a loop's pass failed; it is tried again",
    "recovered": "a loop that had failed works again",
    "woke late": "the machine slept, or the daemon was stopped, for a while",
    "lost": "the lock file, the state directory or the database is not this daemon's any more, so it ends; agents continue",
    "missing": "this log could not be written for a while, as when the disk is full; says how many lines are missing",
    "taken over": "a daemon of another directory acts under the id of this machine; this one ends",
    "outgrown": "a newer version has taken the database over, so this daemon ends; agents continue, and a newer daemon takes them over",
    "order": "a person or the system asked the daemon to end",
    "gave up": "the daemon ends while a loop waits for something that does not answer; what it was at is found again by the next one",
    "stopped": "the daemon ends",
}
"""Every message there is, and what it means."""


class Log:
    """Writes lines to a stream. Safe from several threads: a line is one write."""

    def __init__(self, clock: Clock, stream: TextIO | None = None, *, debug: bool = False) -> None:
        """`debug`: problems come with their traceback."""
        self._redactor = Redactor()
        """The daemon's errors hold no secrets that it could know by name; what looks like one is hidden all the same."""
        self._clock = clock
        self._stream = stream
        self._debug = debug
        self._missing = 0

    def info(self, message: str, **values: object) -> None:
        """Say that something happened."""
        self._write("info", message, values)

    def problem(self, message: str, problem: BaseException, **values: object) -> None:
        """Say that something failed."""
        self._write("problem", message, {**values, "error": type(problem).__name__, "detail": str(problem)})
        if self._debug:
            self._put("".join(traceback.format_exception(problem)))

    def _write(self, level: str, message: str, values: Mapping[str, object]) -> None:
        if message not in MESSAGES:
            raise KeyError(message)
        missing = self._missing
        if missing and self._put(self._line("info", "missing", {"lines": missing})):
            self._missing -= missing
        if not self._put(self._line(level, message, values)):
            self._missing += 1

    def _line(self, level: str, message: str, values: Mapping[str, object]) -> str:
        pairs = " ".join(f"{key}={_value(value)}" for key, value in values.items() if value is not None)
        at = self._clock.now().isoformat(timespec="milliseconds")
        return f"{at} {level} {message}{': ' if pairs else ''}{pairs}\n"

    def _put(self, text: str) -> bool:
        """Whether it was written. A log that cannot be, as on a full disk, is no reason to end: what is missing is said when it can be."""
        stream = self._stream or sys.stderr
        try:
            _ = stream.write(self._redactor.text(text))
            stream.flush()
        except (OSError, ValueError):
            return False
        return True


def _value(value: object) -> str:
    """A value that is one word stays bare; anything else is quoted as JSON, so a line is always one line."""
    text = str(value)
    plain = text and all(c.isalnum() or c in "._-/:@+" for c in text)
    return text if plain else dumps(text)
