"""What Codex's JSON events mean.

The events, one JSON object a line, in the order of a good run (real ones are in `tests/harnesses/codex/transcripts`):

    thread.started       the conversation's id
    turn.started
    item.started         a tool is called: command_execution, file_change, mcp_tool_call, web_search …
    item.completed       what it came to; also agent_message, reasoning, and error, which is a warning only
    error                the service did not answer well; `Reconnecting... 1/5 (why)` where the program tries again
    turn.completed       the final event of a good run, with its usage
    turn.failed          the final event of any other, with one sentence that says why

The final event decides, never the exit code. A call that the program itself refuses to its agent has no event at all: only standard error reports it, and
a command that the sandbox stops at once is not reported at all.
"""

import shlex

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import EarlyFail, EndReason, ExitFact, Trace, Usage
from watchkeeper.harnesses.codex_verdict import (
    judge_denial,
    judge_message,
    judge_resume,
    judge_sandbox,
    quota_until,
    retry_of,
    shows_sandbox,
)
from watchkeeper.harnesses.ending import judge_ending, kept_text
from watchkeeper.harnesses.json_lines import JsonLines, OutputLine, at, count_at, list_at, text_at
from watchkeeper.ports.harness import EventKind, StreamEvent

_SHOWN = 200
_HOPELESS = {FailureKind.SIGNED_OUT, FailureKind.QUOTA}
"""Kinds that trying again does not mend. By the time the program tells of a refused sign-in it has already tried to renew it."""
_FORBIDDEN = "403"
_TOOLS = {"command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call"}
_NO_WORK = {"agent_message", "reasoning", "error", "todo_list", ""}
"""Items that do nothing. Any other that is not known may be work, so that not having seen any says nothing."""
_SHELL_WORDS = 3


