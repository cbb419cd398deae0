"""What a request asks and what is answered, in no protocol's words."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from watchkeeper_testing.stub_model.scenarios import Fault, Scenario, ToolCall, Turn

_CWD = re.compile(r"(?:[Ww]orking directory:\s*|<cwd>)(/[^\s\"\\<]+)")
_TOOL_NAMES = {"shell": ("Bash", "bash", "shell", "exec_command"), "write": ("Write", "write", "write_file")}
_ARGUMENT_NAMES = {
    "command": ("command", "cmd"),
    "path": ("file_path", "path", "filePath"),
    "content": ("content", "text"),
}
_PATCHING = "exec_command"
"""A shell whose program takes a patch as a command, and offers no tool for writing."""
_PLAIN = {"string": "stub", "integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}


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
    cached_tokens: int = 0
    label: str = field(default="")


class Speech(Protocol):
    """A protocol: how to read what a request says, and how to put an answer."""

    @property
    def FIRST_WORDS(self) -> int:  # noqa: N802 - a constant of a module
        """Frames of a stream until the first words are out."""
        ...

    def parse_ask(self, body: Mapping[str, Any]) -> Ask:
        """Read a request."""
        ...

    def whole(self, reply: Reply, ask: Ask, number: int) -> dict[str, Any]:
        """The answer as one JSON body."""
        ...

    def stream_frames(self, reply: Reply, ask: Ask, number: int) -> Iterator[bytes]:
        """The answer as server-sent events."""
        ...

    def overloaded_frame(self, ask: Ask, number: int) -> bytes:
        """The event that says in the middle of a stream that the service is overloaded."""
        ...

    def refuse(self, fault: Fault) -> tuple[int, dict[str, Any]]:
        """Status and body of an error, in the service's own envelope."""
        ...


def flat(value: Any) -> str:  # noqa: ANN401 - content is whatever the client sent
    """The text in a tool result, which may be a string or a list of blocks."""
    if isinstance(value, list):
        return "\n".join(flat(each) for each in value)
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
        cached_tokens=turn.usage.get("cached", 0),
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
    call: ToolCall, tools: Mapping[str, Mapping[str, Any]], words: Mapping[str, str]
) -> tuple[str, Mapping[str, Any]] | None:
    """The tool's name and arguments as this client wants them, or None if it offers no such tool."""
    if call.do == "raw":
        return call.name, fill(call.args, words)
    if call.do == "write" and _PATCHING in tools:
        added = "".join(f"+{line}\n" for line in call.content.splitlines())
        patch = f"*** Begin Patch\n*** Add File: {call.path}\n{added}*** End Patch"
        call = ToolCall(do="shell", command=f"apply_patch <<'EOF'\n{patch}\nEOF", args=call.args)
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


def frame(data: Mapping[str, Any]) -> bytes:
    """One server-sent event, named by its own type."""
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()
