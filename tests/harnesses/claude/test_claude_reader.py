"""What the real program printed is read for what it was, however it is cut."""

import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.domain.failure import FailureKind as K
from watchkeeper.domain.model import EndReason, ExitFact, Trace
from watchkeeper.harnesses.claude_reader import ClaudeReader
from watchkeeper.harnesses.ending import TEXT_LIMIT
from watchkeeper.harnesses.json_lines import LINE_LIMIT
from watchkeeper.ports.harness import EventKind, StreamEvent

TRANSCRIPTS = Path(__file__).parent / "transcripts"
OLDER = Path(__file__).parent / "transcripts-2.1.197"

JUDGED: dict[str, K | None] = {
    "answer_only": None,
    "background": None,
    "bad_key": K.SIGNED_OUT,
    "bad_request": K.BAD_REQUEST,
    "budget": K.BUDGET,
    "connection_refused": K.NETWORK,
    "credit": K.QUOTA,
    "failing_command": None,
    "forbidden": K.SIGNED_OUT,
    "garbage": K.NETWORK,
    "hang": K.NETWORK,
    "interrupted": K.INTERRUPTED,
    "killed": None,
    "limit": K.OVERLOADED,
    "limit_subscription": K.QUOTA,
    "max_tokens": K.UNKNOWN,
    "max_turns": K.TURN_LIMIT,
    "no_model": K.BAD_REQUEST,
    "not_logged_in": K.SIGNED_OUT,
    "overloaded_forever": K.OVERLOADED,
    "overloaded_once": None,
    "overloaded_repeatedly": K.OVERLOADED,
    "own_command": K.PROGRAM_BROKEN,
    "own_command_without_words": K.PROGRAM_BROKEN,
    "permission_denied": K.PERMISSION_DENIED,
    "rate_forever": K.OVERLOADED,
    "refusal": K.REFUSED,
    "reset_stream": K.NETWORK,
    "stream_overloaded": None,
    "success": None,
    "terminated": K.INTERRUPTED,
    "thinking": None,
    "too_long": K.CONTEXT_FULL,
    "truncate_forever": None,
    "truncate_once": None,
    "unavailable_forever": K.OVERLOADED,
    "unknown_option": K.PROGRAM_BROKEN,
    "unknown_session": K.SESSION_GONE,
    "way_round": None,
}
CREATED = (
    "File created successfully at: /home/user/project/hello.txt "
    "(file state is current in your context — no need to Read it back)"
)
UNFINISHED = {"killed", "terminated", "unknown_option"}
"""Recordings without a final event."""


def load(name: str, where: Path = TRANSCRIPTS) -> tuple[dict[str, Any], bytes]:
    """How a recorded run ended, and what it printed."""
    head, _, printed = (where / f"{name}.jsonl").read_bytes().partition(b"\n")
    return json.loads(head), printed


def exit_fact(code: int, reason: EndReason = EndReason.EXITED) -> ExitFact:
    """The exit of a process, its code as Python has it: negative for a signal."""
    status = -code if code < 0 else code << 8
    return ExitFact(status=status, reason=reason, at=datetime(2026, 1, 1, tzinfo=UTC), elapsed_s=1.0)


def replay(name: str, where: Path = TRANSCRIPTS) -> tuple[list[StreamEvent], Trace, ClaudeReader]:
    """Read a whole recording at once."""
    head, printed = load(name, where)
    reader = ClaudeReader()
    events = reader.feed(printed)
    return events, reader.trace(exit_fact(head["exit"]), head["stderr"]), reader


def result(**fields: Any) -> bytes:
    """A final event."""
    return json.dumps({"type": "result", "subtype": "success", "is_error": False, **fields}).encode() + b"\n"


def test_every_recording_is_judged() -> None:
    """No transcript lies about unread, and none is missing."""
    assert {path.stem for path in TRANSCRIPTS.glob("*.jsonl")} == set(JUDGED)


@pytest.mark.parametrize("name", sorted(JUDGED))
def test_a_recorded_run_has_the_kind_that_it_was_recorded_for(name: str) -> None:
    """The kind is given, the final event is seen or missed, and a failure has a sentence."""
    _, trace, _ = replay(name)
    assert trace.kind == JUDGED[name]
    assert trace.finished == (name not in UNFINISHED)
    assert trace.ok == (JUDGED[name] is None and name not in UNFINISHED)
    assert bool(trace.reason) == (trace.kind is not None)
    assert "\n" not in trace.reason


@pytest.mark.parametrize("name", sorted(path.stem for path in OLDER.glob("*.jsonl")))
def test_an_older_version_is_read_alike(name: str) -> None:
    """It names fewer codes, and interrupted it prints no final event."""
    _, trace, _ = replay(name, OLDER)
    assert trace.kind == (None if name == "interrupted" else JUDGED[name])
    assert trace.ok == (name in {"success", "background"})


