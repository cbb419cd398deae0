"""Any command as an agent.

A plain command has no events: its exit code decides, and its text is the end of what it printed. The prompt comes by
standard input unless the command line says where it goes: `{prompt}` stands for its text, `{prompt_file}` for the path of
a file that holds it. Each stands for a whole argument. `{{prompt}}` is a literal `{prompt}`.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import EarlyFail, EndReason, ExitFact, TaskSpec, Trace
from watchkeeper.domain.profile import RightsLevel
from watchkeeper.errors import BadTask
from watchkeeper.harnesses.ending import ended, last_line
from watchkeeper.harnesses.json_lines import HOLE, NUL
from watchkeeper.harnesses.program import find_command
from watchkeeper.ports.harness import CommandPlan, EventKind, LaunchRequest, Levels, Program, Rights, Route, StreamEvent

PLACEHOLDERS = {"{prompt}": "argument", "{prompt_file}": "file"}
LITERALS = {"{{prompt}}": "{prompt}", "{{prompt_file}}": "{prompt_file}"}
PROMPT_BY = ("stdin", "argument", "file", "none")
OPTIONS = {"prompt_by": "how the prompt reaches the command: stdin, argument, file or none"}

ARGUMENT_LIMIT = 128 * 1024 - 1
"""Bytes of one argument that Linux takes (MAX_ARG_STRLEN, with its final NUL)."""

TEXT_LINES = 40
"""Lines of output that are kept as a run's text."""
LINE_BYTES = 2000
"""Bytes of one line that are kept: half of them from its beginning, half from its end."""
_HALF = LINE_BYTES // 2
REASON_CHARACTERS = 300
_SHOWN = 24
"""Characters of a program's name in the line before a run."""
_PIECES = re.compile(rb"\n|[^\n]+")


class CommandHarness:
    """Runs the command line that the task brings."""

    name = "command"
    options = OPTIONS
    levels = Levels(decided_by=(), options={RightsLevel.FULL: {}})

    def find(self, environment: Mapping[str, str], options: Mapping[str, str]) -> Program:
        """Find nothing: each task names its own program, see `find_for`."""
        del environment
        _prompt_by(options)
        return Program(path="", version=None)

    def find_for(self, spec: TaskSpec, environment: Mapping[str, str], options: Mapping[str, str]) -> Program:
        """Find the program of a task's command line, as the system will when it starts it in the task's directory.

        Raises:
            ProgramMissing: it does not exist, or is not an executable file.
        """
        _prompt_by(options)
        return Program(path=find_command(spec.argv[0], environment, spec.cwd), version=None)

    def rights(self, spec: TaskSpec, options: Mapping[str, str]) -> Rights:
        """It is an ordinary process of the user's."""
        del options
        called = spec.argv[0] if spec.argv else "the command"
        name = called.rpartition("/")[2][:_SHOWN]
        return Rights(
            detail=f"{called} runs as you and may do what you may",
            network="yours",
            sandbox="none",
            brief=("no sandbox", "your network", f"{name} runs as you"),
        )

    def check(self, spec: TaskSpec) -> None:
        """Refuse a command line that cannot be started.

        Raises:
            BadTask: it is empty, holds a NUL, or says more than once, or within an argument, where the prompt goes.
        """
        if not spec.argv or not spec.argv[0]:
            msg = "The command harness needs a command line."
            raise BadTask(msg, hint="Give it after `--`: `wk run --harness command -- make test`.")
        check_words(spec.argv)
        if "{prompt}" in spec.argv:
            check_argument(spec.prompt)

    def plan(self, request: LaunchRequest) -> CommandPlan:
        """Put the place of the prompt into the command line.

        Raises:
            BadTask: the option `prompt_by` is not one of `PROMPT_BY`.
        """
        prompt_by = _prompt_by(request.options)
        argv = [None if word in PLACEHOLDERS else LITERALS.get(word, word) for word in request.spec.argv]
        if request.program.path and "/" not in request.spec.argv[0]:
            argv[0] = request.program.path  # what was found and shown, whatever stands on the PATH when it is started
        places = [PLACEHOLDERS[word] for word in request.spec.argv if word in PLACEHOLDERS]
        if places:
            prompt_by = places[0]
        elif prompt_by in PLACEHOLDERS.values():
            argv.append(None)
        if prompt_by == "argument":
            check_argument(request.spec.prompt)
        return CommandPlan(argv=tuple(argv), environment=request.environment, prompt_by=prompt_by)

    def route(self, spec: TaskSpec, environment: Mapping[str, str], options: Mapping[str, str]) -> Route:
        """A command sends what it sends: nothing is known of it."""
        del spec, environment, options
        return Route()

    def reader(self, spec: TaskSpec) -> "CommandReader":
        """A reader of plain output."""
        del spec
        return CommandReader()

    def takeover(self, spec: TaskSpec, session: str) -> str | None:
        """A command holds no conversation."""
        del spec, session


