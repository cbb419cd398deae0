"""The changes of runs, with the trees that `wk diff` shows them from: what differs is then told by the trees themselves, with lines and new names."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from watchkeeper.domain.model import Changes
from watchkeeper.errors import describe_os_error
from watchkeeper.workspaces.alternates import alternate
from watchkeeper.workspaces.git_program import GitUnknown, is_hash
from watchkeeper.workspaces.status import Status
from watchkeeper.workspaces.trees import Kept, Trees

MAX_CHANGED = 5000
"""How many changed files are listed."""
MAX_COMMITS = 50
"""How many commits are listed."""
MAX_LEFT_OUT = 100
"""How many changed files are named that the trees do not hold."""

_BEFORE_UNKNOWN = "The files as they were before the run were not kept."


def keep(
    trees: Trees,
    seen: Status,
    befores: Sequence[Mapping[str, object] | None],
    found: Sequence[Changes],
    names: Sequence[str],
) -> list[Changes]:
    """Keep what there is now for every named run that changed something, and complete its changes.

    A run whose files could not be kept has its changes as they were, and the reason. A tree that a name has already is used again: it was kept by an earlier
    try, and is nearer to what the run left. Never raises.
    """
    wanted = {
        at: name for at, name in enumerate(names) if name and found[at].known and (found[at].files or found[at].commits)
    }
    if not wanted:
        return list(found)
    try:
        commits = {head for at in wanted if (head := _clean_head(befores[at] or {})) is not None}
        again, committed = trees.known(seen.top, list(wanted.values()), "after", commits)
    except (GitUnknown, OSError) as error:
        return [_not_kept(each, str(error)) if at in wanted else each for at, each in enumerate(found)]
    now = (
        Kept(None)
        if len(again) == len(set(wanted.values()))
        else trees.of_checkout(seen.top, seen.head, seen.dirty, seen.off)
    )
    complete = list(found)
    for at, name in wanted.items():
        tip = Kept(again[name]) if name in again else now
        complete[at] = _completed(trees, seen, befores[at] or {}, committed, found[at], name, tip)
    return complete


def so_far(trees: Trees, seen: Status, before: Mapping[str, object], changes: Changes, directory: str) -> Changes:
    """Complete the changes of a run that has not ended, with trees that are in a repository of our own in `directory`. Never raises."""
    if not (changes.known and (changes.files or changes.commits)):
        return changes
    objects = Path(directory, "objects")
    try:
        (objects / "info").mkdir(parents=True)
        _ = (objects / "info" / "alternates").write_bytes(alternate(f"{seen.repository}/objects"))
    except OSError as error:
        return _not_kept(changes, describe_os_error(error))
    seen = seen._replace(off={**(seen.off or {}), "GIT_OBJECT_DIRECTORY": str(objects)})
    tip = trees.of_checkout(seen.top, seen.head, seen.dirty, seen.off)
    found = _completed(trees, seen, before, {}, changes, None, tip)
    return found if found.tip is None else replace(found, repository=directory)


def _clean_head(before: Mapping[str, object]) -> str | None:
    """The commit of a checkout that was as this commit has it."""
    head = before.get("head")
    return head if isinstance(head, str) and is_hash(head) and not before.get("dirty") else None


def _completed(
    trees: Trees,
    seen: Status,
    before: Mapping[str, object],
    committed: Mapping[str, str],
    changes: Changes,
    name: str | None,
    tip: Kept,
) -> Changes:
    """The changes as the difference between two trees, which are kept under the name from here on, if there is one. `committed`: the trees of commits."""
    if tip.tree is None:
        return _not_kept(changes, tip.why_not)
    try:
        was_dirty = bool(before["dirty"])
        head = cast("str | None", before["head"])
        base = (
            before.get("tree") if was_dirty else committed.get(head or "") or trees.of_commit(seen.top, head, seen.off)
        )
        if not isinstance(base, str):
            return _not_kept(changes, str(before.get("not_kept") or _BEFORE_UNKNOWN))
        left_out = dict.fromkeys((*cast("list[str]", before.get("left_out") or []), *tip.left_out))
        if name is not None:
            trees.name(seen.top, {(name, "before"): base, (name, "after"): tip.tree}, seen.off)
        differences = trees.compare(seen.top, base, tip.tree, seen.off)
    except (GitUnknown, OSError, ValueError, KeyError, TypeError) as error:
        return _not_kept(changes, str(error))
    files = [replace(each, is_committed=not {each.path, each.old} & seen.dirty.keys()) for each in differences]
    listed, seen_to_change = {file.path for file in files}, {file.path for file in changes.files}
    files += [file for file in changes.files if file.path in left_out and file.path not in listed]
    files.sort(key=lambda file: os.fsencode(file.path))
    return replace(
        changes,
        files=tuple(files[:MAX_CHANGED]),
        truncated=len(files) > MAX_CHANGED or (changes.truncated and len(changes.commits) >= MAX_COMMITS),
        base=base,
        tip=tip.tree,
        repository=seen.repository,
        left_out=tuple(path for path in left_out if path in seen_to_change)[:MAX_LEFT_OUT],
    )


def _not_kept(changes: Changes, why: str) -> Changes:
    return replace(changes, not_kept=why or _BEFORE_UNKNOWN)
