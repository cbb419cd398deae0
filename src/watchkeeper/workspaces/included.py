"""What a worktree begins with beside its commit: the uncommitted changes of the checkout, as they were when the task was handed over.

    checkout ──capture──▶ tree ──keep──▶ refs/watchkeeper/tasks/ID/begins ──put out──▶ the files of the worktree; its index is that of the commit

A tree holds them, not a commit: no log shows it, and an ordinary push, fetch or clone leaves it out. The checkout's index, branches and files stay as they are.
"""

import os
import tempfile
from collections.abc import Mapping

from watchkeeper.domain.plain_text import clean
from watchkeeper.domain.worktree import Worktree
from watchkeeper.errors import BadTask, describe_os_error
from watchkeeper.workspaces import own_filters
from watchkeeper.workspaces.git_program import DIFF_OFF, GitProgram, GitUnknown
from watchkeeper.workspaces.plain import storable
from watchkeeper.workspaces.status import status_of
from watchkeeper.workspaces.trees import Trees

REFS = "refs/watchkeeper/tasks"
_SHOWN = 3


def ref_of(owner: str) -> str:
    """The name of what the worktree of that task begins with."""
    return f"{REFS}/{owner}/begins"


def count(git: GitProgram, top: str, repository: str) -> int:
    """How many paths of a checkout differ from its commit, or are not tracked. Raises GitUnknown, OSError."""
    return len(status_of(git, top, repository).dirty)


def capture(git: GitProgram, source: str, base: str) -> str:
    """The files of a checkout as they are now, as a tree. Raises BadTask."""
    try:
        common = git.answer(source, ["rev-parse", "--path-format=absolute", "--git-common-dir"])
        seen = status_of(git, source, os.fsdecode(common.removesuffix(b"\n")))
        if seen.head != base:
            raise BadTask(
                "Your uncommitted changes are to the commit that is checked out, and the worktree starts at another one.",
                hint="Leave --base away, or leave --include-changes away.",
            )
        without = own_filters.off(own_filters.of_repository(git, source))
        with tempfile.TemporaryDirectory(prefix="watchkeeper-include-") as directory:
            kept = Trees(git, temporary=directory).of_checkout(source, seen.head, seen.dirty, without)
    except (GitUnknown, OSError, ValueError) as error:
        detail = describe_os_error(error) if isinstance(error, OSError) else str(error).rstrip(".")
        raise BadTask(f"Your uncommitted changes cannot be included: {detail}.", hint="Commit them instead.") from error
    if kept.left_out:
        more = f" and {len(kept.left_out) - _SHOWN} more" if len(kept.left_out) > _SHOWN else ""
        names = ", ".join(clean(storable(path)) for path in kept.left_out[:_SHOWN])
        raise BadTask(
            f"These paths cannot be included: {names}{more}. They are too large, cannot be read, or are repositories of their own.",
            hint="Commit, ignore or move them; or leave --include-changes away.",
        )
    if kept.tree is None:
        why = kept.why_not.rstrip(".") or "git made no tree of them"
        raise BadTask(f"Your uncommitted changes cannot be included: {why}.", hint="Commit them instead.")
    return kept.tree


def keep(git: GitProgram, tree: Worktree, owner: str) -> None:
    """Name what the worktree begins with. Raises GitUnknown, OSError."""
    if tree.begins_with is None:
        return
    _ = _of_repository(git, tree, "update-ref", ref_of(owner), tree.begins_with)


def put_out(git: GitProgram, tree: Worktree, off: Mapping[str, str]) -> None:
    """Make the files and the index of a worktree, which are those of its commit, what it begins with. Raises GitUnknown, OSError."""
    if tree.begins_with is None:
        return
    top = tree.path
    _ = git.answer(top, ["read-tree", "--reset", "-u", "--no-recurse-submodules", tree.begins_with], off)
    if git.line(top, "config", "--type=bool", "core.sparseCheckout") == "true":
        # Files that are there although the checkout leaves them out.
        changed = ["diff-tree", "-r", "-z", "--no-renames", "--diff-filter=d", "--name-only", *DIFF_OFF]
        paths = git.answer(top, [*changed, tree.base, tree.begins_with])
        here = ["restore", f"--source={tree.begins_with}", "--worktree", "--ignore-skip-worktree-bits"]
        if paths:
            _ = git.answer(top, [*here, "--pathspec-from-file=-", "--pathspec-file-nul"], off, given=paths)


def drop(git: GitProgram, tree: Worktree, owner: str) -> None:
    """Take the name away; it may be gone already. Raises GitUnknown, OSError."""
    if tree.begins_with is not None:
        _ = _of_repository(git, tree, "update-ref", "-d", ref_of(owner))


def _of_repository(git: GitProgram, tree: Worktree, *arguments: str) -> bytes:
    return git.answer(tree.repository, arguments, {"GIT_DIR": tree.repository})