def check_words(words: Sequence[str]) -> None:
    """Refuse a command line that cannot be started, or whose place for the prompt is not clear. Raises BadTask."""
    if len([word for word in words if word in PLACEHOLDERS]) > 1:
        msg = "The command line says more than once where the prompt goes."
        raise BadTask(msg, hint="Leave one of {prompt} and {prompt_file}.")
    if not words or not words[0] or words[0] in PLACEHOLDERS:
        msg = "The prompt cannot be the program." if words and words[0] else "The command line names no program."
        raise BadTask(msg, hint="The first word of the command line names the program.")
    for word in words:
        _check_word(word)


def check_argument(prompt: str) -> None:
    """Refuse a prompt that no argument can hold.

    Raises:
        BadTask: it is too long, or holds a NUL.
    """
    if "\0" in prompt or len(prompt.encode()) > ARGUMENT_LIMIT:
        msg = f"This prompt cannot be an argument: the system takes up to {ARGUMENT_LIMIT} bytes without a NUL."
        raise BadTask(msg, hint="Let the command read it from standard input, or from {prompt_file}.")


def _check_word(word: str) -> None:
    if "\0" in word:
        msg = "The command line holds a NUL character."
        raise BadTask(msg, hint="No program can be given one; leave it out.")
    for place in PLACEHOLDERS:
        if place in word and word != place and word not in LITERALS:
            msg = f"In '{word[:80]}', {place} is part of an argument; it can only be a whole one."
            raise BadTask(msg, hint="For a shell script use: sh -c 'tool --ask \"$1\"' sh '{prompt}'.")


def _prompt_by(options: Mapping[str, str]) -> str:
    chosen = options.get("prompt_by", "stdin")
    if chosen not in PROMPT_BY:
        msg = f"The option prompt_by of the command harness is '{chosen}'."
        raise BadTask(msg, hint=f"It is one of: {', '.join(PROMPT_BY)}.")
    return chosen


class CommandReader:
    """Keeps the last lines of a command's output."""

    def __init__(self) -> None:
        self._line = _GrowingLine()
        self._returned = False
        self._last: deque[str] = deque(maxlen=TEXT_LINES)

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Take more output; every line that is not blank is one event."""
        events: list[StreamEvent] = []
        for piece in _PIECES.findall(data):
            if piece == b"\n":
                events += self._end()
            else:
                self._take(piece)
        return events

    def gap(self) -> list[StreamEvent]:
        """Part of the output is not kept here: what stands before it is a line."""
        return [*(self._end() if self._line else []), StreamEvent(kind=EventKind.NOTE, text=HOLE)]

    def early_fail(self) -> EarlyFail | None:
        """No output of a command makes its run fail early."""

    def trace(self, exit_fact: ExitFact | None, stderr_tail: str) -> Trace:
        """The exit code decides; of a failure the last line on standard error is the reason."""
        unfinished = self._line.text()
        text = "\n".join([*self._last, unfinished] if unfinished else self._last).strip()
        if exit_fact is None or exit_fact.status is None:
            return Trace(finished=False, ok=False, text=text)
        if exit_fact.status == 0:
            return Trace(finished=True, ok=True, text=text)
        if exit_fact.reason is not EndReason.EXITED:
            return Trace(finished=True, ok=False, text=text)
        said = last_line(stderr_tail).strip()
        more = f": {_text(said.encode())[:REASON_CHARACTERS]}" if said else "."
        reason = f"The command ended with {ended(exit_fact)}{more}"
        return Trace(finished=True, ok=False, kind=FailureKind.CRASH, reason=reason, text=text)

    def _take(self, piece: bytes) -> None:
        for number, part in enumerate(piece.split(b"\r")):
            self._returned = self._returned or number > 0
            if part and self._returned:
                # A progress bar draws over its line: the newest drawing is the line.
                self._line = _GrowingLine()
                self._returned = False
            self._line.grow(part)

    def _end(self) -> list[StreamEvent]:
        line = self._line.text()
        self._line = _GrowingLine()
        self._returned = False
        self._last.append(line)
        return [StreamEvent(kind=EventKind.TEXT, text=line)] if line.strip() else []


class _GrowingLine:
    """A line that grows: its beginning and its end."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = False

    def __bool__(self) -> bool:
        return bool(self._head)

    def grow(self, part: bytes) -> None:
        room = _HALF - len(self._head)
        self._head += part[:room]
        self._tail += part[room:]
        if len(self._tail) > _HALF:
            self._left_out = True
            del self._tail[:-_HALF]

    def text(self) -> str:
        return _text(self._head) + " … " + _text(self._tail) if self._left_out else _text(self._head + self._tail)


def _text(raw: bytes | bytearray) -> str:
    text = raw.decode("utf-8", "replace")
    return "".join(map(_shown, text)).rstrip()


@lru_cache(maxsize=4096)
def _shown(letter: str) -> str:
    if letter == "\0":
        return NUL
    return letter if letter.isprintable() or letter == "\t" else " "
