"""The structured values that are kept as JSON, read back: what was asked for, how an agent ended, what it used and changed."""

from typing import cast

from watchkeeper.domain.model import (
    Changes,
    EndReason,
    ExitFact,
    FileChange,
    Leftover,
    OnLost,
    TaskSpec,
    Usage,
)
from watchkeeper.store.values import from_json, moment, record


def spec_from(text: str) -> TaskSpec:
    """What was asked for. A field that is not known makes it unreadable: leaving it out would run something else (R13)."""
    data = record(text)
    data["argv"] = _texts(data.get("argv", []))
    data["environment_names"] = _texts(data.get("environment_names", []))
    data["on_lost"] = OnLost(_text(data.get("on_lost", OnLost.HOLD.value)))
    return TaskSpec(**data)  # pyright: ignore[reportArgumentType] - names are checked by the call, values were ours


def exit_from(text: str | None) -> ExitFact | None:
    """How an agent ended."""
    if text is None:
        return None
    data = record(text)
    data["reason"] = EndReason(_text(data["reason"]))
    data["at"] = moment(cast("int", data["at"]))
    return ExitFact(**data)  # pyright: ignore[reportArgumentType] - as above


def usage_from(text: str) -> Usage:
    """What a run used."""
    return Usage(**record(text))  # pyright: ignore[reportArgumentType] - as above


def changes_from(text: str | None) -> Changes | None:
    """What a run changed."""
    if text is None:
        return None
    data = record(text)
    files = cast("list[dict[str, str]]", data.get("files", []))
    data["files"] = tuple(FileChange(path=one["path"], change=one["change"]) for one in files)
    data["commits"] = _texts(data.get("commits", []))
    return Changes(**data)  # pyright: ignore[reportArgumentType] - as above


def leftovers_from(text: str) -> tuple[Leftover, ...]:
    """What outlived the agent."""
    found = cast("list[dict[str, object]]", from_json(text))
    return tuple(Leftover(pid=cast("int", one["pid"]), command=_text(one["command"])) for one in found)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_text(one) for one in cast("list[object]", value))