def test_a_good_run_tells_session_model_steps_tools_usage_and_text() -> None:
    """What the outcome shows comes from the stream."""
    events, trace, _ = replay("success")
    assert trace.text == "Done. The file says: hello from the stub"
    assert trace.harness_session == "00000000-0000-4000-8000-000000000001"
    assert (trace.model, trace.turns, trace.steps, trace.tool_calls) == ("claude-sonnet-4-5", 3, 3, 2)
    assert trace.usage.input_tokens is not None
    assert trace.usage.input_tokens > 1000
    assert trace.usage.cost_usd is not None
    assert 0 < trace.usage.cost_usd < 1
    assert [(each.kind, each.text) for each in events][1:] == [
        (EventKind.TEXT, "I will write a file and look at it."),
        (EventKind.TOOL, "Write: /home/user/project/hello.txt"),
        (
            EventKind.TOOL_RESULT,
            CREATED,
        ),
        (EventKind.TEXT, "Now I look."),
        (EventKind.TOOL, "Bash: cat hello.txt"),
        (EventKind.TOOL_RESULT, "hello from the stub"),
        (EventKind.TEXT, "Done. The file says: hello from the stub"),
        (EventKind.RESULT, "Done. The file says: hello from the stub"),
    ]
    assert events[0].kind is EventKind.SESSION
    assert events[1].at == datetime(2026, 1, 1, tzinfo=UTC)


@given(name=st.sampled_from(sorted(JUDGED)), cuts=st.lists(st.integers(0, 20_000), max_size=12))
def test_the_answer_does_not_depend_on_how_the_output_is_cut(name: str, cuts: list[int]) -> None:
    """Chunks may end inside a line and inside a character."""
    head, printed = load(name)
    whole = ClaudeReader()
    expected = whole.feed(printed)
    pieces = ClaudeReader()
    bounds = [0, *sorted(cut % (len(printed) + 1) for cut in cuts), len(printed)]
    got = [each for start, end in pairwise(bounds) for each in pieces.feed(printed[start:end])]
    assert got == expected
    assert pieces.early_fail() == whole.early_fail()
    assert pieces.trace(None, "") == whole.trace(None, "")
    fact = exit_fact(head["exit"])
    assert pieces.trace(fact, head["stderr"]) == whole.trace(fact, head["stderr"])


@given(name=st.sampled_from(sorted(JUDGED)), at=st.integers(0, 20_000))
def test_an_output_that_was_cut_short_is_no_success(name: str, at: int) -> None:
    """However much of it is there, a run that was killed before its first result did not succeed."""
    _, printed = load(name)
    result = printed.find(b'"type": "result"')
    end = printed.find(b"\n", result) if result >= 0 else len(printed) - 1
    reader = ClaudeReader()
    _ = reader.feed(printed[: min(at, max(0, end - 1))])
    assert not reader.trace(exit_fact(-9), "").ok


@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from(load("success")[1].splitlines(keepends=True)))))
def test_nothing_that_is_printed_raises(pieces: list[bytes]) -> None:
    """Noise between the events, torn lines, any bytes."""
    reader = ClaudeReader()
    for piece in pieces:
        _ = reader.feed(piece)
    _ = reader.trace(exit_fact(1), "noise")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["message", "content", "type", "is_error", "modelUsage", "tasks"]), inner)
        ),
    ),
    st.sampled_from(["system", "assistant", "user", "result", "rate_limit_event"]),
    st.sampled_from(["init", "api_retry", "success", "background_tasks_changed"]),
)
def test_events_of_another_shape_do_not_raise(value: Any, kind: str, subtype: str) -> None:
    """A newer version may put anything under the names that we know."""
    fields = value if isinstance(value, dict) else {"message": value, "result": value, "error": value}
    reader = ClaudeReader()
    _ = reader.feed(json.dumps({**fields, "type": kind, "subtype": subtype}).encode() + b"\n")
    _ = reader.trace(exit_fact(0), "")


def test_a_refused_sign_in_fails_early_at_the_second_try() -> None:
    """The first one may be an expired sign-in that the program renews; ten are not waited for."""
    head, printed = load("bad_key")
    reader = ClaudeReader()
    seen: list[bool] = []
    for line in printed.splitlines(keepends=True):
        _ = reader.feed(line)
        seen.append(reader.early_fail() is not None)
    assert head["exit"] == 1
    assert seen[:3] == [False, False, True]
    early_fail = reader.early_fail()
    assert early_fail is not None
    assert early_fail.kind is K.SIGNED_OUT


