"""What Claude Code's JSON events mean.

The events, one JSON object a line, in the order of a good run (real ones are in `tests/harnesses/claude/transcripts`):

    system/init          session, model, permission mode
    assistant            one content block of a message: text, thinking or tool_use
    user                 the result of a tool
    system/api_retry     the service did not answer well; the program waits and tries again
    result               the final event

The final event decides, never the exit code: a denied permission ends with 0. The program reports a refused request as a message of the model
`<synthetic>` with a code, and its final event then says `subtype: success` with `is_error: true`.
"""

import json
from datetime import UTC, datetime
from typing import cast

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import EarlyFail, EndReason, ExitFact, Trace, Usage
from watchkeeper.harnesses.claude_verdict import judge_result, judge_synthetic
from watchkeeper.harnesses.ending import judge_ending, kept_text, last_line
from watchkeeper.harnesses.json_lines import JsonLines, OutputLine, amount_at, at, count_at, list_at, text_at
from watchkeeper.ports.harness import EventKind, StreamEvent

REFUSED_SIGN_INS = 2
"""Refused sign-ins in a row that make a run fail early: after the first the program may still renew an expired sign-in, the second one came with the new."""

_SHOWN = 200


class ClaudeReader:
    """Reads one run's output."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self._lines = JsonLines()
        self._begun = False
        self._session: str | None = None
        self._model: str | None = None
        self._messages: set[str] = set()
        self._tool_calls = 0
        self._last_tool = ""
        self._text = ""
        self._error: dict[str, object] = {}
        self._refused = False
        self._sign_ins_refused = 0
        self._early_fail: EarlyFail | None = None
        self._quota_until: datetime | None = None
        self._result: dict[str, object] | None = None
        self._background = False
        self._synthetic = False

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Take more of standard output."""
        return [event for line in self._lines.feed(data) for event in self._read(line)]

    def gap(self) -> list[StreamEvent]:
        """Part of standard output is not kept here."""
        self._lines.gap()
        return []

    def early_fail(self) -> EarlyFail | None:
        """Set when the service refused the sign-in again and again."""
        return self._early_fail

    def answered(self) -> bool:
        """Whether its final event is the newest: it may continue when a command in the background ends."""
        return self._result is not None

    def trace(self, exit_fact: ExitFact | None, stderr_tail: str) -> Trace:
        """What it came to."""
        if exit_fact is not None:
            for line in self._lines.finish():
                _ = self._read(line)
            waited = self._background and exit_fact.reason is EndReason.EXITED
            if exit_fact.status != 0 and (waited or self._may_have_gone_on()):
                self._result = None  # it waited for a command in the background, and would have gone on after it
        result = self._result
        kind, reason = self._verdict(exit_fact, stderr_tail)
        final = text_at(result, "result") if result is not None and at(result, "is_error") is False else ""
        return Trace(
            finished=result is not None,
            ok=result is not None and kind is None,
            answered=result is not None and kind is None,
            kind=kind,
            reason=reason,
            text=kept_text(final or self._text),
            harness_session=self._session,
            model=self._model,
            turns=count_at(result, "num_turns"),
            steps=len(self._messages),
            tool_calls=self._tool_calls,
            usage=_usage(result),
            quota_until=self._quota_until,
            expects_trace=True,
            whole=not self._lines.left_out,
        )

    def _may_have_gone_on(self) -> bool:
        """A success is on record, and what came after it may be in what could not be read."""
        return bool(self._lines.left_out) and at(self._result, "is_error") is False

    def _asked_the_model(self, result: dict[str, object]) -> bool:
        """Whether a model had a part in it, as far as can be known."""
        if self._messages or self._lines.left_out or at(result, "modelUsage"):
            return True
        return count_at(result, "num_turns") != 0 and not self._synthetic

    def _verdict(self, exit_fact: ExitFact | None, stderr_tail: str) -> tuple[FailureKind | None, str]:
        if self._result is not None:
            denied = {text_at(each, "tool_use_id"): each for each in list_at(self._result, "permission_denials")}
            if at(self._result, "is_error") is False and self._last_tool in denied:
                # A denial that the agent found a way around does not count; after this one it gave up.
                call = denied[self._last_tool]
                what = f"{text_at(call, 'tool_name')} {json.dumps(at(call, 'tool_input'), ensure_ascii=False)}"
                return FailureKind.PERMISSION_DENIED, f"The agent was not allowed to use {what[:500]}"
            if at(self._result, "is_error") is False and not self._asked_the_model(self._result):
                return judge_synthetic(self._result)
            return judge_result(self._result, self._error, refused=self._refused, limited=self._quota_until is not None)
        if self._early_fail is not None:
            return self._early_fail.kind, self._early_fail.reason
        if exit_fact is None or exit_fact.reason is not EndReason.EXITED:
            return None, ""
        return judge_ending(exit_fact, last_line(stderr_tail), begun=self._begun or bool(self._lines.left_out))

    def _read(self, line: OutputLine) -> list[StreamEvent]:
        """Take one line; what is not known says nothing, because newer versions print more."""
        if isinstance(line, str):
            return [StreamEvent(kind=EventKind.NOTE, text=line)]
        match text_at(line, "type"):
            case "system":
                return self._system(line)
            case "assistant":
                return self._assistant(line)
            case "user":
                return _tool_results(line)
            case "rate_limit_event":
                return self._limit(line)
            case "result":
                return self._end(line)
            case _:
                return []

    def _system(self, line: dict[str, object]) -> list[StreamEvent]:
        match text_at(line, "subtype"):
            case "init":
                self._begun = True
                self._result = None  # it continues after all: a command in the background ended and woke it
                self._session = text_at(line, "session_id") or self._session
                self._model = text_at(line, "model") or self._model
                return [StreamEvent(kind=EventKind.SESSION, text=f"Session {self._session}, model {self._model}.")]
            case "api_retry":
                return self._retry(line)
            case "model_refusal_no_fallback":
                self._refused = True
                return []
            case "background_tasks_changed":
                self._background = bool(list_at(line, "tasks"))
                return []
            case "informational":
                return [StreamEvent(kind=EventKind.NOTE, text=text_at(line, "content"))]
            case _:
                return []

    def _retry(self, line: dict[str, object]) -> list[StreamEvent]:
        status, error = count_at(line, "error_status"), text_at(line, "error")
        if error == "authentication_failed" or status == 401:
            self._sign_ins_refused += 1
        else:
            self._sign_ins_refused = 0
        if self._sign_ins_refused >= REFUSED_SIGN_INS:
            reason = f"The service refused the sign-in ({status})."
            self._early_fail = EarlyFail(kind=FailureKind.SIGNED_OUT, reason=reason)
        # Without a status the connection failed, or the answer did not come whole.
        what = f"The service failed: {error} ({status})" if status is not None else "No whole answer came"
        delay_s = (amount_at(line, "retry_delay_ms") or 0.0) / 1000
        text = f"{what}. Try {count_at(line, 'attempt')} of {count_at(line, 'max_retries')} follows in {delay_s:.0f} s."
        return [StreamEvent(kind=EventKind.RETRY, text=text)]

    def _assistant(self, line: dict[str, object]) -> list[StreamEvent]:
        if text_at(line, "message", "model") == "<synthetic>":
            # The program speaks, not the model; what it says comes again in the final event.
            self._synthetic = True
            self._error = line if "error" in line else self._error
            return []
        self._result, self._error = None, {}
        self._sign_ins_refused = 0
        self._messages.add(text_at(line, "message", "id"))
        main = at(line, "parent_tool_use_id") is None
        events: list[StreamEvent] = []
        for block in list_at(line, "message", "content"):
            match text_at(block, "type"):
                case "text" if main:
                    self._text = text_at(block, "text")
                    events.append(StreamEvent(kind=EventKind.TEXT, text=self._text, at=_time(line)))
                case "tool_use" | "server_tool_use" | "mcp_tool_use":
                    self._tool_calls += 1
                    self._last_tool = text_at(block, "id") if main else self._last_tool
                    events.append(StreamEvent(kind=EventKind.TOOL, text=_call(block), at=_time(line)))
                case _:
                    pass
        return events

    def _limit(self, line: dict[str, object]) -> list[StreamEvent]:
        if text_at(line, "rate_limit_info", "status") != "rejected":
            return []
        self._quota_until = _moment(count_at(line, "rate_limit_info", "resetsAt"))
        until = f" until {self._quota_until:%Y-%m-%d %H:%M} UTC" if self._quota_until else ""
        return [StreamEvent(kind=EventKind.NOTE, text=f"The account's limit is used up{until}.")]

    def _end(self, line: dict[str, object]) -> list[StreamEvent]:
        self._result = line
        self._session = self._session or text_at(line, "session_id") or None
        if at(line, "is_error") is False:
            self._quota_until = None
        elif (resets := count_at(self._error, "api_error_params", "rate_limit_info", "resetsAt")) is not None:
            self._quota_until = _moment(resets)
        errors = [each for each in list_at(line, "errors") if isinstance(each, str)]
        return [StreamEvent(kind=EventKind.RESULT, text=text_at(line, "result") or "; ".join(errors))]


