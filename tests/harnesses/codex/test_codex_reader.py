"""What the real program printed is read for what it was, however it is cut."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.zones import in_zone

from watchkeeper.domain.failure import FailureKind as K
from watchkeeper.domain.model import EndReason, ExitFact, Trace, Usage
from watchkeeper.harnesses.codex_reader import CodexReader
from watchkeeper.harnesses.codex_verdict import judge_message, quota_until
from watchkeeper.harnesses.json_lines import LINE_LIMIT
from watchkeeper.ports.harness import EventKind, StreamEvent

TRANSCRIPTS = Path(__file__).parent / "transcripts"

JUDGED: dict[str, K | None] = {
    "answer_only": None,
    "bad_configuration": K.PROGRAM_BROKEN,
    "bad_key": K.SIGNED_OUT,
    "bad_key_own_provider": K.SIGNED_OUT,
    "bad_request": K.BAD_REQUEST,
    "connection_refused": K.NETWORK,
    "credit": K.QUOTA,
    "denied_command": None,
    "escalation_denied": K.PERMISSION_DENIED,
    "failing_command": None,
    "forbidden": K.SIGNED_OUT,
    "garbage": K.NETWORK,
    "hang_stream": K.NETWORK,
    "interrupted": None,
    "killed": None,
    "limit": K.QUOTA,
    "max_tokens": K.UNKNOWN,
    "no_model": K.BAD_REQUEST,
    "not_logged_in": K.SIGNED_OUT,
    "nothing": None,
    "overloaded_forever": K.OVERLOADED,
    "overloaded_once": None,
    "permission_denied": K.PERMISSION_DENIED,
    "rate_forever": K.OVERLOADED,
    "rate_once": None,
    "read_only": K.PERMISSION_DENIED,
    "refusal": K.REFUSED,
    "reset": K.NETWORK,
    "reset_stream": K.NETWORK,
    "sandbox_command": K.SANDBOX,
    "sandbox_edit": K.SANDBOX,
    "stream_overloaded": K.OVERLOADED,
    "success": None,
    "terminated": K.INTERRUPTED,
    "thinking": None,
    "too_long": K.CONTEXT_FULL,
    "truncate_forever": K.NETWORK,
    "truncate_once": None,
    "unavailable_forever": K.OVERLOADED,
    "unknown_option": K.PROGRAM_BROKEN,
    "usage": None,
    "way_round": None,
}
UNFINISHED = {"bad_configuration", "interrupted", "killed", "terminated", "unknown_option"}
"""Recordings without a final event."""
EARLY_FAIL = {"bad_key", "bad_key_own_provider"}


def load(name: str) -> tuple[dict[str, Any], bytes]:
    """How a recorded run ended, and what it printed."""
    head, _, printed = (TRANSCRIPTS / f"{name}.jsonl").read_bytes().partition(b"\n")
    return json.loads(head), printed


def exit_fact(code: int, reason: EndReason = EndReason.EXITED) -> ExitFact:
    """The exit of a process, its code as Python has it: negative for a signal."""
    status = -code if code < 0 else code << 8
    return ExitFact(status=status, reason=reason, at=datetime(2026, 1, 1, tzinfo=UTC), elapsed_s=1.0)


def replay(name: str) -> tuple[list[StreamEvent], Trace, CodexReader]:
    """Read a whole recording at once."""
    head, printed = load(name)
    reader = CodexReader("gpt-5")
    events = reader.feed(printed)
    return events, reader.trace(exit_fact(head["exit"]), head["stderr"]), reader


def item(kind: str, **fields: Any) -> bytes:
    """The end of an item."""
    return json.dumps({"type": "item.completed", "item": {"id": "item_1", "type": kind, **fields}}).encode() + b"\n"


def failed(message: str) -> bytes:
    """The final event of a run that failed."""
    return json.dumps({"type": "turn.failed", "error": {"message": message}}).encode() + b"\n"


COMPLETED = b'{"type":"turn.completed","usage":{"input_tokens":1}}\n'


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
    assert "127.0.0.1" not in trace.reason


def test_a_good_run_tells_session_steps_tools_usage_and_text() -> None:
    """What the outcome shows comes from the stream; what it cost is not known, which is not nothing."""
    events, trace, _ = replay("success")
    assert trace.text == "Done. The file says: hello from the stub"
    assert trace.harness_session == "00000000-0000-4000-8000-000000000001"
    assert (trace.model, trace.turns, trace.steps, trace.tool_calls) == ("gpt-5", None, 3, 2)
    assert trace.usage.input_tokens is not None
    assert trace.usage.input_tokens > 1000
    assert trace.usage.cost_usd is None
    assert [(each.kind, each.text) for each in events if each.kind is not EventKind.NOTE] == [
        (EventKind.SESSION, "Session 00000000-0000-4000-8000-000000000001, model gpt-5."),
        (EventKind.TEXT, "I will write a file and look at it."),
        (EventKind.TOOL, "edit: add /home/user/project/hello.txt"),
        (EventKind.TEXT, "Now I look."),
        (EventKind.TOOL, "shell: cat hello.txt"),
        (EventKind.TOOL_RESULT, "hello from the stub"),
        (EventKind.TEXT, "Done. The file says: hello from the stub"),
        (EventKind.RESULT, "Done. The file says: hello from the stub"),
    ]


def test_usage_counts_what_came_from_the_cache_apart() -> None:
    """As the final event has it; without one it is unknown."""
    assert replay("usage")[1].usage == Usage(input_tokens=1000, output_tokens=20, cached_tokens=900)
    assert replay("killed")[1].usage == Usage()


@pytest.mark.parametrize("name", sorted(JUDGED))
def test_cut_at_any_byte_the_answer_is_the_same(name: str) -> None:
    """In two pieces, at every place there is."""
    head, printed = load(name)
    whole = CodexReader()
    expected = whole.feed(printed)
    fact = exit_fact(head["exit"])
    final = whole.trace(fact, head["stderr"])
    for cut in range(len(printed) + 1):
        pieces = CodexReader()
        got = pieces.feed(printed[:cut]) + pieces.feed(printed[cut:])
        assert got == expected
        assert pieces.early_fail() == whole.early_fail()
        assert pieces.trace(fact, head["stderr"]) == final


@given(name=st.sampled_from(sorted(JUDGED)), cuts=st.lists(st.integers(0, 20_000), max_size=12))
def test_the_answer_does_not_depend_on_how_often_the_output_is_cut(name: str, cuts: list[int]) -> None:
    """Many pieces, some of them empty."""
    _, printed = load(name)
    whole, pieces = CodexReader(), CodexReader()
    expected = whole.feed(printed)
    bounds = [0, *sorted(cut % (len(printed) + 1) for cut in cuts), len(printed)]
    assert [each for start, end in pairwise(bounds) for each in pieces.feed(printed[start:end])] == expected
    assert pieces.trace(None, "") == whole.trace(None, "")


@given(name=st.sampled_from(sorted(JUDGED)), at=st.integers(0, 20_000))
def test_an_output_that_was_cut_short_is_no_success(name: str, at: int) -> None:
    """However much of it is there, a run that was killed before its last event did not succeed."""
    _, printed = load(name)
    reader = CodexReader()
    _ = reader.feed(printed[: min(at, max(0, len(printed) - 2))])
    assert not reader.trace(exit_fact(-9), "").ok


@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from(load("success")[1].splitlines(keepends=True)))))
def test_nothing_that_is_printed_raises(pieces: list[bytes]) -> None:
    """Noise between the events, torn lines, any bytes."""
    reader = CodexReader()
    for piece in pieces:
        _ = reader.feed(piece)
    _ = reader.trace(exit_fact(1), "noise")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["item", "type", "message", "error", "usage", "changes", "command"]), inner
            )
        ),
    ),
    st.sampled_from(["thread.started", "item.started", "item.completed", "error", "turn.completed", "turn.failed"]),
    st.sampled_from(["command_execution", "file_change", "mcp_tool_call", "agent_message", "error", "web_search"]),
)
def test_events_of_another_shape_do_not_raise(value: Any, kind: str, inner: str) -> None:
    """A newer version may put anything under the names that we know."""
    fields = (
        value if isinstance(value, dict) else {"item": {"type": inner, "id": value, "command": value}, "error": value}
    )
    reader = CodexReader()
    _ = reader.feed(json.dumps({**fields, "type": kind}).encode() + b"\n")
    _ = reader.trace(exit_fact(0), "")


@pytest.mark.parametrize("name", sorted(EARLY_FAIL))
def test_a_refused_sign_in_fails_early_at_the_first_further_try(name: str) -> None:
    """The program tells of it only after it could not renew the sign-in; four more tries are not waited for."""
    _, printed = load(name)
    reader = CodexReader()
    for line in printed.splitlines(keepends=True):
        _ = reader.feed(line)
        if b"Reconnecting" in line:
            break
    early_fail = reader.early_fail()
    assert early_fail is not None
    assert early_fail.kind is K.SIGNED_OUT
    trace = reader.trace(exit_fact(-15, EndReason.EARLY_FAIL), "")
    assert (trace.finished, trace.kind, trace.reason) == (False, K.SIGNED_OUT, early_fail.reason)


@pytest.mark.parametrize("name", sorted(set(JUDGED) - EARLY_FAIL))
def test_nothing_else_fails_early(name: str) -> None:
    """A run that can still come to something, or that has ended by itself, is left alone."""
    assert replay(name)[2].early_fail() is None


def test_a_further_try_is_told_with_its_number() -> None:
    """And why it is needed, without the address that it went to."""
    [retry] = [each for each in replay("unavailable_forever")[0] if each.kind is EventKind.RETRY]
    assert retry.text.startswith("unexpected status 503 Service Unavailable")
    assert retry.text.endswith("Try 1 of 1 follows.")


def test_a_used_up_limit_names_its_reset() -> None:
    """The program names the time of day where it runs; a minute more, because the seconds are cut off."""
    _, trace, _ = replay("limit")
    here = datetime(2026, 1, 1, tzinfo=UTC).astimezone()
    expected = here.replace(hour=21, minute=2).astimezone(UTC)
    assert trace.quota_until == (expected if expected > here else None)
    assert "usage limit" in trace.reason
    assert replay("credit")[1].quota_until is None


@pytest.mark.parametrize(
    ("words", "until"),
    [
        ("try again at 3:07 PM.", (15, 8, 0)),
        ("try again at 12:30 PM.", (12, 31, 0)),
        ("or try again at Jan 3rd, 2026 12:05 AM.", (0, 6, 2)),
        ("try again at 9:00 AM.", None),
        ("try again at Xyz 3rd, 2026 12:05 AM.", None),
        ("try again at 99:99 PM.", None),
        ("try again later", None),
    ],
)
def test_the_time_in_a_sentence_is_read(words: str, until: tuple[int, int, int] | None) -> None:
    """A time of today that has passed cannot be meant, so it says nothing."""
    at = datetime(2026, 1, 1, 12, 0, 30).astimezone()
    midnight = datetime(2026, 1, 1).astimezone()
    expected = until and midnight + timedelta(hours=until[0], minutes=until[1], days=until[2])
    assert quota_until(words, at.astimezone(UTC)) == expected


@pytest.mark.parametrize(
    ("zone", "words", "at", "until"),
    [
        ("Europe/Berlin", "try again at Mar 28th, 2027 2:30 AM.", "2027-03-27T12:00", "2027-03-28T01:01"),
        ("Europe/Berlin", "try again at 2:30 AM.", "2027-03-28T00:30", "2027-03-28T01:01"),
        ("Europe/Berlin", "try again at 2:30 AM.", "2027-10-31T00:10", "2027-10-31T01:31"),
        ("Australia/Lord_Howe", "try again at Oct 3rd, 2027 2:15 AM.", "2027-10-01T00:00", "2027-10-02T15:31"),
    ],
)
def test_a_time_in_a_change_of_the_clocks_is_never_too_early(zone: str, words: str, at: str, until: str) -> None:
    """In a gap the first instant after it, of two the later; a minute more for the seconds that were cut off."""
    with in_zone(zone):
        found = quota_until(words, datetime.fromisoformat(f"{at}+00:00"))
    assert found == datetime.fromisoformat(f"{until}+00:00")


def test_a_refused_edit_counts_unless_the_agent_edited_elsewhere() -> None:
    """The program calls both a success; the refused call is known from standard error only."""
    _, denied, _ = replay("permission_denied")
    assert denied.reason.startswith(
        "The agent was not allowed to continue: patch rejected: writing outside of the project"
    )
    assert denied.text == "I was not allowed to."
    assert replay("way_round")[1].ok


@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        ("patch rejected: x; rejected by user approval settings", K.PERMISSION_DENIED),
        ("approval policy is Never", None),
    ],
)
def test_a_command_that_ran_makes_up_for_a_wish_but_not_for_an_edit(refused: str, kind: K | None) -> None:
    """An agent that was asked to edit and could only look has not done it."""
    reader = CodexReader()
    _ = reader.feed(item("command_execution", command="ls", exit_code=0, status="completed") + COMPLETED)
    stderr = f"2026-01-01T00:00:00Z ERROR codex_core::tools::router: error={refused}\n"
    assert reader.trace(exit_fact(0), stderr).kind is kind


def test_a_sandbox_that_cannot_be_set_up_is_told_apart_from_a_command_that_fails() -> None:
    """As soon as one command has really run, the sandbox works."""
    broken = item(
        "command_execution", command="x", aggregated_output="bwrap: No permissions\n", exit_code=1, status="failed"
    )
    reader = CodexReader()
    _ = reader.feed(broken + COMPLETED)
    trace = reader.trace(exit_fact(0), "")
    assert trace.kind is K.SANDBOX
    assert "bwrap: No permissions" in trace.reason
    assert "option sandbox" in trace.reason
    reader = CodexReader()
    _ = reader.feed(
        broken + item("command_execution", aggregated_output="no", exit_code=3, status="failed") + COMPLETED
    )
    assert reader.trace(exit_fact(0), "").ok


def test_a_turn_that_begins_again_has_not_ended() -> None:
    """Only the last final event counts."""
    reader = CodexReader()
    _ = reader.feed(COMPLETED + b'{"type":"turn.started"}\n')
    assert not reader.trace(exit_fact(0), "").finished


def test_a_final_event_without_a_line_end_counts() -> None:
    """A log may end without one."""
    _, printed = load("success")
    reader = CodexReader()
    _ = reader.feed(printed.rstrip(b"\n"))
    assert not reader.trace(None, "").finished
    assert reader.trace(exit_fact(0), "").ok


def test_an_error_after_which_the_program_ended_is_believed() -> None:
    """It had no time left for its final event."""
    reader = CodexReader()
    _ = reader.feed(b'{"type":"turn.started"}\n{"type":"error","message":"Quota exceeded."}\n')
    trace = reader.trace(exit_fact(1), "")
    assert (trace.finished, trace.kind) == (False, K.QUOTA)


def test_tools_of_other_kinds_are_told() -> None:
    """MCP servers and the web."""
    reader = CodexReader()
    answer = {"content": [{"type": "text", "text": "pong"}]}
    ping = {"server": "stub", "tool": "ping"}
    events = reader.feed(
        b"".join(
            json.dumps({"type": name, "item": {"type": kind, "id": number, **fields}}).encode() + b"\n"
            for name, kind, number, fields in (
                ("item.started", "mcp_tool_call", "a", {**ping, "status": "in_progress"}),
                ("item.completed", "mcp_tool_call", "a", {**ping, "result": answer, "status": "completed"}),
                ("item.completed", "mcp_tool_call", "b", {**ping, "error": {"message": "gone"}, "status": "failed"}),
                ("item.completed", "web_search", "c", {"query": "weather"}),
            )
        )
    )
    assert [each.text for each in events] == ["stub.ping", "pong", "stub.ping", "failed: gone", "web search: weather"]
    assert reader.trace(None, "").tool_calls == 3


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("unexpected status 413 Payload Too Large: x, url: http://a/b, request id: r", K.CONTEXT_FULL),
        ("unexpected status 402 Payment Required: x", K.QUOTA),
        ("unexpected status 422 Unprocessable: x", K.BAD_REQUEST),
        ("unexpected status 407 Proxy Authentication Required: x", K.NETWORK),
        ("unexpected status 500 Internal Server Error: x", K.OVERLOADED),
        ("exceeded retry limit, last status: 429 Too Many Requests", K.OVERLOADED),
        ("Your access token could not be refreshed. Please log out and sign in again.", K.SIGNED_OUT),
        ("Your workspace is out of credits. Add credits to continue.", K.QUOTA),
        ("The 'x' model is not supported when using Codex with a ChatGPT account.", K.BAD_REQUEST),
        ('{"detail": "The model `x` does not exist"}', K.BAD_REQUEST),
        ("stream disconnected before completion: timed out", K.NETWORK),
        ("Something new happened.", K.UNKNOWN),
        ("", K.UNKNOWN),
    ],
)
def test_a_sentence_is_judged_by_its_status_and_its_words(message: str, kind: K) -> None:
    """The program has no codes; what it says comes to people without addresses."""
    found, reason = judge_message(message)
    assert found is kind
    assert reason
    assert "http" not in reason
    reader = CodexReader()
    _ = reader.feed(failed(message))
    assert reader.trace(exit_fact(1), "").kind is kind


@pytest.mark.parametrize(
    ("code", "begun", "kind"),
    [
        (-15, True, K.INTERRUPTED),
        (143, True, K.INTERRUPTED),
        (-9, True, None),
        (1, True, None),
        (0, False, K.PROGRAM_BROKEN),
        (127, False, K.PROGRAM_MISSING),
    ],
)
def test_an_ending_without_a_result_is_told_by_how_it_ended(code: int, begun: bool, kind: K | None) -> None:
    """A TERM was not asked for, a program that never began is broken, the rest is a crash."""
    reader = CodexReader()
    if begun:
        _ = reader.feed(load("success")[1].splitlines(keepends=True)[0])
    trace = reader.trace(exit_fact(code), "warning: x\nError loading config.toml: bad\nin `y`\n")
    assert (trace.kind, trace.finished, trace.ok) == (kind, False, False)
    if kind is K.PROGRAM_BROKEN:
        assert trace.reason == "Error loading config.toml: bad"


LONG = "a long answer, " * (LINE_LIMIT // 15 + 1)


BEGUN = b'{"type":"thread.started","thread_id":"t"}\n{"type":"turn.started"}\n'


@pytest.mark.parametrize(
    ("line", "calls"),
    [
        (item("agent_message", text=f"{LONG}Shall I go on?"), 0),
        (item("command_execution", command="cat x", aggregated_output=LONG, status="completed"), 1),
    ],
    ids=["answer", "output"],
)
def test_a_long_line_is_read(line: bytes, calls: int) -> None:
    """An answer keeps its end, and a call is a call."""
    reader = CodexReader()
    _ = reader.feed(BEGUN + line + COMPLETED)
    trace = reader.trace(exit_fact(0), "")
    assert (trace.ok, trace.whole, trace.tool_calls, trace.usage.input_tokens) == (True, True, calls, 1)
    assert trace.text.endswith("Shall I go on?") == (not calls)


def test_a_result_in_a_part_of_the_log_that_is_gone_is_unknown() -> None:
    """And a success before such a part stands only if the exit says so too."""
    reader = CodexReader()
    _ = reader.feed(BEGUN)
    _ = reader.gap()
    trace = reader.trace(exit_fact(0), "")
    assert (trace.finished, trace.whole, trace.kind) == (False, False, None)
    for code, finished in ((0, True), (1, False)):
        reader = CodexReader()
        _ = reader.feed(BEGUN + COMPLETED)
        _ = reader.gap()
        assert reader.trace(exit_fact(code), "").finished == finished


@pytest.mark.parametrize(("kind", "whole"), [("reasoning", True), ("todo_list", True), ("browser_call", False)])
def test_an_item_that_is_not_known_may_have_been_work(kind: str, whole: bool) -> None:
    """A newer program's tool is not a reason to say that nothing was done."""
    reader = CodexReader()
    _ = reader.feed(BEGUN + item(kind) + item("agent_message", text="Done.") + COMPLETED)
    assert reader.trace(exit_fact(0), "").whole is whole
