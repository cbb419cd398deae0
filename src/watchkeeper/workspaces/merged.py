"""Whether the commits of a task's branch are in another branch under other ids, because they were replayed by a merge."""

from collections.abc import Sequence

from watchkeeper.domain.worktree import Worktree
from watchkeeper.workspaces.git_program import GitProgram, GitUnknown


def merged_elsewhere(git: GitProgram, tree: Worktree, others: Sequence[str]) -> list[str]:
    """The commit of the branch whose history was merged, if another branch or a tag has what came of it; else nothing. Raises GitUnknown, OSError."""
    if tree.merged is None:
        return []
    place = {"GIT_DIR": tree.repository}
    names = (tree.merged.tip, tree.merged.source)
    if any(git.ask(tree.repository, ["cat-file", "-e", each], place)[0] for each in names):
        return []
    question = [
        "rev-list",
        "--count",
        "--max-count=1",
        tree.merged.tip,
        "--not",
        f"--exclude={tree.branch}",
        *others,
        "--",
    ]
    code, raw, complaint = git.ask(tree.repository, question, place)
    if code:
        raise GitUnknown(complaint)
    return [tree.merged.source] if int(raw) == 0 else []
