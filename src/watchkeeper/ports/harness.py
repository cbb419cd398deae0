"""Agent programs: how to find one, how to start it, how to read what it prints.

A new harness is one file with one class that has these five methods; users add theirs through the entry point group `watchkeeper.harnesses`, whose
names are harness names and whose objects are called without arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, cast

from watchkeeper.domain.model import Condemnation, ExitFact, TaskSpec, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An installed agent program."""

    path: str
    version: str | None
    """None: it did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be run."""

    spec: TaskSpec
    program: Program
    environment: Mapping[str, str]
    """The caller's captured environment, already reduced to the allow-list and the names that were asked for."""
    directory: str
    """The execution directory; files put there by `files` are readable by the agent."""
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings of this harness (`[harness.NAME]`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPlan:
    """How to start it."""

    argv: tuple[str | None, ...]
    """None is where the prompt's text or path goes, see `prompt_by`."""
    environment: Mapping[str, str]
    """The agent's whole environment but for the run's marker, which is added."""
    prompt_by: str
    """`stdin`, `argument`, `file` or `none`."""


class EventKind(StrEnum):
    """What a line of an agent's stream is about."""

    SESSION = "session"
    TEXT = "text"
    TOOL = "tool"
    TOOL_RESULT = "tool_result"
    RETRY = "retry"
    NOTE = "note"
    RESULT = "result"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """One thing the agent did or said, in words for people."""

    kind: EventKind
    text: str
    at: datetime | None = None
    """The program's own time stamp, where it gives one."""


class StreamReader(Protocol):
    """Reads one run's output as it grows. Pure: the same bytes give the same answers however they are cut."""

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Take more of standard output and return what it completed. Never raises on anything a program may print."""
        ...

    def condemned(self) -> Condemnation | None:
        """Set as soon as the stream has shown that the run can only fail, such as a refused sign-in that the program would try ten times."""
        ...

    def trace(self, exit_fact: ExitFact | None, stderr_tail: str) -> Trace:
        """What it all came to: while it runs (`exit_fact` None) so far, afterwards finally."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What an agent may do under a harness's default profile, said before it starts."""

    says: str
    """For example: 'may edit files and run commands as you; asks nobody'."""
    network: str
    sandbox: str


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
    own = cast("FindsForTask | None", harness if hasattr(harness, "find_for") else None)
    if own is not None:
        return own.find_for(spec, environment, options)
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

    def plan(self, order: Order) -> CommandPlan:
        """Build command line and environment. Pure."""
        ...

    def reader(self, spec: TaskSpec) -> StreamReader:
        """A new reader for one run's output."""
        ...

    def takeover(self, spec: TaskSpec, session: str) -> str | None:
        """The command line with which a person takes the conversation over in the program itself, or None."""
        ...
