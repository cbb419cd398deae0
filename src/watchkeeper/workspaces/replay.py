"""Replaying commits in a worktree of our own, with no branch checked out, below the state directory.

    git worktree add --detach ─▶ files ─▶ git rebase ─▶ the new tip, or conflicts that a person resolves there

The worktree stays until the branch has moved, so the new commits are not collected as garbage. A place that a crash left is removed before the next begins.
"""

import os
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.domain.worktree import Worktree
from watchkeeper.errors import Refused, describe_os_error
from watchkeeper.ports.integration import Replayed
from watchkeeper.workspaces.git_program import GitUnknown, is_hash
from watchkeeper.workspaces.plain import storable
from watchkeeper.workspaces.quiet import TIMEOUT_S, QuietGit

_REBASE = (
    "-c", "rebase.updateRefs=false", "-c", "rebase.autoSquash=false", "-c", "rebase.autoStash=false", "-c", "rebase.rebaseMerges=false",
    "rebase", "--merge", "--quiet", "--no-verify", "--no-gpg-sign", "--no-fork-point", "--no-stat", "--empty=drop",
)  # fmt: skip
_UNDER_WAY = ("rebase-merge", "rebase-apply")
_NO_IDENTITY = "`git config --global user.name` and `user.email` say who you are."


class GitReplays:
    """The port's `Replays`."""

    def __init__(self, root: Path, environ: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """`root`: the directory of all such worktrees."""
        self._root = root
        self._git = QuietGit(environ, timeout_s)

    def place_for(self, task_id: str) -> str:
        """The directory for the merges of a task."""
        return str(self._root.resolve() / task_id)

    def replay(self, tree: Worktree, place: str, *, source: str, upstream: str, onto: str) -> Replayed:
        """Replay the commits of `source` that `upstream` lacks on `onto`. Raises Refused."""
        self.discard(tree, place)
        with _said("The commits could not be replayed"):
            code, _, _ = self._git.of_repository(tree, "var", "GIT_COMMITTER_IDENT")
            if code:
                raise Refused("Git does not know who you are, and the new commits name you.", hint=_NO_IDENTITY)
            self._make(tree, place, source)
            return self._rebase(place, upstream, onto)

    def again(self, tree: Worktree, place: str, *, upstream: str, onto: str) -> Replayed:
        """Replay on `onto` what was replayed there on `upstream`. Raises Refused."""
        with _said("The commits could not be replayed"):
            self._git.require(tree)
            _ = self._git.say(place, "reset", "--hard", "--quiet", "--no-recurse-submodules")
            return self._rebase(place, upstream, onto)

    def _rebase(self, place: str, upstream: str, onto: str) -> Replayed:
        crashpoint("merge.replay.before")
        code, _, complaint = self._git.ask(place, *_REBASE, "--onto", onto, upstream)
        crashpoint("merge.replay.after")
        return self._found(place, code, complaint)

    def _make(self, tree: Worktree, place: str, source: str) -> None:
        Path(place).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        crashpoint("merge.place.before")
        code, _, complaint = self._git.of_repository(
            tree, "worktree", "add", "--detach", "--no-checkout", place, source
        )
        if code:
            raise GitUnknown(complaint)
        crashpoint("merge.place.after")
        _ = self._git.say(place, "read-tree", "HEAD")
        if needed := self._git.filter_needed(place, tree.repository):
            raise Refused(
                f"Files need the filter '{needed}', which the repository's own configuration names, and such filters are not run.",
                hint="`git config --global` can name it for all of your repositories.",
            )
        _ = self._git.say(place, "reset", "--hard", "--quiet", "--no-recurse-submodules")

    def proceed(self, tree: Worktree, place: str) -> Replayed:
        """Continue after conflicts were resolved. Raises Refused."""
        with _said("The merge cannot continue"):
            self._git.require(tree)
            if not Path(place, ".git").exists():
                raise Refused(
                    f"The merge cannot continue: {place} is not there any more.", hint="Give it up with --abort."
                )
            if unmerged := self._unmerged(place):
                return Replayed(conflicts=unmerged)
            code, complaint = 0, ""
            if self._is_under_way(place):
                crashpoint("merge.proceed.before")
                code, _, complaint = self._git.ask(place, *_REBASE[:8], "rebase", "--continue")
                crashpoint("merge.proceed.after")
            return self._found(place, code, complaint)

    def squash(self, tree: Worktree, place: str, *, onto: str, message: str) -> str:
        """Make one commit of all that were replayed. Raises Refused."""
        del tree
        with _said("The commits could not be made one"):
            made = (
                self._git.say(place, "commit-tree", "HEAD^{tree}", "-p", onto, given=message.encode()).decode().strip()
            )
            _ = self._git.say(place, "reset", "--soft", made)
            return made

    def discard(self, tree: Worktree, place: str) -> None:
        """Remove the directory. Raises Refused."""
        with _said(f"The directory of the merge, {place}, could not be removed"):
            self._git.require(tree)
            code, raw, complaint = self._git.of_repository(tree, "worktree", "list", "--porcelain", "-z")
            if code:
                raise GitUnknown(complaint)
            known = f"worktree {place}".encode() in raw.split(b"\0")
            if not known and not os.path.lexists(place):
                return
            crashpoint("merge.discard.before")
            if known:
                code, _, complaint = self._git.of_repository(tree, "worktree", "remove", "--force", "--force", place)
                if code:
                    raise GitUnknown(complaint)
            if os.path.lexists(place):
                shutil.rmtree(place)
            crashpoint("merge.discard.after")

    def _found(self, place: str, code: int, complaint: str) -> Replayed:
        """What there is now. Raises GitUnknown."""
        if unmerged := self._unmerged(place):
            return Replayed(conflicts=unmerged)
        if code or self._is_under_way(place):
            raise GitUnknown(complaint or "git rebase did not come to its end.")
        tip = self._git.git.line(place, "rev-parse", "HEAD") or ""
        if not is_hash(tip):
            raise GitUnknown(f"{place} has no commit checked out.")
        return Replayed(tip=tip)

    def _unmerged(self, place: str) -> tuple[str, ...]:
        raw = self._git.git.answer(place, ["ls-files", "--unmerged", "-z"])
        paths = [os.fsdecode(entry.partition(b"\t")[2]) for entry in raw.split(b"\0") if entry]
        return tuple(storable(path) for path in dict.fromkeys(paths))

    def _is_under_way(self, place: str) -> bool:
        own = self._git.git.line(place, "rev-parse", "--absolute-git-dir")
        return own is not None and any(Path(own, name).exists() for name in _UNDER_WAY)


@contextmanager
def _said(what: str) -> Generator[None]:
    """Say what went wrong in one sentence. Raises Refused."""
    try:
        yield
    except (GitUnknown, OSError, ValueError) as error:
        raise Refused(f"{what}: {why(error)}", hint="Nothing was merged, and nothing is lost.") from error


def why(error: Exception) -> str:
    """What an error says, as the end of a sentence."""
    detail = describe_os_error(error) if isinstance(error, OSError) else str(error)
    detail = detail.removeprefix("fatal: ").removeprefix("error: ")
    return detail if detail.endswith(".") else f"{detail}."
