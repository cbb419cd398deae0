"""A harness that is a TOML file; `docs/harnesses/file.md` says what the file may hold.

The file says how the program is started and how its answer is read. It promises nothing about what the program may do, because Watchkeeper could
enforce none of it: the program is an ordinary process of the user's, and the line before a run says so.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from shlex import join
from typing import cast

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import EarlyFail, EndReason, ExitFact, TaskSpec, Trace
from watchkeeper.domain.profile import RightsLevel
from watchkeeper.errors import BadTask, HarnessError
from watchkeeper.harnesses.command import LITERALS, PLACEHOLDERS, CommandReader, check_argument, check_words
from watchkeeper.harnesses.configuration import Table, Unreadable, read_toml
from watchkeeper.harnesses.ending import ended, kept_text, last_line, sentence
from watchkeeper.harnesses.json_lines import JsonLines, OutputLine, at, text_at
from watchkeeper.harnesses.program import Programs
from watchkeeper.harnesses.prompt_text import check_prompt
from watchkeeper.ports.harness import (
    CommandPlan,
    EventKind,
    LaunchRequest,
    Levels,
    Program,
    Rights,
    StreamEvent,
    StreamReader,
    declared,
)

OPTIONS_PLACE = "{options}"
"""The word of a command where the arguments of isolation, model and options go."""

_RESERVED = frozenset({"account", "isolation", "program"})
"""Options that mean the same for every harness."""

_VALUE = "{value}"
_HINT = "Correct the file; docs/harnesses/file.md says what it may hold."
_EVENTS = ("final", "failed", "tool")
_FIELDS = ("text", "reason", "session")


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a file describes."""

    command: tuple[str, ...] = ()
    version: tuple[str, ...] = ("--version",)
    """Arguments with which the program prints its version; none: it is not asked."""
    install: str = ""
    """How to get the program, for people."""
    environment: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    """Arguments that pass the model on; none: the program takes none."""
    resume: tuple[str, ...] = ()
    """The command line with which a person continues a conversation."""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Its options, each with the arguments that it adds."""
    isolations: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The words that `--isolation` may have, each with the arguments that it adds."""
    output: Mapping[str, object] | None = None
    """How JSON lines are read, see `JsonReader`; None: the output is text."""

    @property
    def prompt_by(self) -> str:
        """How the prompt reaches the program."""
        return next((PLACEHOLDERS[word] for word in self.command if word in PLACEHOLDERS), "stdin")

    @property
    def digest(self) -> str:
        """Eight hex digits of everything that shapes a command line or its environment: a part of what a person allows."""
        shapes = (self.command, self.environment, self.model, dict(self.options), dict(self.isolations))
        return sha256(json.dumps(shapes, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:8]


def read(file: Path) -> Description:
    """What a file describes.

    Raises:
        HarnessError: it cannot be read, or holds what is not understood.
    """
    try:
        return _description(read_toml(file))
    except Unreadable as problem:
        raise HarnessError(str(problem), hint=_HINT) from problem
    except (ValueError, BadTask) as problem:
        raise HarnessError(f"The harness file {file} cannot be used: {problem}", hint=_HINT) from problem


def _description(table: Table) -> Description:
    """Raises ValueError, or BadTask, with a sentence."""
    strange = sorted(set(table) - set(Description.__dataclass_fields__))
    if strange:
        raise ValueError(f"there is no key '{strange[0]}'.")
    lists = ("command", "version", "environment", "model", "resume")
    given: dict[str, object] = {name: _words(name, table[name]) for name in lists if name in table}
    for name in ("options", "isolations"):
        given[name] = {key: _words(f"{name}.{key}", each) for key, each in _table(name, table.get(name, {})).items()}
    install, output = _text("install", table.get("install", "")), table.get("output", "text")
    if output != "text":
        given["output"] = _output(_table("output", output))
    made = Description(install=install, **given)  # pyright: ignore[reportArgumentType] - each was read as what its field holds
    check_words(made.command)
    if (made.model or made.options or made.isolations) and OPTIONS_PLACE not in made.command:
        raise ValueError(
            f"'command' has no word {OPTIONS_PLACE}, where the arguments of model, options and isolations go."
        )
    if taken := sorted(_RESERVED & set(made.options)):
        raise ValueError(f"'{taken[0]}' cannot be an option of its own: every harness has it.")
    if "*" in made.environment:
        raise ValueError("'environment' lets every variable through; name those that the program needs.")
    return made


def _words(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, list) and all(
        isinstance(each, str) and "\0" not in each for each in cast("list[object]", value)
    ):
        return tuple(cast("list[str]", value))
    raise ValueError(f"'{name}' must be a list of texts.")


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"'{name}' must be a text.")


