"""The daemon's log: one line an event, a lower-case message with no values in it, then `key=value` pairs.

Messages and keys are an interface; `docs/daemon.md` lists them, and a test compares.
"""

import json
import sys
import traceback
from collections.abc import Mapping
from typing import TextIO

from watchkeeper.domain.redaction import Redactor
from watchkeeper.ports.clock import Clock

MESSAGES: Mapping[str, str] = {
    "started": "the daemon is ready; says pid, incarnation and version",
    "run found": "one line for each run that a starting daemon finds; `word` says what became of it",
    "claimed": "a task was claimed for a new run",
    "prepared": "an execution directory was written and recorded",
    "observed": "evidence moved a run to another state",
    "spared": "a sweep left a process alone, and why",
    "settled": "a run's outcome was decided and applied",
    "held": "a run waits for a person, because what happened is uncertain",
    "shim silent": "a shim that is to end its agent has not answered for half a minute; it is asked on, more seldom",
    "not ended": "what may be left of a run that was settled without proof could not be ended, and is not tried any more",
    "record torn": "a record of the database cannot be read; its task is not started, all else goes on ([damage](damage.md))",
    "database damaged": "the database's own check failed, or a page of it could not be read",
    "not removed": "a task that ended long ago stays, because something stored about it contradicts the rest",
    "looked": "the sign-in of an account, or a program, for which tasks wait had changed, and was looked at",
    "pruned": "execution directories that are no longer needed, and tasks that ended long ago, were removed",
    "tick failed": "a loop's pass failed; it is tried again",
    "recovered": "a loop that had failed works again",
    "woke late": "the machine slept, or the daemon was stopped, for a while",
    "taken over": "a daemon of another directory acts under the id of this machine; this one ends",
    "outgrown": "a newer version has taken the database over, so this daemon ends; agents go on, and a newer daemon takes them over",
    "order": "somebody told the daemon to end",
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

    def info(self, message: str, **values: object) -> None:
        """Say that something happened."""
        self._write("info", message, values)

    def problem(self, message: str, problem: BaseException, **values: object) -> None:
        """Say that something failed."""
        self._write("problem", message, {**values, "error": type(problem).__name__, "says": str(problem)})
        if self._debug:
            text = "".join(traceback.format_exception(problem))
            _ = (self._stream or sys.stderr).write(self._redactor.text(text))

    def _write(self, level: str, message: str, values: Mapping[str, object]) -> None:
        if message not in MESSAGES:
            raise KeyError(message)
        pairs = " ".join(f"{key}={_value(value)}" for key, value in values.items() if value is not None)
        at = self._clock.now().isoformat(timespec="milliseconds")
        stream = self._stream or sys.stderr
        _ = stream.write(self._redactor.text(f"{at} {level} {message}{': ' if pairs else ''}{pairs}") + "\n")
        stream.flush()


def _value(value: object) -> str:
    """A value that is one word stays bare; anything else is quoted as JSON, so a line is always one line."""
    text = str(value)
    plain = text and all(c.isalnum() or c in "._-/:@+" for c in text)
    return text if plain else json.dumps(text, ensure_ascii=False)