def _tool_results(line: dict[str, object]) -> list[StreamEvent]:
    events: list[StreamEvent] = []
    for block in list_at(line, "message", "content"):
        if text_at(block, "type") != "tool_result":
            continue
        parts = [text_at(each, "text") for each in list_at(block, "content")]
        text = _first_line(text_at(block, "content") or "\n".join(parts))
        failed = "failed: " if at(block, "is_error") is True else ""
        events.append(StreamEvent(kind=EventKind.TOOL_RESULT, text=failed + text, at=_time(line)))
    return events


def _call(block: object) -> str:
    """A tool call in one line: the tool and its most telling argument."""
    what = ""
    for name in ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt"):
        if what := text_at(block, "input", name):
            break
    return f"{text_at(block, 'name')}: {_first_line(what)}" if what else text_at(block, "name")


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _usage(result: dict[str, object] | None) -> Usage:
    """The sum over all models; `usage` itself is empty where a limit ended the run."""
    by_model = at(result, "modelUsage")
    if result is None or not isinstance(by_model, dict):
        return Usage()
    rows = list(cast("dict[str, object]", by_model).values())
    cached = sum(count_at(row, "cacheReadInputTokens") or 0 for row in rows)
    written = sum(count_at(row, "cacheCreationInputTokens") or 0 for row in rows)
    return Usage(
        input_tokens=sum(count_at(row, "inputTokens") or 0 for row in rows) + cached + written,
        output_tokens=sum(count_at(row, "outputTokens") or 0 for row in rows),
        cached_tokens=cached,
        cost_usd=amount_at(result, "total_cost_usd"),
    )


def _time(line: dict[str, object]) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text_at(line, "timestamp"))
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else None


def _moment(seconds: int | None) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else None
    except (OverflowError, OSError, ValueError):
        return None
