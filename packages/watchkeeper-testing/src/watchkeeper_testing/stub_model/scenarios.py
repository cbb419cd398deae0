"""What a stub model does: scenarios, their turns and their faults.

A scenario is written as a plain dict (or JSON object), so that it can be read from a file and sent over the control route:

    {"turns": [{"text": "I will write.", "tools": [{"do": "write", "path": "{{cwd}}/a.txt", "content": "hi"}]},
               {"text": "Done."}],
     "faults": [{"status": 529, "retry_after": 1}]}

A key that is not known is refused: a misspelt fault that never happens would make a test green for nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self


class ScenarioError(ValueError):
    """A scenario is not written as it must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One tool call. `shell` and `write` find the fitting tool among those that the client offers; `raw` names it."""

    do: Literal["shell", "write", "raw"]
    command: str = ""
    path: str = ""
    content: str = ""
    name: str = ""
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer of the model."""

    text: str = ""
    thinking: str = ""
    tools: tuple[ToolCall, ...] = ()
    stop_reason: str = ""
    """Overrides `tool_use` or `end_turn`: `refusal`, `max_tokens` …"""
    usage: Mapping[str, int] = field(default_factory=dict[str, int])
    """Tokens, `input`, `output` and `cached` (none if not given); about four characters make one if not given."""
    repeat: int = 1
    """The text is sent that many times over."""
    first_delay_s: float = 0.0
    chunk_delay_s: float = 0.0
    chunk_chars: int = 40
    hold: str = ""
    """The turn waits at the gate of this name until the gate is released; `name@key` if the base URL carries a key."""
    hold_at: Literal["start", "stream"] = "start"
    """Wait before anything is sent, or after the first words of a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong with one request. With no field set, nothing does: so faults can start later than the first request."""

    status: int = 0
    error_type: str = ""
    message: str = ""
    means: Literal["", "context", "credit", "limit"] = ""
    """What the refusal is about, put in the words of each protocol: the context is full, the credit or the account's limit is used up."""
    retry_after: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """More headers of the error; `{{now+3600}}` becomes the time in an hour, in seconds since 1970."""
    hang: Literal["", "accept", "headers", "stream"] = ""
    """Silence: instead of an answer, after the headers, or after the first words."""
    reset: Literal["", "accept", "stream"] = ""
    """The connection is reset: instead of an answer, or after the first words."""
    truncate: bool = False
    """The stream ends cleanly in the middle."""
    stream_error: bool = False
    """The stream carries an overloaded event after the first words."""
    garbage: bool = False
    """A web page comes instead of the protocol."""

    @property
    def in_stream(self) -> bool:
        """The fault comes after the first words of a stream."""
        return self.truncate or self.stream_error or self.hang == "stream" or self.reset == "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """How the model behaves towards one client."""

    turns: tuple[Turn, ...] = ()
    """Turn k answers the request that carries k rounds of tool results since the last prompt; a new prompt starts again at the first."""
    repeat_last: bool = False
    """The last turn is repeated forever, instead of an end."""
    faults: tuple[Fault, ...] = ()
    """One per counted request, in order, before any turn is served."""
    faults_forever: bool = False
    """The last fault hits every later request too."""
    fault_scope: Literal["main", "all"] = "main"
    """`main`: only requests that offer tools count and are hit."""
    side: str = "A side answer."
    """The text for requests that offer no tools: titles, summaries, probes."""
    keys: tuple[str, ...] = ()
    """The credentials that are accepted; any other gets a 401. None given: every one is."""

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Self:
        """Read a scenario as it is written.

        Raises:
            ScenarioError: a key is not known, or a value is of the wrong kind.
        """
        known = _known(cls, data)
        known["turns"] = tuple(_turn(turn) for turn in known.get("turns", ()))
        known["faults"] = tuple(Fault(**_known(Fault, fault)) for fault in known.get("faults", ()))
        known["keys"] = tuple(known.get("keys", ()))
        return cls(**known)


def _turn(data: Mapping[str, Any]) -> Turn:
    known = _known(Turn, data)
    known["tools"] = tuple(ToolCall(**_known(ToolCall, call)) for call in known.get("tools", ()))
    for call in known["tools"]:
        if call.do not in {"shell", "write", "raw"}:
            message = f"A tool call does not know 'do': {call.do!r}; use shell, write or raw."
            raise ScenarioError(message)
    return Turn(**known)


def _known(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `data`, if `kind` has them all."""
    if strange := set(data) - {each.name for each in fields(kind)}:
        message = f"A {kind.__name__.lower()} has no field named {', '.join(sorted(strange))}."
        raise ScenarioError(message)
    return dict(data)


