"""Agent programs: how to find one, how to start it, how to read what it prints.

A new harness is one file with one class that has the name and the six methods of `Harness`, and declares by class attributes what `Declared` lists. What
else a program can do has a protocol of its own: `Resumes` and `Routes` here, `SignsIn` in `ports.sign_in`. Users add theirs through the entry point group
`watchkeeper.harnesses`, whose names are harness names and whose objects are called without arguments, or as a TOML file.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, cast, runtime_checkable

from watchkeeper.domain.model import EarlyFail, ExitFact, TaskSpec, Trace
from watchkeeper.domain.profile import RightsLevel
from watchkeeper.errors import BadTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An installed agent program."""

    path: str
    version: str | None
    """None: it did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where an agent's requests to its model go, and what a run needs so that they go there."""

    host: str = ""
    """A host with its port where it names one, or words such as `Bedrock in us-east-1`. Empty: the harness sends none, or it cannot be known."""
    source: str = ""
    """What decides the host, in plain words: `the default`, `your environment (ANTHROPIC_BASE_URL)`. Empty where nothing is known of it."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables to set for the run, as name and value. They win over the captured ones, and no secret is among them."""
    arguments: tuple[str, ...] = ()
    """Further command-line arguments. Every user of the machine can read them, so no secret is among them."""
    needs: tuple[str, ...] = ()
    """Variables that the configuration names and the agent's environment lacks. Where the caller has one, it must be passed on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """What is to be run."""

    spec: TaskSpec
    program: Program
    environment: Mapping[str, str]
    """The caller's captured environment, already reduced to the allow-list and the names that were asked for."""
    directory: str
    """The execution directory; files put there by `files` are readable by the agent."""
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings of this harness (`[harness.NAME]`)."""
    route: Route = field(default_factory=Route)
    """Where requests go; `plan` adds its variables and arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPlan:
    """How to start it."""

    argv: tuple[str | None, ...]
    """None is where the prompt's text or path goes, see `prompt_by`."""
    environment: Mapping[str, str]
    """The agent's whole environment but for the run's marker, which is added."""
    prompt_by: str
    """`stdin`, `argument`, `file` or `none`."""
    prompt: str | None = None
    """What the program is given as the prompt, where the task's own text would not reach the model as it stands; None: the task's text."""


class EventKind(StrEnum):
    """What a line of an agent's stream is about."""

    SESSION = "session"
    TEXT = "text"
    TOOL = "tool"
    TOOL_RESULT = "tool_result"
    RETRY = "retry"
    NOTE = "note"
    RESULT = "result"
    STDERR = "stderr"
    """A line that was printed on standard error; no reader makes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """One thing the agent did or said, in words for people."""

    kind: EventKind
    text: str
    at: datetime | None = None
    """The program's own time stamp, where it gives one."""


class StreamReader(Protocol):
    """Reads one run's output as it grows. Pure: the same bytes give the same answers however they are cut. Bytes of value zero are the program's own."""

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Take more of standard output and return what it completed. Never raises on anything a program may print."""
        ...

    def gap(self) -> list[StreamEvent]:
        """Here a part of the output is not kept; return what that completed."""
        ...

    def early_fail(self) -> EarlyFail | None:
        """Set as soon as the stream has shown that the run can only fail, such as a refused sign-in that the program would try ten times."""
        ...

    def trace(self, exit_fact: ExitFact | None, stderr_tail: str) -> Trace:
        """What it all came to: while it runs (`exit_fact` None) so far, afterwards finally."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What an agent may do under given options, said before it starts."""

    detail: str
    """For example: 'may edit files and run commands as you; never asks'."""
    network: str
    sandbox: str
    reads: str = ""
    """Which configuration and instructions the program takes from outside; empty: not known."""
    brief: tuple[str, str, str] | None = None
    """Sandbox, network and rights in a few words each, for a line of 80 columns; None: made of the long ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """How a harness expresses the levels of rights: by some of its options."""

    decided_by: tuple[str, ...]
    """The options that decide what an agent may do."""
    options: Mapping[RightsLevel, Mapping[str, str]]
    """The options of each level; what is not here has its default. A level that is missing cannot be had."""
    defaults: Mapping[str, str] = field(default_factory=dict[str, str])
    """The defaults of these options."""

    def choose(self, level: RightsLevel, options: Mapping[str, str]) -> dict[str, str]:
        """The options with this level instead of what they said about rights. Raises KeyError if the level cannot be had."""
        return {**{k: v for k, v in options.items() if k not in self.decided_by}, **self.options[level]}

    def level_of(self, options: Mapping[str, str]) -> RightsLevel:
        """The level that the options come to."""
        chosen = self._effective(options)
        return next((each for each, of in self.options.items() if self._effective(of) == chosen), RightsLevel.CUSTOM)

    def _effective(self, options: Mapping[str, str]) -> dict[str, str]:
        return {**self.defaults, **{name: value for name, value in options.items() if name in self.decided_by}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a harness declares beside its methods, by attributes of these names. Each is optional."""

    options: Mapping[str, str] | None = None
    """Its options with what each is; None: it checks them itself."""
    levels: Levels = field(default_factory=lambda: Levels(decided_by=(), options={}))
    """The levels of rights that it offers; without them it has its defaults only."""
    isolations: Sequence[str] = ("user",)
    """What `--isolation` may be. A harness that declares nothing reads all of the user's configuration."""
    environment: Sequence[str] = ()
    """Variables of the caller that its program gets beside the standard ones: names, or beginnings followed by `*`."""
    nesting: Sequence[str] = ()
    """Variables by which its program knows that it runs inside another one of its kind. They are never passed on, because it does not."""

    def isolation(self, asked: str | None, options: Mapping[str, str]) -> str:
        """The isolation of a task: what was asked for it, else what is configured, else `project` where there is one, else the first."""
        default = "project" if "project" in self.isolations else next(iter(self.isolations), "")
        return asked or options.get("isolation", default)


