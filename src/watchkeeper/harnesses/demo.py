"""The demo agent: a scripted agent that ships with us, so that a whole run can be seen and tested without a model.

It is a real process in every respect; its language is in docs/harnesses/demo.md. Its final `result` event decides, and
its absence is a crash, whatever the exit code says.
"""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from watchkeeper import demo
from watchkeeper.domain.failure import ROWS, FailureKind
from watchkeeper.domain.model import EarlyFail, EndReason, ExitFact, TaskSpec, Trace, Usage
from watchkeeper.domain.profile import RightsLevel
from watchkeeper.errors import BadTask, ProgramMissing
from watchkeeper.harnesses.ending import ended, last_line
from watchkeeper.harnesses.json_lines import JsonLines, OutputLine, amount_at, at, count_at, text_at
from watchkeeper.ports.harness import (
    CommandPlan,
    EventKind,
    LaunchRequest,
    Levels,
    Program,
    ResumePlan,
    Rights,
    Route,
    StreamEvent,
)

OPTIONS = {"pace": "seconds that the story pauses between its steps"}
MAX_PACE_S = 60.0

_HOPELESS = frozenset({FailureKind.SIGNED_OUT, FailureKind.BAD_REQUEST, FailureKind.CONTEXT_FULL})
"""Trying again cannot help: a retry event of these kinds makes the run fail early."""


