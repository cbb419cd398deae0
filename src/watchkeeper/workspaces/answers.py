"""What is asked of a look into a directory, and its answer, as plain JSON values."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

from watchkeeper.domain.model import Changes, FileChange
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.ports.workspace import PLACE, Survey
from watchkeeper.ports.worktrees import Made
from watchkeeper.workspaces.git import GitWorkspace
from watchkeeper.workspaces.plain import storable
from watchkeeper.workspaces.worktrees import GitWorktrees, tree_of


def answer(workspace: GitWorkspace, question: Mapping[str, object]) -> dict[str, object]:
    """Look, as asked. A snapshot names the place too, because to find that is a look into the directory as well."""
    cwd = cast("str", question["cwd"])
    match question["do"]:
        case "snapshot":
            return _placed(cwd, workspace.snapshot(cwd))
        case "identify":
            return {"found": _encoded(workspace.identify(cwd))}
        case "survey":
            first, before, last = workspace.survey_for(cwd, cast("list[str]", question["names"]))
            return {"first": _encoded(first), "before": _placed(cwd, before), "last": _encoded(last)}
        case "forget":
            return {"why_not": workspace.forget(cwd, cast("list[str]", question["names"]))}
        case _:
            pass
    befores = cast("list[Mapping[str, object] | None]", question["befores"])
    names = cast("list[str]", question["names"])
    return {"changes": [asdict(each) for each in workspace.changes_of_many(cwd, befores, names)]}


def make(worktrees: GitWorktrees, question: Mapping[str, object]) -> dict[str, object]:
    """Make a worktree, as asked."""
    made = worktrees.make(tree_of(question["tree"]), cast("str", question["owner"]))
    return {"place": _encoded(made.place), "problem": made.problem, "passing": made.passing}


def made_of(told: Mapping[str, object]) -> Made:
    """What came of making a worktree, from its message. Raises KeyError, TypeError for a message that the looker cannot have sent."""
    return Made(directory_of(told["place"]), str(told["problem"]), bool(told["passing"]))


def _placed(cwd: str, seen: Mapping[str, object]) -> dict[str, object]:
    top = seen.get("top")
    real = storable(os.path.realpath(top if isinstance(top, str) else cwd))
    place = real if isinstance(top, str) or real.endswith("/") else f"{real}/"
    return {**seen, PLACE: place}


def _encoded(found: WorkingDirectory | None) -> dict[str, object] | None:
    return None if found is None else asdict(found)


def directory_of(told: object) -> WorkingDirectory | None:
    """A directory from its message. Raises TypeError for a message that the looker cannot have sent."""
    if told is None:
        return None
    data = dict(cast("Mapping[str, object]", told))
    known = data.get("repository")
    if known is not None:
        device, inode, generation = cast("list[int | None]", known)
        data["repository"] = (device, inode, generation)
    return WorkingDirectory(**data)  # pyright: ignore[reportArgumentType] - the fields of our own record


def survey_of(told: Mapping[str, object]) -> Survey:
    """A survey from its message. Raises KeyError, TypeError for a message that the looker cannot have sent."""
    before = cast("Mapping[str, object]", told["before"])
    return Survey(directory_of(told["first"]), before, directory_of(told["last"]))


def changes_of(told: Mapping[str, object]) -> Changes:
    """Changes from their message. Raises KeyError, TypeError for a message that the looker cannot have sent."""
    data = dict(told)
    files = cast("list[dict[str, object]]", data["files"])
    data["files"] = tuple(FileChange(**each) for each in files)  # pyright: ignore[reportArgumentType] - as below
    for name in ("commits", "beside", "ignored", "left_out"):
        data[name] = tuple(cast("list[str]", data[name]))
    data["left"] = directory_of(data["left"])
    return Changes(**data)  # pyright: ignore[reportArgumentType] - the fields of our own record