class CodexReader:
    """Reads one run's output."""

    def __init__(self, model: str | None = None) -> None:
        """Nothing was read yet; the stream does not say the model, so it is the one that was asked for."""
        self._model = model
        self._lines = JsonLines()
        self._begun = False
        self._session: str | None = None
        self._said = 0
        self._text = ""
        self._called: set[str] = set()
        self._worked = False
        self._edited = False
        self._ran = False
        self._strange = False
        self._failed_edits = False
        self._sandbox_said = ""
        self._error = ""
        self._early_fail: EarlyFail | None = None
        self._result: dict[str, object] | None = None

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Take more of standard output."""
        return [event for line in self._lines.feed(data) for event in self._read(line)]

    def gap(self) -> list[StreamEvent]:
        """Part of standard output is not kept here."""
        self._lines.gap()
        return []

    def early_fail(self) -> EarlyFail | None:
        """Set when the program tries again what cannot become better: a refused sign-in, a used-up limit."""
        return self._early_fail

    def answered(self) -> bool:
        """Whether its final event is the newest."""
        return self._result is not None

    def trace(self, exit_fact: ExitFact | None, stderr_tail: str) -> Trace:
        """What it came to."""
        if exit_fact is not None:
            for line in self._lines.finish():
                _ = self._read(line)
            if self._lines.left_out and exit_fact.status != 0 and text_at(self._result, "type") == "turn.completed":
                self._result = None  # what came after it may be in what could not be read
        kind, reason = self._verdict(exit_fact, stderr_tail)
        told = self._failure() or self._error
        limited = kind is FailureKind.QUOTA and exit_fact is not None
        return Trace(
            finished=self._result is not None,
            ok=self._result is not None and kind is None,
            answered=self._result is not None and kind is None,
            kind=kind,
            reason=reason,
            text=kept_text(self._text),
            harness_session=self._session,
            model=self._model,
            steps=self._said,
            tool_calls=len(self._called),
            usage=_usage(self._result),
            quota_until=quota_until(told, exit_fact.at) if limited and exit_fact else None,
            expects_trace=True,
            whole=not self._lines.left_out and not self._strange,
        )

    def _verdict(self, exit_fact: ExitFact | None, stderr_tail: str) -> tuple[FailureKind | None, str]:
        if self._result is not None:
            if text_at(self._result, "type") == "turn.failed":
                return judge_message(self._failure())
            return self._judge_success(stderr_tail)
        if self._early_fail is not None:
            return self._early_fail.kind, self._early_fail.reason
        if exit_fact is None or exit_fact.reason is not EndReason.EXITED:
            return None, ""
        if self._error and exit_fact.signal is None:
            return judge_message(self._error)
        if not self._begun and (reason := judge_resume(stderr_tail)):
            return FailureKind.SESSION_GONE, reason
        return judge_ending(exit_fact, _complaint(stderr_tail), begun=self._begun or bool(self._lines.left_out))

    def _judge_success(self, stderr_tail: str) -> tuple[FailureKind | None, str]:
        """The program calls it a success whatever its agent was kept from; so what came through decides."""
        if not self._ran:
            reason = judge_sandbox(self._sandbox_said, stderr_tail, failed_edits=self._failed_edits)
            if reason:
                return FailureKind.SANDBOX, reason
        if reason := judge_denial(stderr_tail, worked=self._worked, edited=self._edited):
            return FailureKind.PERMISSION_DENIED, reason
        return None, ""

    def _failure(self) -> str:
        return text_at(self._result, "error", "message")

    def _read(self, line: OutputLine) -> list[StreamEvent]:
        """Take one line; what is not known says nothing, because newer versions print more."""
        if isinstance(line, str):
            return [StreamEvent(kind=EventKind.NOTE, text=line)]
        match text_at(line, "type"):
            case "thread.started":
                self._begun = True
                self._session = text_at(line, "thread_id") or self._session
                model = f", model {self._model}" if self._model else ""
                return [StreamEvent(kind=EventKind.SESSION, text=f"Session {self._session}{model}.")]
            case "turn.started":
                self._begun = True
                self._result = None  # it continues after all
                return []
            case "item.started" | "item.completed" as name:
                self._error = ""
                return self._item(at(line, "item"), done=name == "item.completed")
            case "error":
                return self._trouble(text_at(line, "message"))
            case "turn.completed" | "turn.failed":
                self._result = line
                text = self._failure() or self._text
                return [StreamEvent(kind=EventKind.RESULT, text=text)]
            case _:
                return []

    def _trouble(self, message: str) -> list[StreamEvent]:
        retry = retry_of(message)
        kind, reason = judge_message(message)
        if retry is None:
            self._error = message  # `turn.failed` says it again, unless the program is ended before
            return []
        if kind in _HOPELESS and _FORBIDDEN not in reason:
            self._early_fail = EarlyFail(kind=kind, reason=reason)
        number, limit = retry
        text = f"{reason.rstrip('.')}. Try {number} of {limit} follows." if number else f"{reason.rstrip('.')}."
        return [StreamEvent(kind=EventKind.RETRY, text=text)]

    def _item(self, item: object, *, done: bool) -> list[StreamEvent]:
        match text_at(item, "type"):
            case "agent_message" if done:
                self._said += 1
                self._text = text_at(item, "text")
                return [StreamEvent(kind=EventKind.TEXT, text=self._text)]
            case "error" if done:
                return [StreamEvent(kind=EventKind.NOTE, text=text_at(item, "message"))]
            case kind if kind in _TOOLS:
                return self._tool(item, kind, done=done)
            case kind:
                self._strange = self._strange or kind not in _NO_WORK
                return []

    def _tool(self, item: object, kind: str, *, done: bool) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        name = text_at(item, "id")
        if name not in self._called:
            self._called.add(name)
            events.append(StreamEvent(kind=EventKind.TOOL, text=_call(item, kind)))
        if not done:
            return events
        output = text_at(item, "aggregated_output")
        failed = text_at(item, "status") in {"failed", "declined"}
        if failed and kind == "command_execution" and (said := shows_sandbox(output)):
            self._sandbox_said = said
        elif failed and kind == "file_change":
            self._failed_edits = True
        else:
            self._ran = True
            self._worked |= not failed
            self._edited |= kind == "file_change"
        text = _first_line(output) or text_at(item, "error", "message") or _content(item)
        code = count_at(item, "exit_code")
        how = f"failed ({code}): " if failed and code is not None else "failed: " if failed else ""
        if text or how:
            events.append(StreamEvent(kind=EventKind.TOOL_RESULT, text=f"{how}{text}".rstrip(": ")))
        return events


def _call(item: object, kind: str) -> str:
    """A tool call in one line: the tool and its most telling argument."""
    match kind:
        case "command_execution":
            return f"shell: {_first_line(_command(text_at(item, 'command')))}"
        case "file_change":
            changes = [f"{text_at(each, 'kind')} {text_at(each, 'path')}" for each in list_at(item, "changes")]
            return f"edit: {_first_line(', '.join(changes))}"
        case "mcp_tool_call":
            return f"{text_at(item, 'server')}.{text_at(item, 'tool')}"
        case "web_search":
            return f"web search: {_first_line(text_at(item, 'query'))}"
        case _:
            return text_at(item, "tool") or kind


def _command(line: str) -> str:
    """The command without the shell that runs it."""
    try:
        words = shlex.split(line)
    except ValueError:
        return line
    return words[2] if len(words) == _SHELL_WORDS and words[1] in {"-lc", "-c"} else line


def _content(item: object) -> str:
    """The text of an MCP server's answer."""
    return _first_line("\n".join(text_at(each, "text") for each in list_at(at(item, "result"), "content")))


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _usage(result: dict[str, object] | None) -> Usage:
    """What the final event of a good run counts; the program reports no prices."""
    return Usage(
        input_tokens=count_at(result, "usage", "input_tokens"),
        output_tokens=count_at(result, "usage", "output_tokens"),
        cached_tokens=count_at(result, "usage", "cached_input_tokens"),
    )


def _complaint(stderr: str) -> str:
    """The first line that calls itself an error, else the last one."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    return next((line for line in lines if line.lower().startswith("error")), lines[-1] if lines else "")