class Demo:
    """Runs the scripted agent."""

    name = "demo"
    options = OPTIONS
    levels = Levels(decided_by=(), options={RightsLevel.FULL: {}})
    environment = ("DEMO_HOME",)
    home_variable = "DEMO_HOME"
    key_variables = ()

    def find(self, environment: Mapping[str, str], options: Mapping[str, str]) -> Program:
        """The interpreter that runs us; the agent's version is ours.

        Raises:
            ProgramMissing: the interpreter is not known.
        """
        del environment, options
        if not sys.executable:
            msg = "The demo agent cannot be started: this Python does not know where it is."
            raise ProgramMissing(msg, hint="Run watchkeeper with an ordinary Python.")
        try:
            return Program(path=sys.executable, version=version("watchkeeper"))
        except PackageNotFoundError:
            return Program(path=sys.executable, version=None)

    def rights(self, spec: TaskSpec, options: Mapping[str, str]) -> Rights:
        """It does what the script says."""
        del spec, options
        return Rights(
            detail="a scripted agent that asks no model; it may edit files and run commands as you, if its script says so",
            network="not used by itself",
            sandbox="none",
            brief=("no sandbox", "your network", "does what its script says"),
        )

    def check(self, spec: TaskSpec) -> None:
        """Refuse what the scripted agent does not have.

        Raises:
            BadTask: a command line was given.
        """
        if spec.argv:
            msg = "The demo agent takes a prompt, not a command line."
            raise BadTask(msg, hint="To run a command use `--harness command`.")

    def plan(self, request: LaunchRequest) -> CommandPlan:
        """The agent by its path, in an interpreter that takes nothing from the environment."""
        argv = [request.program.path, "-I", "-S", _file("agent.py")]
        pace = request.options.get("pace")
        if pace is not None:
            argv += ["--pace", f"{_pace(pace):g}"]
        return CommandPlan(argv=tuple(argv), environment=request.environment, prompt_by="stdin")

    def resume(self, argv: Sequence[str | None], session: str, text: str) -> ResumePlan:
        """The agent takes the text for its next script, and keeps the conversation's id."""
        return ResumePlan(argv=(*argv, "--session", session), prompt=text)

    def route(self, spec: TaskSpec, environment: Mapping[str, str], options: Mapping[str, str]) -> Route:
        """It asks no model."""
        del spec, environment, options
        return Route()

    def reader(self, spec: TaskSpec) -> "DemoReader":
        """A reader of the agent's events."""
        del spec
        return DemoReader()

    def takeover(self, spec: TaskSpec, session: str) -> str | None:
        """There is no conversation to take over."""
        del spec, session

    def sign_in_files(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """A pretended sign-in: the file `signed-in` in the home. Without a home it needs none."""
        home = environment.get("DEMO_HOME")
        return (f"{home}/signed-in" if home else demo.__file__,)

    def sign_in_question(self, program: Program) -> tuple[str, ...] | None:
        """The file says it."""
        del program

    def login(self, program: Program, *, terminal: bool) -> tuple[str, ...]:
        """Takes any word for a key, from the terminal or not."""
        del terminal
        return (program.path, "-I", "-S", _file("login.py"))


def _file(name: str) -> str:
    return str(Path(demo.__file__).with_name(name))


def _pace(text: str) -> float:
    try:
        pace = float(text)
    except ValueError:
        pace = -1.0
    if not 0 <= pace <= MAX_PACE_S:
        msg = f"The option pace of the demo harness is '{text}'."
        raise BadTask(msg, hint=f"It is a number of seconds from 0 to {MAX_PACE_S:g}.")
    return pace


class DemoReader:
    """Folds the agent's events into a trace."""

    def __init__(self) -> None:
        self._lines = JsonLines()
        self._result: dict[str, object] | None = None
        self._early_fail: EarlyFail | None = None
        self._session = ""
        self._model = ""
        self._text = ""
        self._steps = 0
        self._tools = 0
        self._usage = Usage()

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Take more output; events that carry nothing for people are left out."""
        return [event for line in self._lines.feed(data) if (event := self._take(line)) is not None]

    def gap(self) -> list[StreamEvent]:
        """Part of standard output is not kept here."""
        self._lines.gap()
        return []

    def early_fail(self) -> EarlyFail | None:
        """Set by a retry event that trying again cannot help."""
        return self._early_fail

    def answered(self) -> bool:
        """Whether its final event was read."""
        return self._result is not None

    def trace(self, exit_fact: ExitFact | None, stderr_tail: str) -> Trace:
        """The final event decides; once the process has ended, its absence is a crash."""
        if exit_fact is not None:
            for line in self._lines.finish():
                self._take(line)
        result = self._result
        ok = result is not None and at(result, "ok") is True
        kind, reason = self._failure(exit_fact, stderr_tail)
        return Trace(
            finished=result is not None,
            ok=ok,
            answered=ok,
            kind=kind,
            reason=reason,
            text=(text_at(result, "text") if ok else "") or self._text,
            harness_session=self._session or None,
            model=self._model or None,
            turns=1 if result is not None else None,
            steps=self._steps,
            tool_calls=self._tools,
            usage=self._usage,
            quota_until=_time(text_at(result, "until")),
            expects_trace=True,
            whole=not self._lines.left_out,
        )

    def _failure(self, exit_fact: ExitFact | None, stderr_tail: str) -> tuple[FailureKind | None, str]:
        if self._result is not None:
            if at(self._result, "ok") is True:
                return None, ""
            kind = _kind(text_at(self._result, "kind"))
            return kind, text_at(self._result, "text") or ROWS[kind].detail
        if exit_fact is None or exit_fact.reason is not EndReason.EXITED:
            return None, ""
        if self._lines.left_out and exit_fact.signal is None:
            return None, ""  # its result may be in what could not be read
        said = last_line(stderr_tail).strip()
        reason = f"The demo agent ended without a result ({ended(exit_fact)})"
        return FailureKind.CRASH, f"{reason}: {said[:300]}" if said else f"{reason}."

    def _take(self, line: OutputLine) -> StreamEvent | None:
        if isinstance(line, str):
            return StreamEvent(kind=EventKind.NOTE, text=line)
        kind = text_at(line, "type")
        text = text_at(line, "text")
        match kind:
            case "session":
                self._session = text_at(line, "session")
                self._model = text_at(line, "model")
                text = self._session
            case "text":
                self._text = text
                self._steps += 1
            case "tool":
                self._tools += 1
                self._steps += 1
                text = f"{text_at(line, 'name')} {text}"
            case "tool_result":
                text = text if at(line, "ok") is True else f"failed: {text}"
            case "usage":
                self._count(line)
            case "retry":
                self._retry(line, text)
            case "result":
                self._result = line
            case _:
                pass
        known = kind in {"session", "text", "tool", "tool_result", "retry", "result"}
        return StreamEvent(kind=EventKind(kind), text=text, at=_time(text_at(line, "at"))) if known else None

    def _count(self, line: dict[str, object]) -> None:
        self._usage = Usage(
            input_tokens=count_at(line, "input_tokens"),
            output_tokens=count_at(line, "output_tokens"),
            cost_usd=amount_at(line, "cost_usd"),
        )

    def _retry(self, line: dict[str, object], text: str) -> None:
        kind = _kind(text_at(line, "kind"))
        if kind in _HOPELESS and self._early_fail is None:
            self._early_fail = EarlyFail(kind=kind, reason=text or ROWS[kind].detail)


def _kind(name: str) -> FailureKind:
    try:
        return FailureKind(name)
    except ValueError:
        return FailureKind.UNKNOWN


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo is not None else None
