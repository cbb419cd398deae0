"""The Messages protocol, both ways: what a request says, and the frames and bodies that answer it."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from watchkeeper.testing.stub_model.scenarios import Call, Fault, Scenario, Turn

_INJECTED = re.compile(r"^\s*<(system-reminder|command-name|command-message|local-command)")
"""Text that the client puts into the user's messages although no user wrote it."""
_REMINDER = re.compile(r"\s*<system-reminder>.*?</system-reminder>", re.DOTALL)
_CWD = re.compile(r"[Ww]orking directory:\s*(/[^\s\"\\]+)")
_TOOL_NAMES = {"shell": ("Bash", "bash", "shell"), "write": ("Write", "write", "write_file")}
_ARGUMENT_NAMES = {
    "command": ("command", "cmd"),
    "path": ("file_path", "path", "filePath"),
    "content": ("content", "text"),
}
_PLAIN = {"string": "stub", "integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What the stub needs to know about a request."""

    model: str
    stream: bool
    tools: Mapping[str, Mapping[str, Any]]
    """Name to input schema of every tool offered."""
    prompts: tuple[str, ...]
    """What the user really asked, in order."""
    rounds: int
    """Rounds of tool results since the last prompt."""
    tool_result: str
    text: str
    """The whole request, to look for things in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer, ready to be put on the wire."""

    turn: Turn
    text: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    input_tokens: int = 1
    output_tokens: int = 1
    label: str = field(default="")


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
        results = [_flat(block.get("content")) for block in blocks if block.get("type") == "tool_result"]
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


def _flat(value: Any) -> str:  # noqa: ANN401 - content is whatever the client sent
    """The text in a tool result, which may be a string or a list of blocks."""
    if isinstance(value, list):
        return "\n".join(_flat(each) for each in value)
    if isinstance(value, Mapping):
        return str(value.get("text", ""))
    return str(value or "")


def build_reply(scenario: Scenario, ask: Ask, number: int) -> Reply:
    """The answer to `ask`, the `number`th request, under `scenario`."""
    cwd = _CWD.search(ask.text)
    words = {
        "cwd": cwd.group(1) if cwd else ".",
        "last_user": ask.prompts[-1] if ask.prompts else "",
        "prompts": str(len(ask.prompts)),
        "tool_result": ask.tool_result,
        "model": ask.model,
        "n": str(number),
    }
    if not ask.tools:
        return _reply(Turn(), fill(scenario.side, words), (), ask, "side")
    turns = scenario.turns or (Turn(text="There is no turn."),)
    if ask.rounds >= len(turns) and not scenario.repeat_last:
        return _reply(Turn(), "There is no further turn.", (), ask, "past the end")
    index = min(ask.rounds, len(turns) - 1)
    turn = turns[index]
    text = fill(turn.text, words) * turn.repeat
    calls: list[tuple[str, Mapping[str, Any]]] = []
    for call in turn.tools:
        shaped = _shape(call, ask.tools, words)
        if shaped is None:
            text += f" No tool is offered for {call.do}."
        else:
            calls.append(shaped)
    return _reply(turn, text, tuple(calls), ask, f"turn {index}")


def _reply(turn: Turn, text: str, calls: tuple[tuple[str, Mapping[str, Any]], ...], ask: Ask, label: str) -> Reply:
    said = len(text) + len(json.dumps([args for _, args in calls]))
    return Reply(
        turn=turn,
        text=text,
        calls=calls,
        input_tokens=turn.usage.get("input", max(1, len(ask.text) // 4)),
        output_tokens=turn.usage.get("output", max(1, said // 4)),
        label=label,
    )


def fill(value: Any, words: Mapping[str, str]) -> Any:  # noqa: ANN401 - any JSON value
    """Put `words` for the `{{…}}` in every string of a JSON value, and times for `{{now+seconds}}`."""
    if isinstance(value, str):
        value = re.sub(r"\{\{now\+(\d+)\}\}", lambda m: str(int(time.time()) + int(m[1])), value)
        return re.sub(r"\{\{(\w+)\}\}", lambda m: words.get(m[1], m[0]), value)
    if isinstance(value, Mapping):
        return {key: fill(each, words) for key, each in value.items()}
    if isinstance(value, list):
        return [fill(each, words) for each in value]
    return value


def _shape(
    call: Call, tools: Mapping[str, Mapping[str, Any]], words: Mapping[str, str]
) -> tuple[str, Mapping[str, Any]] | None:
    """The tool's name and arguments as this client wants them, or None if it offers no such tool."""
    if call.do == "raw":
        return call.name, fill(call.args, words)
    name = next((each for each in _TOOL_NAMES[call.do] if each in tools), None)
    if name is None:
        return None
    properties: Mapping[str, Any] = tools[name].get("properties") or {}
    wanted = {"command": call.command} if call.do == "shell" else {"path": call.path, "content": call.content}
    args: dict[str, Any] = {}
    for ours, value in wanted.items():
        theirs = next((each for each in _ARGUMENT_NAMES[ours] if each in properties), _ARGUMENT_NAMES[ours][0])
        args[theirs] = fill(value, words)
    for required in tools[name].get("required") or []:
        args.setdefault(required, _PLAIN.get(properties.get(required, {}).get("type"), "stub"))
    return name, {**args, **fill(call.args, words)}


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
            "cache_read_input_tokens": 0,
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


def frame(data: Mapping[str, Any]) -> bytes:
    """One server-sent event, named by its own type."""
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def error_body(fault: Fault) -> dict[str, Any]:
    """The service's own envelope for an error."""
    kind, message = _ERRORS.get(fault.status, ("api_error", "An error."))
    return {
        "type": "error",
        "error": {"type": fault.error_type or kind, "message": fault.message or message},
        "request_id": "req_stub",
    }
