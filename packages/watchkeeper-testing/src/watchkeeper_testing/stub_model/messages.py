"""The Messages protocol, both ways: what a request says, and the frames and bodies that answer it."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from watchkeeper_testing.stub_model.exchange import Ask, Reply, flat, frame
from watchkeeper_testing.stub_model.scenarios import Fault

_INJECTED = re.compile(r"^\s*<(system-reminder|command-name|command-message|local-command)")
"""Text that the client puts into the user's messages although no user wrote it."""
FIRST_WORDS = 3
_REMINDER = re.compile(r"\s*<system-reminder>.*?</system-reminder>", re.DOTALL)
_ERRORS = {
    400: ("invalid_request_error", "The request is malformed."),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "This key may not use this resource."),
    404: ("not_found_error", "model: no such model"),
    429: ("rate_limit_error", "This request would exceed the rate limit."),
    500: ("api_error", "Internal server error"),
    503: ("api_error", "Service unavailable"),
    529: ("overloaded_error", "Overloaded"),
}
_MEANINGS = {
    "context": "prompt is too long: 250000 tokens > 200000 maximum",
    "credit": "Your credit balance is too low to access the API.",
}


def parse_ask(body: Mapping[str, Any]) -> Ask:
    """Read a request for the Messages route."""
    prompts: list[str] = []
    rounds = 0
    tool_result = ""
    for message in body.get("messages") or []:
        if message.get("role") != "user":
            continue
        content = message.get("content") or ""
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        results = [flat(block.get("content")) for block in blocks if block.get("type") == "tool_result"]
        texts = [block.get("text", "") for block in blocks if block.get("type") == "text"]
        texts = [text for text in texts if text.strip() and not _INJECTED.search(text)]
        if results:
            rounds, tool_result = rounds + 1, _REMINDER.sub("", "\n".join(results))
        elif texts:
            rounds = 0
            prompts.append("\n".join(texts))
    offered = {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or [] if "name" in tool}
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
    blocks: list[dict[str, Any]] = []
    if reply.turn.thinking:
        blocks.append({"type": "thinking", "thinking": reply.turn.thinking, "signature": "stub"})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for index, (name, args) in enumerate(reply.calls):
        blocks.append({"type": "tool_use", "id": f"toolu_stub{number:04}{index}", "name": name, "input": args})
    return {
        "id": f"msg_stub{number:04}",
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "content": blocks,
        "stop_reason": reply.turn.stop_reason or ("tool_use" if reply.calls else "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": reply.input_tokens,
            "output_tokens": reply.output_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": reply.cached_tokens,
        },
    }


def stream_frames(reply: Reply, ask: Ask, number: int) -> Iterator[bytes]:
    """The answer as server-sent events."""
    full = whole(reply, ask, number)
    begun = {**full, "content": [], "stop_reason": None, "usage": {**full["usage"], "output_tokens": 1}}
    yield frame({"type": "message_start", "message": begun})
    for index, block in enumerate(full["content"]):
        empty, deltas = _deltas(block, reply.turn.chunk_chars)
        yield frame({"type": "content_block_start", "index": index, "content_block": empty})
        for delta in deltas:
            yield frame({"type": "content_block_delta", "index": index, "delta": delta})
        yield frame({"type": "content_block_stop", "index": index})
    ending = {"stop_reason": full["stop_reason"], "stop_sequence": None}
    yield frame({"type": "message_delta", "delta": ending, "usage": full["usage"]})
    yield frame({"type": "message_stop"})


def _deltas(block: Mapping[str, Any], size: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as it opens, and what is then added to it."""
    match block["type"]:
        case "text":
            text = block["text"]
            pieces = [text[at : at + size] for at in range(0, len(text), max(1, size))]
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
        case "thinking":
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": "stub"},
            ]
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case _:
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]


def overloaded_frame(ask: Ask, number: int) -> bytes:
    """The event that says in the middle of a stream that the service is overloaded."""
    del ask, number
    return frame(refuse(Fault(status=529))[1])


def refuse(fault: Fault) -> tuple[int, dict[str, Any]]:
    """Status and body of an error, in the service's own envelope."""
    kind, message = _ERRORS.get(fault.status, ("api_error", "An error."))
    message = fault.message or _MEANINGS.get(fault.means, message)
    return fault.status, {
        "type": "error",
        "error": {"type": fault.error_type or kind, "message": message},
        "request_id": "req_stub",
    }
