"""The structured values of runs that are kept as JSON, read back: how an agent ended, what it used and changed."""

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from watchkeeper.domain.merge import Merge, Merged, MergeState
from watchkeeper.domain.outcome_record import Changes, FileChange, Usage
from watchkeeper.domain.run_record import EndReason, ExitFact, Leftover
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.domain.worktree import Worktree, WorktreeState
from watchkeeper.store.checked import checked
from watchkeeper.store.values import from_json, moment, plain_text, plain_texts, record

if TYPE_CHECKING:
    from watchkeeper.domain.inheritance import Inheritance
    from watchkeeper.domain.profile import LaunchProfile


def exit_from(text: str | None) -> ExitFact | None:
    """How an agent ended."""
    if text is None:
        return None
    data = record(text)
    data["reason"] = EndReason(plain_text(data["reason"]))
    data["at"] = moment(data["at"])
    return checked(ExitFact, data)


def usage_from(text: str) -> Usage:
    """What a run used."""
    return checked(Usage, record(text))


def changes_from(text: str | None) -> Changes | None:
    """What a run changed."""
    if text is None:
        return None
    data = record(text)
    files = cast("list[dict[str, object]]", data.get("files", []))
    data["files"] = tuple(checked(FileChange, one) for one in files)
    data["beside"] = plain_texts(data.get("beside", []))
    data["commits"] = plain_texts(data.get("commits", []))
    for paths in ("ignored", "left_out"):
        data[paths] = plain_texts(data.get(paths, []))
    left = data.get("left")
    data["left"] = None if left is None else _working_directory(cast("dict[str, object]", left))
    return checked(Changes, data)


def working_directory_from(text: str | None) -> WorkingDirectory | None:
    """Which directory was approved. What cannot be read is not taken for one that was not recorded (R13)."""
    return None if text is None else _working_directory(record(text))


def _working_directory(data: dict[str, object]) -> WorkingDirectory:
    known = data.get("repository")
    if known is not None:
        device, inode, generation = cast("list[int | None]", known)
        data["repository"] = (device, inode, generation)
    return checked(WorkingDirectory, data)


def worktree_from(data: dict[str, object]) -> Worktree:
    """The worktree of a task. Raises TypeError, ValueError, KeyError."""
    device, inode, generation = cast("list[int | None]", data["identity"])
    made = data.get("made")
    data["identity"] = (device, inode, generation)
    data["state"] = WorktreeState(plain_text(data["state"]))
    data["made"] = None if made is None else _working_directory(cast("dict[str, object]", made))
    merge, merged = data.get("merge"), data.get("merged")
    if merge is not None:
        begun = dict(cast("dict[str, object]", merge))
        data["merge"] = checked(Merge, begun | {"state": MergeState(plain_text(begun["state"]))})
    data["merged"] = None if merged is None else checked(Merged, dict(cast("dict[str, object]", merged)))
    return checked(Worktree, data)


def leftovers_from(text: str) -> tuple[Leftover, ...]:
    """What outlived the agent."""
    found = cast("list[dict[str, object]]", from_json(text))
    return tuple(checked(Leftover, {"pid": one["pid"], "command": one["command"]}) for one in found)


def profile_from(text: str | None, fingerprint: str | None) -> "LaunchProfile | None":
    """A launch profile. A field that is not known, or another fingerprint, makes it unreadable: nothing is launched from it (R13)."""
    return None if text is None else _profile(text, fingerprint)


@lru_cache(maxsize=64)
def _profile(text: str, fingerprint: str | None) -> "LaunchProfile":
    """A profile never changes, and a launch reads its own several times; the fingerprint alone costs half a millisecond."""
    from watchkeeper.domain.profile import LaunchProfile, RightsLevel  # noqa: PLC0415 - lists never read one

    data = record(text)
    data["rights"] = RightsLevel(plain_text(data["rights"]))
    data["brief"] = plain_texts(data["brief"])
    data["argv"] = tuple(cast("list[str | None]", data["argv"]))
    for pairs in ("options", "environment"):
        data[pairs] = tuple((one[0], one[1]) for one in cast("list[list[str]]", data[pairs]))
    inherits = data.get("inherits")
    if inherits is not None:
        data["inherits"] = _inheritance(cast("dict[str, object]", inherits))
    profile = checked(LaunchProfile, data)
    if profile.fingerprint != fingerprint:
        msg = "the fingerprint of a launch profile does not fit it"
        raise ValueError(msg)
    return profile


def _inheritance(data: dict[str, object]) -> "Inheritance":
    from watchkeeper.domain.inheritance import Inheritance  # noqa: PLC0415 - as above

    limits = cast("list[list[int | str]]", data["limits"])
    data["limits"] = tuple((plain_text(name), cast("int", soft), cast("int", hard)) for name, soft, hard in limits)
    return checked(Inheritance, data)