_KINDS = {"options": Mapping, "levels": Levels, "isolations": Sequence, "environment": Sequence, "nesting": Sequence}


def declared(harness: "Harness") -> Declared:
    """What a harness declares; an attribute of another kind counts as not declared."""
    given = {name: cast("object", getattr(harness, name, None)) for name in _KINDS}
    return Declared(**{name: value for name, value in given.items() if isinstance(value, _KINDS[name])})  # pyright: ignore[reportArgumentType] - each of its kind


@runtime_checkable
class FindsForTask(Protocol):
    """What a harness has too whose program the task itself names."""

    def find_for(self, spec: TaskSpec, environment: Mapping[str, str], options: Mapping[str, str]) -> Program:
        """Find the program of one task.

        Raises:
            ProgramMissing: with its name and what is wrong with it.
        """
        ...


def find_program(
    harness: "Harness", spec: TaskSpec, environment: Mapping[str, str], options: Mapping[str, str]
) -> Program:
    """The program that would run a task: the harness's, or the one that the task itself names.

    Raises:
        ProgramMissing: with how to get it.
    """
    if isinstance(harness, FindsForTask):
        return harness.find_for(spec, environment, options)
    return harness.find(environment, options)


class Harness(Protocol):
    """One agent program."""

    @property
    def name(self) -> str:
        """The harness's name on the command line."""
        ...

    def find(self, environment: Mapping[str, str], options: Mapping[str, str]) -> Program:
        """Find the program on the caller's PATH and ask its version.

        Raises:
            ProgramMissing: with how to get it.
        """
        ...

    def rights(self, spec: TaskSpec, options: Mapping[str, str]) -> Rights:
        """What its agent may do, truthfully."""
        ...

    def check(self, spec: TaskSpec) -> None:
        """Refuse what this program cannot take (a prompt too long for an argument, a model it does not know). Raises BadTask."""
        ...

    def plan(self, request: LaunchRequest) -> CommandPlan:
        """Build command line and environment. Pure."""
        ...

    def reader(self, spec: TaskSpec) -> StreamReader:
        """A new reader for one run's output."""
        ...

    def takeover(self, spec: TaskSpec, session: str) -> str | None:
        """The command line with which a person takes the conversation over in the program itself, or None."""
        ...


def has_answered(reader: StreamReader) -> bool:
    """Whether the program has printed its final event and nothing behind it that takes it back. A reader without `answered` knows of no such event."""
    found = cast("Callable[[], object] | None", getattr(reader, "answered", None))
    return callable(found) and found() is True


SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")
"""What a conversation's id may be. A program's own output names it, so what could be read as an option or as a path is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePlan:
    """How a conversation is gone on with."""

    argv: tuple[str | None, ...]
    prompt: str
    """The text as the program must be given it."""


@runtime_checkable
class Resumes(Protocol):
    """A harness whose program can continue a conversation without a terminal. Optional: one without it cannot."""

    def resume(self, argv: Sequence[str | None], session: str, text: str) -> ResumePlan:
        """The command line of a first turn, turned into one that resumes the conversation `session` with `text`. Pure; every option stays as it was.

        Args:
            argv: the command line as `plan` made it and the launch profile keeps it.
            session: the conversation's id, which fits `SESSION_ID`.
            text: what is said.
        """
        ...


def resume_plan(harness: Harness, argv: Sequence[str | None], session: str, text: str) -> ResumePlan:
    """How the harness resumes a conversation.

    Raises:
        BadTask: it cannot, or the conversation's id is not one.
    """
    if not isinstance(harness, Resumes):
        raise BadTask(cannot_resume(harness.name), hint="`wk run` hands a new task over.")
    if SESSION_ID.fullmatch(session) is None:
        raise BadTask(
            "The id that the program gave its conversation cannot be passed on.",
            hint="`wk retry --fresh` begins a new one.",
        )
    return harness.resume(argv, session, text)


def cannot_resume(name: str) -> str:
    """The sentence about a harness that cannot continue a conversation."""
    return f"The {name} harness cannot continue a conversation, so nothing can be sent to its tasks."


@runtime_checkable
class Routes(Protocol):
    """A harness that can say where its program's requests go. Optional: of a harness without it nothing is known."""

    def route(self, spec: TaskSpec, environment: Mapping[str, str], options: Mapping[str, str]) -> Route:
        """Where the requests of this task's agent go, and what a run must add so that they go there.

        May read the program's configuration files (bounded in size) in the homes that `environment` names, and keeps nothing of them but the route.

        Args:
            spec: the task; its isolation decides whether the program reads the user's configuration by itself.
            environment: the captured environment of the agent, after its account was applied.
            options: settings of this harness.

        Raises:
            BadTask: the configuration sends requests elsewhere and cannot be taken over, or cannot be read; the hint says what to do.
        """
        ...


def routes(harness: Harness) -> Routes | None:
    """The harness as one that knows where requests go, or None."""
    return harness if isinstance(harness, Routes) else None