def test_a_run_that_failed_early_and_was_ended_is_signed_out() -> None:
    """The kind stays when the program is ended before its final event."""
    _, printed = load("bad_key")
    reader = ClaudeReader()
    _ = reader.feed(b"".join(printed.splitlines(keepends=True)[:3]))
    trace = reader.trace(exit_fact(143, EndReason.EARLY_FAIL), "")
    assert (trace.finished, trace.kind) == (False, K.SIGNED_OUT)


@pytest.mark.parametrize("name", sorted(set(JUDGED) - {"bad_key"}))
def test_nothing_else_fails_early(name: str) -> None:
    """A run that can still come to something is left alone."""
    assert replay(name)[2].early_fail() is None


def test_a_sign_in_that_works_again_is_not_counted() -> None:
    """Two refusals with an answer between them are not two in a row."""
    _, printed = load("bad_key")
    retry = printed.splitlines(keepends=True)[1]
    answer = load("success")[1].splitlines(keepends=True)[1]
    reader = ClaudeReader()
    _ = reader.feed(retry + answer + retry)
    assert reader.early_fail() is None


def test_a_used_up_limit_names_its_reset() -> None:
    """The task can wait until then instead of trying."""
    _, trace, _ = replay("limit_subscription")
    assert trace.quota_until == datetime(2026, 1, 1, 1, 0, tzinfo=UTC)
    assert trace.reason.startswith("You've hit your 5-hour limit")


def test_a_denied_call_that_ended_the_work_names_the_exact_call() -> None:
    """A person can then allow it; a denial that the agent found a way around does not count."""
    _, denied, _ = replay("permission_denied")
    assert denied.reason.startswith('The agent was not allowed to use Write {"file_path": "/elsewhere/note.txt"')
    assert denied.text == "I was not allowed to."
    assert replay("way_round")[1].ok


def test_a_result_is_not_final_while_a_background_command_can_wake_the_agent() -> None:
    """Killed between the first result and the second turn, the run did not succeed; ended by itself, it did."""
    _, printed = load("background")
    lines = printed.splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if json.loads(line)["type"] == "result")
    for end, code, finished in ((first + 1, -9, False), (first + 1, 0, True), (len(lines), 0, True)):
        reader = ClaudeReader()
        _ = reader.feed(b"".join(lines[:end]))
        assert reader.trace(exit_fact(code), "").finished == finished
    woken = next(i for i, line in enumerate(lines[first:], first) if json.loads(line).get("subtype") == "init")
    reader = ClaudeReader()
    _ = reader.feed(b"".join(lines[: woken + 1]))
    assert not reader.trace(exit_fact(0), "").finished


def test_a_final_event_without_a_line_end_counts() -> None:
    """A log may end without one."""
    _, printed = load("success")
    reader = ClaudeReader()
    _ = reader.feed(printed.rstrip(b"\n"))
    assert not reader.trace(None, "").finished
    assert reader.trace(exit_fact(0), "").ok


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"api_error_status": 401}, K.SIGNED_OUT),
        ({"api_error_status": 413}, K.CONTEXT_FULL),
        ({"api_error_status": 422}, K.BAD_REQUEST),
        ({"api_error_status": 429}, K.OVERLOADED),
        ({"api_error_status": 500}, K.OVERLOADED),
        ({"api_error_status": None}, K.NETWORK),
        ({"terminal_reason": "completed"}, K.UNKNOWN),
        ({"subtype": "error_during_execution", "terminal_reason": "aborted_tools"}, K.INTERRUPTED),
        ({"subtype": "something_new", "is_error": False}, K.NETWORK),
    ],
)
def test_an_error_without_a_known_code_is_judged_by_its_status(fields: dict[str, Any], kind: K) -> None:
    """Versions that name no code still tell the status."""
    reader = ClaudeReader()
    _ = reader.feed(result(**{"is_error": True, "terminal_reason": "api_error", "result": "It failed.", **fields}))
    assert reader.trace(exit_fact(1), "").kind is kind


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("API Error: Repeated 529 Overloaded errors. The API is at capacity.", K.OVERLOADED),
        ("API Error: 503 no healthy upstream", K.OVERLOADED),
        ("API Error: 502 Bad Gateway", K.OVERLOADED),
        ("API Error: Request rejected (429) · slow down", K.OVERLOADED),
        ("API Error: 402 pay first", K.QUOTA),
        ("API Error: 407 the proxy wants a password", K.NETWORK),
        ("API Error: 401 no", K.SIGNED_OUT),
        ("API Error: Unable to connect to API (ConnectionRefused)", K.NETWORK),
        ("API Error: the answer held 529 words", K.NETWORK),
    ],
)
def test_a_status_that_only_the_words_tell_is_found_there(said: str, kind: K) -> None:
    """Behind a gateway, after several overloads, no field carries it."""
    reader = ClaudeReader()
    _ = reader.feed(result(is_error=True, terminal_reason="api_error", api_error_status=None, result=said))
    assert reader.trace(exit_fact(1), "").kind is kind