def _table(name: str, value: object) -> Table:
    if isinstance(value, dict):
        return cast("Table", value)
    raise ValueError(f"'{name}' must be a table.")


def _output(table: Table) -> Table:
    strange = sorted(set(table) - {*_FIELDS, *_EVENTS})
    if strange:
        raise ValueError(f"there is no key 'output.{strange[0]}'.")
    for name in _FIELDS:
        _ = _text(f"output.{name}", table.get(name, ""))
    for name in _EVENTS:
        _ = _table(f"output.{name}", table.get(name, {}))
    return table


class DescribedHarness:
    """Runs the program that a file describes."""

    levels = Levels(decided_by=(), options={RightsLevel.FULL: {}})

    def __init__(self, name: str, description: Description, file: str, programs: Programs) -> None:
        """`file`: its path, for people."""
        self.name = name
        self._is = description
        self._file = file
        self._programs = programs
        self.environment = description.environment
        self.isolations = tuple(description.isolations) or ("user",)
        self.options = {
            "program": "the program's name or path",
            **({"isolation": ", ".join(description.isolations)} if description.isolations else {}),
            **{option: join(arguments) for option, arguments in description.options.items()},
        }

    def find(self, environment: Mapping[str, str], options: Mapping[str, str]) -> Program:
        """Find it on the caller's PATH, or where the option `program` names it."""
        self._check_options(options)
        given = self._is
        configured = options.get("program", "")
        return self._programs.find(
            given.command[0], environment, configured=configured, hint=given.install, ask=given.version
        )

    def rights(self, spec: TaskSpec, options: Mapping[str, str]) -> Rights:
        """It is an ordinary process of the user's, whatever the program promises by itself."""
        reads = ""
        if self._is.isolations:
            chosen = self._isolation(spec, options)
            arguments = join(self._is.isolations[chosen]) or "no arguments"
            reads = f"what the program reads with {arguments}, which {self._file} names the isolation '{chosen}'; not checked"
        return Rights(
            detail=f"{self.name}, as its file describes it ({self._is.digest}), may do what you may; Watchkeeper enforces no limits on it",
            network="yours",
            sandbox="none",
            reads=reads,
            brief=("no sandbox", "your network", "runs as you"),
        )

    def check(self, spec: TaskSpec) -> None:
        """Refuse what the program does not take.

        Raises:
            BadTask: a command line, a model that could not be passed on, or a prompt that would not arrive as it stands.
        """
        if spec.argv:
            msg = f"The harness {self.name} takes a prompt, not a command line."
            raise BadTask(msg, hint="To run a command use `--harness command`.")
        if spec.model is not None and not self._is.model:
            msg = f"The harness {self.name} takes no model, and the model '{spec.model}' is asked for."
            raise BadTask(msg, hint=f'Describe in {self._file} how it is passed on: model = ["--model", "{{value}}"].')
        check_prompt(spec.prompt, self.name)
        if self._is.prompt_by != "argument":
            return
        check_argument(spec.prompt)
        before = self._is.command[self._is.command.index("{prompt}") - 1]
        if spec.prompt.startswith("-") and before != "--":
            msg = f"The prompt begins with a dash, which {self.name} would take for an option."
            raise BadTask(
                msg, hint="Begin it with a word; or let the program read it from standard input or {prompt_file}."
            )

    def plan(self, request: LaunchRequest) -> CommandPlan:
        """Put the arguments and the place of the prompt into the command line.

        Raises:
            BadTask: an option is not declared.
        """
        self._check_options(request.options)
        argv: list[str | None] = [request.program.path]
        for word in self._is.command[1:]:
            if word == OPTIONS_PLACE:
                argv += self._arguments(request)
            else:
                argv.append(None if word in PLACEHOLDERS else LITERALS.get(word, word))
        return CommandPlan(argv=tuple(argv), environment=request.environment, prompt_by=self._is.prompt_by)

    def reader(self, spec: TaskSpec) -> StreamReader:
        """A reader of text, or of JSON lines."""
        del spec
        return CommandReader() if self._is.output is None else JsonReader(self._is.output)

    def takeover(self, spec: TaskSpec, session: str) -> str | None:
        """As the file describes it."""
        del spec
        return join(_filled(self._is.resume, session)) if self._is.resume else None

    def _isolation(self, spec: TaskSpec, options: Mapping[str, str]) -> str:
        return declared(self).isolation(spec.isolation, options)

    def _arguments(self, request: LaunchRequest) -> list[str]:
        given, options = self._is, request.options
        words = list(given.isolations.get(self._isolation(request.spec, options), ()))
        if request.spec.model is not None:
            words += _filled(given.model, request.spec.model)
        for option, arguments in given.options.items():
            if option in options:
                words += _filled(arguments, options[option])
        return words

    def _check_options(self, options: Mapping[str, str]) -> None:
        if strange := sorted(set(options) - set(self.options)):
            msg = f"The harness {self.name} has no option '{strange[0]}'."
            raise BadTask(msg, hint=f"It has: {', '.join(sorted(self.options))}.")