_FOREVER = {"faults_forever": True, "fault_scope": "all"}
_ANSWER = {"text": "Answer {{prompts}}: you said [{{last_user}}]."}
_TOOLS = [
    {
        "text": "I will write a file and look at it.",
        "tools": [{"do": "write", "path": "{{cwd}}/hello.txt", "content": "hello from the stub\n"}],
    },
    {"text": "Now I look.", "tools": [{"do": "shell", "command": "cat hello.txt"}]},
    {"text": "Done. The file says: {{tool_result}}"},
]
_LIMIT_HEADERS = {
    "anthropic-ratelimit-unified-status": "rejected",
    "anthropic-ratelimit-unified-reset": "{{now+3600}}",
    "anthropic-ratelimit-unified-representative-claim": "five_hour",
}

BUILT_IN: dict[str, Mapping[str, Any]] = {
    "text": {"turns": [_ANSWER]},
    "work": {"turns": _TOOLS},
    "held": {
        "turns": [
            {"text": "I will write a file.", "tools": [{"do": "write", "path": "{{cwd}}/a.txt", "content": "a\n"}]},
            {"text": "Done after a while.", "hold": "end"},
        ]
    },
    "held_stream": {"turns": [{"text": "A long answer " * 20, "hold": "end", "hold_at": "stream"}]},
    "loop": {"turns": [{"text": "Again.", "tools": [{"do": "shell", "command": "echo again"}]}], "repeat_last": True},
    # Claude Code refuses to run a mere `sleep`.
    "sleep": {
        "turns": [
            {"text": "A slow command.", "tools": [{"do": "shell", "command": "tail -f /dev/null"}]},
            {"text": "Done."},
        ]
    },
    "refusal": {"turns": [{"text": "I will not.", "stop_reason": "refusal"}]},
    "max_tokens": {"turns": [{"text": "Too long an answer", "stop_reason": "max_tokens"}], "repeat_last": True},
    "bad_key": {"faults": [{"status": 401}], **_FOREVER},
    "forbidden": {"faults": [{"status": 403}], **_FOREVER},
    "bad_request": {"faults": [{"status": 400}], **_FOREVER},
    "no_model": {"faults": [{"status": 404}], **_FOREVER},
    "too_long": {"faults": [{"status": 400, "means": "context"}], **_FOREVER},
    "credit": {"faults": [{"status": 400, "means": "credit"}], **_FOREVER},
    "rate_once": {"faults": [{"status": 429, "retry_after": 1}], "turns": _TOOLS},
    "rate_forever": {"faults": [{"status": 429, "retry_after": 1}], **_FOREVER},
    "limit": {
        "faults": [{"status": 429, "retry_after": 3600, "means": "limit", "headers": _LIMIT_HEADERS}],
        **_FOREVER,
    },
    "overloaded_once": {"faults": [{"status": 529}], "turns": _TOOLS},
    "overloaded_forever": {"faults": [{"status": 529}], **_FOREVER},
    "unavailable_forever": {"faults": [{"status": 503}], **_FOREVER},
    "hang": {"faults": [{"hang": "accept"}], **_FOREVER},
    "hang_headers": {"faults": [{"hang": "headers"}], **_FOREVER},
    "hang_stream": {"faults": [{"hang": "stream"}], **_FOREVER},
    "reset": {"faults": [{"reset": "accept"}], **_FOREVER},
    "reset_stream": {"faults": [{"reset": "stream"}], **_FOREVER},
    "truncate_once": {"faults": [{"truncate": True}], "turns": _TOOLS},
    "truncate_forever": {"faults": [{"truncate": True}], **_FOREVER},
    "stream_overloaded": {"faults": [{"stream_error": True}], **_FOREVER},
    "garbage": {"faults": [{"garbage": True}], **_FOREVER},
}
"""Scenarios that are always there; a scenario of the same name takes their place."""
