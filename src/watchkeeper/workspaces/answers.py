"""What is asked of a look into a directory, and its answer, as plain JSON values."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

from watchkeeper.domain.model import Changes, FileChange
from watchkeeper.ports.workspace import PLACE
from watchkeeper.workspaces.git import GitWorkspace
from watchkeeper.workspaces.plain import storable


def answer(workspace: GitWorkspace, question: Mapping[str, object]) -> dict[str, object]:
    """Look, as asked. A snapshot names the place too, because to find that is a look into the directory as well."""
    cwd = cast("str", question["cwd"])
    if question["do"] == "snapshot":
        seen = workspace.snapshot(cwd)
        top = seen.get("top")
        real = storable(os.path.realpath(top if isinstance(top, str) else cwd))
        place = real if isinstance(top, str) or real.endswith("/") else f"{real}/"
        return {**seen, PLACE: place}
    befores = cast("list[Mapping[str, object] | None]", question["befores"])
    return {"changes": [asdict(each) for each in workspace.changes_of_many(cwd, befores)]}


def changes_of(told: Mapping[str, object]) -> Changes:
    """Changes as they were told. Raises KeyError, TypeError for what nobody of ours told."""
    files = cast("list[dict[str, str]]", told["files"])
    return Changes(
        known=bool(told["known"]),
        why_unknown=str(told["why_unknown"]),
        files=tuple(FileChange(path=each["path"], change=each["change"]) for each in files),
        commits=tuple(cast("list[str]", told["commits"])),
        truncated=bool(told["truncated"]),
        in_checkout=bool(told["in_checkout"]),
        beside=tuple(cast("list[str]", told["beside"])),
    )
