"""The Responses protocol, both ways: what a request says, and the frames and bodies that answer it."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from watchkeeper_testing.stub_model.exchange import Ask, Reply, flat, frame
from watchkeeper_testing.stub_model.scenarios import Fault

FIRST_WORDS = 5
_INJECTED = re.compile(r"^\s*(<(environment_context|user_instructions|turn_aborted|skill)|# AGENTS\.md instructions)")
"""Text that the client puts into the user's messages although no user wrote it."""
_HEAD = re.compile(r"\A(?:Chunk ID|Wall time|Script completed).*?^Output:\n+", re.DOTALL | re.MULTILINE)
"""What the client says of a command before its output."""
_ERRORS = {
    400: ("invalid_request_error", None, "The request is malformed."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", None, "This key may not use this resource."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."),
    429: ("rate_limit_error", "rate_limit_exceeded", "Rate limit reached."),
}
_MEANINGS: Mapping[str, tuple[int, str, str]] = {
    "context": (400, "context_length_exceeded", "Your input exceeds the context window of this model."),
    "credit": (
        429,
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "limit": (429, "usage_limit_reached", "The usage limit has been reached"),
}
"""What a refusal is about: its status, code and words here."""
_SCRIPT, _SCRIPTED = "exec", "exec_command"
"""A client may offer one tool that runs a script, in which all other tools are functions."""
_INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
"""Why an answer ended before its end."""
_RESET_S = 3600


def parse_ask(body: Mapping[str, Any]) -> Ask:
    """Read a request for the Responses route."""
    prompts: list[str] = []
    rounds = 0
    results: list[str] = []
    tool_result = ""
    given = body.get("input") or []
    items: list[Mapping[str, Any]] = given if isinstance(given, list) else [{"role": "user", "content": given}]
    for item in [*items, {}]:
        if str(item.get("type", "")).endswith("_call_output"):
            results.append(_HEAD.sub("", flat(item.get("output"))).rstrip("\n"))
            continue
        if results:
            rounds, tool_result, results = rounds + 1, "\n".join(results), []
        if item.get("role") == "user":
            content = item.get("content") or ""
            texts = [flat(each) for each in content] if isinstance(content, list) else [content]
            if texts := [text for text in texts if text.strip() and not _INJECTED.search(text)]:
                rounds = 0
                prompts.append("\n".join(texts))
    tools: list[Mapping[str, Any]] = [
        *(body.get("tools") or []),
        *(tool for item in items for tool in item.get("tools") or []),
    ]
    offered = {tool["name"]: tool.get("parameters") or {} for tool in tools if tool.get("type") == "function"}
    inner: list[Mapping[str, Any]] = [
        each for tool in tools if tool.get("type") == "namespace" for each in tool.get("tools") or []
    ]
    if any(tool.get("name") == _SCRIPT and tool.get("type") == "custom" for tool in inner):
        offered[_SCRIPTED] = {"properties": {"cmd": {"type": "string"}}, _SCRIPT: True}
    return Ask(
        model=str(body.get("model") or "stub-model"),
        stream=bool(body.get("stream")),
        tools=offered,
        prompts=tuple(prompts),
        rounds=rounds,
        tool_result=tool_result,
        text=json.dumps(body),
    )


def whole(reply: Reply, ask: Ask, number: int) -> dict[str, Any]:
    """The answer as one JSON body."""
    reason = _INCOMPLETE.get(reply.turn.stop_reason)
    return {
        **_begun(ask, number),
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": _items(reply, ask, number),
        "usage": {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {"cached_tokens": reply.cached_tokens},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
    }


def stream_frames(reply: Reply, ask: Ask, number: int) -> Iterator[bytes]:
    """The answer as server-sent events."""
    begun = _begun(ask, number)
    yield frame({"type": "response.created", "response": begun})
    yield frame({"type": "response.in_progress", "response": begun})
    full = whole(reply, ask, number)
    for index, item in enumerate(full["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        opened = {**item, "status": "in_progress"}
        opened |= {
            "message": {"content": []},
            "function_call": {"arguments": ""},
            "custom_tool_call": {"input": ""},
        }.get(item["type"], {})
        yield frame({"type": "response.output_item.added", "output_index": index, "item": opened})
        if item["type"] == "message":
            yield from _words(item["content"][0], at, reply.turn.chunk_chars)
        elif item["type"] == "function_call":
            said = {"arguments": item["arguments"], **at}
            yield frame({"type": "response.function_call_arguments.delta", "delta": item["arguments"], **at})
            yield frame({"type": "response.function_call_arguments.done", **said})
        yield frame({"type": "response.output_item.done", "output_index": index, "item": item})
    yield frame({"type": f"response.{full['status']}", "response": full})


def overloaded_frame(ask: Ask, number: int) -> bytes:
    """The event that says in the middle of a stream that the service is overloaded."""
    error = {"code": "server_is_overloaded", "message": "The service is overloaded. Please try again later."}
    failed = {**_begun(ask, number), "status": "failed", "error": error}
    return frame({"type": "response.failed", "response": failed})


def refuse(fault: Fault) -> tuple[int, dict[str, Any]]:
    """Status and body of an error, in the service's own envelope."""
    kind, code, message = _ERRORS.get(fault.status, ("server_error", None, "The server had an error."))
    status, more = fault.status, dict[str, Any]()
    if fault.means:
        status, code, message = _MEANINGS[fault.means]
        kind = code if status == 429 else kind
    if fault.means == "limit":
        more = {"plan_type": "plus", "resets_at": int(time.time()) + _RESET_S, "resets_in_seconds": _RESET_S}
    error = {"message": fault.message or message, "type": fault.error_type or kind, "param": None, "code": code}
    return status, {"error": {**error, **more}}


def _begun(ask: Ask, number: int) -> dict[str, Any]:
    return {
        "id": f"resp_stub{number:04}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "model": ask.model,
        "error": None,
        "incomplete_details": None,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }


def _items(reply: Reply, ask: Ask, number: int) -> list[dict[str, Any]]:
    """The message, if anything is said, and the calls."""
    done = {"status": "completed"}
    items: list[dict[str, Any]] = []
    if reply.turn.thinking:
        summary = [{"type": "summary_text", "text": reply.turn.thinking}]
        items.append({"type": "reasoning", "id": f"rs_stub{number:04}", "summary": summary})
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        items.append({"type": "message", "id": f"msg_stub{number:04}", **done, "role": "assistant", "content": content})
    for index, (name, args) in enumerate(reply.calls):
        mark = f"stub{number:04}{index}"
        call = {"call_id": f"call_{mark}", "name": name, "arguments": json.dumps(args)}
        if _SCRIPT in ask.tools.get(name, {}):
            script = f"const done = await tools.{name}({call['arguments']}); text(done.output ?? JSON.stringify(done));"
            call = {"call_id": call["call_id"], "name": _SCRIPT, "input": script}
            items.append({"type": "custom_tool_call", "id": f"ctc_{mark}", **done, **call})
        else:
            items.append({"type": "function_call", "id": f"fc_{mark}", **done, **call})
    return items


def _words(part: Mapping[str, Any], at: Mapping[str, Any], size: int) -> Iterator[bytes]:
    text = part["text"]
    yield frame({"type": "response.content_part.added", "content_index": 0, "part": {**part, "text": ""}, **at})
    for start in range(0, len(text), max(1, size)):
        delta = text[start : start + size]
        yield frame({"type": "response.output_text.delta", "content_index": 0, "delta": delta, **at})
    yield frame({"type": "response.output_text.done", "content_index": 0, "text": text, **at})
    yield frame({"type": "response.content_part.done", "content_index": 0, "part": part, **at})