@pytest.mark.parametrize(
    "fields",
    [{"num_turns": 0}, {"num_turns": 0, "result": "Estimated cost: $0"}, {"num_turns": 1, "result": "synthetic"}],
)
def test_an_answer_without_the_model_is_a_failure(fields: dict[str, Any]) -> None:
    """What the program said instead is quoted."""
    reader = ClaudeReader()
    if fields["num_turns"]:
        synthetic = {"type": "assistant", "message": {"model": "<synthetic>", "content": []}}
        _ = reader.feed(json.dumps(synthetic).encode() + b"\n")
    _ = reader.feed(result(**fields))
    trace = reader.trace(exit_fact(0), "")
    assert (trace.ok, trace.kind) == (False, K.PROGRAM_BROKEN)
    assert fields.get("result", "") in trace.reason


def test_a_command_that_asked_a_model_in_a_conversation_of_its_own_is_an_answer() -> None:
    """It counts no turns either, and tells what it used."""
    reader = ClaudeReader()
    _ = reader.feed(result(num_turns=0, result="Reviewed.", modelUsage={"m": {"inputTokens": 3, "outputTokens": 1}}))
    assert reader.trace(exit_fact(0), "").ok


LONG = "a long answer, " * (LINE_LIMIT // 15 + 1)


def test_a_long_answer_is_a_success_with_both_of_its_ends() -> None:
    """In the message, in a tool's result and in the final event; its usage and its end are known."""
    lines = load("success")[1].splitlines()
    events = [json.loads(line) for line in lines]
    for event in events:
        if event["type"] == "assistant":
            event["message"]["content"][0]["text"] = LONG
        elif event["type"] == "user":
            event["tool_use_result"] = LONG
        elif event["type"] == "result":
            event["result"] = f"Begun. {LONG}Shall I go on?"
    reader = ClaudeReader()
    _ = reader.feed(b"".join(json.dumps(event).encode() + b"\n" for event in events))
    trace, plain = reader.trace(exit_fact(0), ""), replay("success")[1]
    assert (trace.ok, trace.whole, trace.kind) == (True, True, None)
    assert (trace.usage, trace.turns, trace.tool_calls) == (plain.usage, plain.turns, plain.tool_calls)
    assert trace.text.startswith("Begun. ")
    assert trace.text.endswith("Shall I go on?")
    assert len(trace.text) <= TEXT_LIMIT + 3


def test_a_long_failure_keeps_its_kind() -> None:
    reader = ClaudeReader()
    _ = reader.feed(result(is_error=True, result=LONG, api_error="overloaded", terminal_reason="api_error"))
    assert reader.trace(exit_fact(1), "").kind is K.OVERLOADED


@pytest.mark.parametrize("code", [0, 1])
def test_a_result_in_a_part_of_the_log_that_is_gone_is_unknown(code: int) -> None:
    """Neither a crash nor a run without a trace: what it says was not read."""
    printed = load("success")[1]
    at_ = printed.rindex(b'{"type": "result"') if b'{"type": "result"' in printed else printed.rindex(b"\n", 0, -1) + 1
    reader = ClaudeReader()
    _ = reader.feed(printed[:at_])
    _ = reader.gap()
    trace = reader.trace(exit_fact(code), "")
    assert (trace.finished, trace.whole, trace.kind) == (False, False, None)


def test_a_success_before_a_part_that_is_gone_stands_only_if_the_exit_says_so_too() -> None:
    """What came after it may have been a failure."""
    for code, finished in ((0, True), (1, False)):
        reader = ClaudeReader()
        _ = reader.feed(load("success")[1])
        _ = reader.gap()
        trace = reader.trace(exit_fact(code), "")
        assert (trace.finished, trace.ok) == (finished, finished)


@pytest.mark.parametrize(
    ("code", "begun", "kind"),
    [
        (-15, True, K.INTERRUPTED),
        (143, True, K.INTERRUPTED),
        (129, False, K.INTERRUPTED),
        (-9, True, None),
        (137, True, None),
        (1, True, None),
        (0, False, K.PROGRAM_BROKEN),
        (127, False, K.PROGRAM_MISSING),
    ],
)
def test_an_ending_without_a_result_is_told_by_how_it_ended(code: int, begun: bool, kind: K | None) -> None:
    """A TERM was not asked for, a program that never began is broken, the rest is a crash."""
    reader = ClaudeReader()
    if begun:
        _ = reader.feed(load("success")[1].splitlines(keepends=True)[0])
    trace = reader.trace(exit_fact(code), "node: not found\n")
    assert (trace.kind, trace.finished, trace.ok) == (kind, False, False)