def _filled(words: Sequence[str], value: str) -> list[str]:
    return [word.replace(_VALUE, value) for word in words]


class JsonReader:
    """Reads JSON lines as a file describes them.

    `text`, `reason` and `session` name fields, with dots between the names of nested ones; the last line that has one counts. `final`, `failed` and `tool`
    are tables of fields and values: a line that has all of them is such an event. Without a `final` event the exit code decides.
    """

    def __init__(self, output: Mapping[str, object]) -> None:
        """Read as `output` describes."""
        self._is = output
        self._lines = JsonLines()
        self._found = dict.fromkeys(_FIELDS, "")
        self._seen = dict.fromkeys(_EVENTS, 0)

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Take more output; events that carry nothing for people are left out."""
        return [event for line in self._lines.feed(data) if (event := self._take(line)) is not None]

    def gap(self) -> list[StreamEvent]:
        """Part of the output is not kept here."""
        self._lines.gap()
        return []

    def early_fail(self) -> EarlyFail | None:
        """A file describes no event that makes a run fail early."""

    def answered(self) -> bool:
        """Whether the final event was read."""
        return bool(self._seen["final"])

    def trace(self, exit_fact: ExitFact | None, stderr_tail: str) -> Trace:
        """The final event decides, or the exit code where none is described."""
        if exit_fact is not None:
            for line in self._lines.finish():
                self._take(line)
        by_event = "final" in self._is
        exited = exit_fact is not None and exit_fact.status is not None
        finished = self.answered() if by_event else exited
        good = by_event or (exit_fact is not None and exit_fact.status == 0)
        ok = finished and good and not self._seen["failed"]
        reason, kind = "", None
        if self._seen["failed"]:
            reason = sentence(self._found["reason"]) or "The program printed that it failed."
        elif not ok and exit_fact is not None and exit_fact.reason is EndReason.EXITED:
            kind = FailureKind.CRASH
            lacks = " without its final event" if by_event else ""
            reason = f"The program ended{lacks} with {ended(exit_fact)}: {sentence(last_line(stderr_tail))}".rstrip(
                ": "
            )
        return Trace(
            finished=finished,
            ok=ok,
            answered=ok and by_event,
            kind=kind,
            reason=reason,
            text=self._found["text"],
            harness_session=self._found["session"] or None,
            tool_calls=self._seen["tool"],
            expects_trace="tool" in self._is,
            whole=not self._lines.left_out,
        )

    def _take(self, line: OutputLine) -> StreamEvent | None:
        if isinstance(line, str):
            return StreamEvent(kind=EventKind.NOTE, text=line)
        for name in _EVENTS:
            self._seen[name] += self._is_event(line, name)
        fields = {name: str(self._is[name]).split(".") for name in _FIELDS if self._is.get(name)}
        found = dict.fromkeys(_FIELDS, "") | {name: kept_text(text_at(line, *path)) for name, path in fields.items()}
        self._found |= {name: text for name, text in found.items() if text}
        if self._is_event(line, "tool"):
            return StreamEvent(kind=EventKind.TOOL, text=found["text"])
        if self._is_event(line, "final"):
            return StreamEvent(kind=EventKind.RESULT, text=found["text"] or found["reason"])
        return StreamEvent(kind=EventKind.TEXT, text=found["text"]) if found["text"] else None

    def _is_event(self, line: Mapping[str, object], name: str) -> bool:
        wanted = cast("Mapping[str, object]", self._is.get(name, {}))
        return bool(wanted) and all(_is_same(at(line, *field.split(".")), value) for field, value in wanted.items())


def _is_same(found: object, value: object) -> bool:
    """Whether they are equal as JSON: 1 is not true."""
    return isinstance(found, bool) is isinstance(value, bool) and found == value
