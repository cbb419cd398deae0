"""A task's worktree in words."""

import os
from typing import TYPE_CHECKING

from watchkeeper.cli import render
from watchkeeper.domain.merge import described, unfinished
from watchkeeper.domain.worktree import Worktree, WorktreeState

if TYPE_CHECKING:
    from watchkeeper.domain.salvage import Salvage

_STANDS = {
    WorktreeState.PLANNED: "made when the task starts",
    WorktreeState.MADE: "",
    WorktreeState.REMOVING: "being removed: `wk worktree clean` completes that",
    WorktreeState.REMOVED: "removed",
}
_SHORT = 10


def where(tree: Worktree) -> str:
    """Its directory, branch and base, as the rest of a sentence."""
    return render.clean(f"{short_path(tree.path)}, branch {tree.branch} {base(tree)}{_changes(tree)}")


def base(tree: Worktree) -> str:
    """Where its branch started."""
    name = "" if tree.base.startswith(tree.base_name) else f"{tree.base_name}, "
    return f"from {name}{tree.base[:_SHORT]}"


def _changes(tree: Worktree) -> str:
    return "" if tree.begins_with is None else " with your uncommitted changes"


def fields(tree: Worktree | None, task_id: str) -> tuple[tuple[str, str], ...]:
    """Its branch and what it was made of, as labels and texts of `wk show`; nothing for a task without one."""
    if tree is None:
        return ()
    how = stands(tree)
    about = f"branch {tree.branch} {base(tree)}{_changes(tree)}{f' ({how})' if how else ''}"
    rows = [("worktree", render.clean(about)), ("", render.clean(f"of {tree.source}"))]
    if tree.merged is not None:
        rows.append(("merge", render.clean(described(tree.merged))))
    if tree.merge is not None:
        what, hint = unfinished(task_id, tree.merge)
        rows.append(("merge", render.clean(f"{what}: {hint}")))
    return tuple(rows)


def merge(tree: Worktree | None) -> str:
    """What became of the merge of its branch, in a few words for lists; empty: there was none."""
    if tree is None or (tree.merge is None and tree.merged is None):
        return ""
    if tree.merge is not None:
        return render.clean(f"merge into {tree.merge.into} not ended")
    return "" if tree.merged is None else render.clean(described(tree.merged))


def stands(tree: Worktree) -> str:
    """How it stands, in words; empty where there is nothing to say."""
    return _STANDS[tree.state]


def kept(salvage: "Salvage | None") -> tuple[str, ...]:
    """What a person should know of what was kept of a removed worktree, in lines; nothing if nothing was."""
    if salvage is None:
        return ()
    lines = [f"`wk undo {salvage.id}` brings its worktree back"]
    if salvage.left_out:
        lines.append(f"sockets do not come back: {', '.join(salvage.left_out)}")
    if salvage.pushed_by:
        lines.append(
            f"`git push {salvage.pushed_by[0]}` would send what was kept: this remote takes all references (`git config --get-regexp remote`)"
        )
    return tuple(render.clean(line) for line in lines)


def short_path(path: str) -> str:
    """A path with `~` for the caller's home."""
    home = os.path.expanduser("~")  # noqa: PTH111 - a text, not a look at the file system
    return f"~{path[len(home) :]}" if home != "/" and path.startswith(f"{home}/") else path
