"""Worktrees of tasks in git, each with a branch of its own.

    branch (made once, its reflog names the task) ─▶ git worktree add --no-checkout ─▶ files ─▶ marker in the worktree's git directory

Each step looks first at what is there, so a making that was cut off anywhere is completed by the next one. Nothing is taken over that another hand made: a
branch is ours only if its reflog names the task, and a directory that holds anything else is left alone.

Hooks and file system monitors never run. Content filters run only if the user's own or the system's configuration names them: the repository's configuration
can be written by every agent that works there. A tree that needs a filter of the repository's own is refused, because files that were put out without it
would look changed to whoever runs with it.
"""

import fcntl
import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

from watchkeeper.crash import crashpoint
from watchkeeper.domain.merge import Merged
from watchkeeper.domain.worktree import Worktree, WorktreeSeen, WorktreeState
from watchkeeper.errors import describe_os_error
from watchkeeper.ports.worktrees import Kept, Made, Start
from watchkeeper.workspaces import copied, identity, included, own_filters, start
from watchkeeper.workspaces.git import GitWorkspace
from watchkeeper.workspaces.git_program import GitProgram, GitUnknown
from watchkeeper.workspaces.merged import merged_elsewhere
from watchkeeper.workspaces.plain import storable
from watchkeeper.workspaces.scratch import ScratchDirectories

MARKER = "watchkeeper"
"""The file in a worktree's git directory that says whose it is. It is written when the worktree is complete."""

_HEADS = "refs/heads/"
_MOST_REFLOG = 500
_MOST_MARKER = 64 * 1024
_OTHERS = ("--branches", "--remotes", "--tags")


class _Listed(NamedTuple):
    """A worktree as git lists it."""

    path: str
    branch: str | None
    """The full name of its branch."""


class GitWorktrees(ScratchDirectories):
    """Makes worktrees below one directory, and looks at them."""

    def __init__(
        self, root: Path = Path("/nonexistent"), environ: Mapping[str, str] | None = None, timeout_s: float = 600.0
    ) -> None:
        """`root`: the directory of all worktrees, where names become places. `timeout_s`: how long one question to git may take."""
        self._git = GitProgram(environ, timeout_s)
        self._workspace = GitWorkspace(environ, timeout_s)
        super().__init__(root)

    def place_for(self, name: str) -> str:
        """The directory of a worktree of that name."""
        return str(self._root.resolve() / name)

    def start(self, cwd: str, base: str | None, branch: str | None) -> Start:
        """Where a worktree would start. Raises BadTask."""
        return start.start(self._git, cwd, base, branch)

    def capture(self, source: str, base: str) -> str:
        """The files of a checkout as they are now, as a tree. Raises BadTask."""
        return included.capture(self._git, source, base)

    def keep(self, tree: Worktree, owner: str) -> str:
        """Name what the worktree begins with. Never raises."""
        return self._of_what_it_begins_with(included.keep, tree, owner)

    def drop(self, tree: Worktree, owner: str) -> str:
        """Take that name away. Never raises."""
        return self._of_what_it_begins_with(included.drop, tree, owner)

    def _of_what_it_begins_with(
        self, do: Callable[[GitProgram, Worktree, str], None], tree: Worktree, owner: str
    ) -> str:
        try:
            if tree.begins_with is not None:
                self._require_repository(tree)
                do(self._git, tree, owner)
        except (GitUnknown, OSError, ValueError) as error:
            return f"The changes that its worktree begins with cannot be named in the repository: {_why(error)}"
        return ""

    def make(self, tree: Worktree, owner: str) -> Made:
        """Make it, or complete it. Never raises."""
        try:
            self._require_repository(tree)
            with _alone(Path(tree.path)):
                problem = self._make(tree, owner) if self._marked(tree) is None else ""
            if problem:
                return Made(problem=problem)
        except (GitUnknown, OSError, ValueError) as error:
            return Made(problem=f"The worktree {tree.path} could not be made: {_why(error)}", passing=True)
        place = self._workspace.identify(tree.path)
        return (
            Made(place) if place is not None else Made(problem=f"The worktree {tree.path} is not there.", passing=True)
        )

    def _make(self, tree: Worktree, owner: str) -> str:
        """The steps; returns why it cannot be made, or nothing."""
        listed = self._listed(tree)
        elsewhere = [each.path for each in listed if each.branch == _HEADS + tree.branch and each.path != tree.path]
        if elsewhere:
            return f"The branch '{tree.branch}' is checked out in {elsewhere[0]}."
        problem = self._branch(tree, owner) or self._directory(tree, listed)
        if problem:
            return problem
        filters = own_filters.of_repository(self._git, tree.path)
        if (own := self._own(tree)) is not None:
            (own / "index.lock").unlink(
                missing_ok=True
            )  # of a git that was ended here: no other process works here yet
        included.keep(self._git, tree, owner)
        _ = self._say(tree.path, "read-tree", tree.begins_with or "HEAD")
        is_needed = partial(own_filters.is_needed, self._git, tree.path, tree.repository)
        if needed := [name for name in filters if is_needed(name)]:
            return (
                f"Files of '{tree.base_name}' need the filter '{needed[0]}', which the repository's own configuration names. "
                f"Such filters are not run: `git config --global` can name it for all of your repositories."
            )
        crashpoint("worktree.files.before")
        problem = self._put_out(tree, own_filters.off(filters))
        crashpoint("worktree.files.after")
        if not problem:
            self._mark(tree, owner)
        return problem

    def _put_out(self, tree: Worktree, off: Mapping[str, str]) -> str:
        """Put the files out: those of the commit, the included changes, the copies; returns why not. The index ends as that of the commit."""
        _ = self._git.answer(tree.path, ["reset", "--hard", "--quiet", "--no-recurse-submodules"], off)
        included.put_out(self._git, tree, off)
        problem = copied.copy(self._git, tree.source, tree.path, tree.copies)
        if tree.begins_with is not None:
            _ = self._git.answer(tree.path, ["reset", "--mixed", "--quiet"], off)
        return problem

    def _branch(self, tree: Worktree, owner: str) -> str:
        """Make the branch, unless a making that was cut off has made it."""
        ref = _HEADS + tree.branch
        if self._head_of(tree) is not None:
            is_ours = self._is_ours(tree, owner)
            return (
                "" if is_ours else f"A branch '{tree.branch}' was made since the task was handed over, and not for it."
            )
        crashpoint("worktree.branch.before")
        unborn = "0" * len(tree.base)
        _ = self._of_repository(tree, "update-ref", "--create-reflog", "-m", _note(owner), ref, tree.base, unborn)
        crashpoint("worktree.branch.after")
        return ""

    def _directory(self, tree: Worktree, listed: Sequence[_Listed]) -> str:
        """Have git make the directory, unless it is there and git knows it. What was begun holds nothing but the file that names the repository."""
        path, known = Path(tree.path), any(each.path == tree.path for each in listed)
        if os.path.lexists(path):
            if path.is_symlink() or not path.is_dir():
                return f"The place of the worktree is taken: {tree.path} is not a directory."
            if known and self._own(tree) is not None and not self._initializing(tree):
                return ""
            there = [each.name for each in path.iterdir() if each.name != ".git"]
            if there:
                return f"The place of the worktree is taken: {tree.path} holds '{storable(there[0])}' and more."
            (path / ".git").unlink(missing_ok=True)
        crashpoint("worktree.add.before")
        again = ["--force", "--force"] if known else []
        _ = self._of_repository(tree, "worktree", "add", *again, "--no-checkout", tree.path, tree.branch)
        crashpoint("worktree.add.after")
        return ""

    def _initializing(self, tree: Worktree) -> bool:
        """Whether git was ended while it made the directory."""
        own = self._own(tree)
        return own is not None and (own / "locked").exists() and not (own / MARKER).exists()

    def _mark(self, tree: Worktree, owner: str) -> None:
        own = self._own(tree)
        if own is None:
            raise GitUnknown("git does not know the worktree that it has made.")
        text = json.dumps({"owner": owner, "tree": asdict(replace(tree, made=None))})
        new = own / f"{MARKER}.new"
        crashpoint("worktree.mark.before")
        with new.open("w", encoding="utf-8") as out:
            _ = out.write(text)
            out.flush()
            os.fsync(out.fileno())
        new.replace(own / MARKER)
        crashpoint("worktree.mark.after")

    def _marked(self, tree: Worktree) -> str | None:
        """The task that its marker names; None: it is not complete, or not ours."""
        own = self._own(tree)
        found = None if own is None else _marker(own)
        return found.task_id if found is not None and found.tree.path == tree.path else None

    def _own(self, tree: Worktree) -> Path | None:
        """The git directory of a worktree, if it is one of the repository's. Raises OSError."""
        try:
            text = (Path(tree.path) / ".git").read_text(encoding="utf-8").strip()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        own = Path(tree.path, text.removeprefix("gitdir: "))
        inside = text.startswith("gitdir: ") and own.parent.resolve() == Path(tree.repository).resolve() / "worktrees"
        return own if inside and (own / "HEAD").exists() else None

    def look(self, tree: Worktree, owner: str, *, sized: bool = False) -> WorktreeSeen:
        """What a removal would lose. Never raises."""
        size = _size(tree.path) if sized else None
        try:
            self._require_repository(tree)
            if not os.path.lexists(tree.path):
                return WorktreeSeen(commits=self._commits_of(tree, None), size_bytes=size)
            if self._marked(tree) != owner:
                problem = f"{tree.path} is not the worktree that was made for task {owner}."
                return WorktreeSeen(problem=problem, present=True, size_bytes=size)
            return replace(self._look(tree), size_bytes=size)
        except (GitUnknown, OSError, ValueError) as error:
            detail = f"The worktree {tree.path} cannot be looked at: {_why(error)}"
            return WorktreeSeen(problem=detail, present=os.path.lexists(tree.path), size_bytes=size)

    def _look(self, tree: Worktree) -> WorktreeSeen:
        question = ["status", "--porcelain", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames"]
        raw = self._git.answer(tree.path, question, self._git.unfiltered(tree.path))
        entries = [(entry[:2], storable(os.fsdecode(entry[3:]))) for entry in raw.split(b"\0") if entry]
        ref = self._git.line(tree.path, "symbolic-ref", "--quiet", "HEAD")
        return WorktreeSeen(
            present=True,
            branch=None if ref is None else ref.removeprefix(_HEADS),
            changed=tuple(path for kind, path in entries if kind != b"!!"),
            ignored=tuple(path for kind, path in entries if kind == b"!!"),
            hidden=self._hidden(tree.path),
            commits=self._commits_of(tree, tree.path),
        )

    def _hidden(self, top: str) -> tuple[str, ...]:
        """Files that git was told to take for unchanged, and that are there."""
        entries = [(entry[:1], os.fsdecode(entry[2:])) for entry in self._say(top, "ls-files", "-v", "-z").split(b"\0")]
        return tuple(
            storable(path)
            for tag, path in entries
            if (tag.islower() or tag == b"S") and os.path.lexists(Path(top, path))
        )

    def _commits_of(self, tree: Worktree, top: str | None) -> int:
        """How many commits its branch, its HEAD and their reflogs have that no other branch and no tag has."""
        names = [] if self._head_of(tree) is None else [_HEADS + tree.branch]
        if top is not None and self._git.line(top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}") is not None:
            names.append("HEAD")
        ask = partial(self._say, top) if top is not None else partial(self._of_repository, tree)
        tips = dict.fromkeys(names)
        for name in names:
            logged = ask("reflog", "show", "--format=%H", f"--max-count={_MOST_REFLOG}", name, "--")
            tips |= dict.fromkeys(logged.decode("ascii").split())
        if not tips:
            return 0
        merged = merged_elsewhere(self._git, tree, _OTHERS)
        return int(ask("rev-list", "--count", *tips, "--not", *merged, f"--exclude={tree.branch}", *_OTHERS, "--"))

    def kept(self) -> Sequence[Kept]:
        """Every worktree that is there. Never raises."""
        found: list[Kept] = []
        with suppress(OSError):
            for path in sorted(self._root.iterdir()):
                with suppress(OSError, ValueError):
                    text = (path / ".git").read_text(encoding="utf-8").strip()
                    kept = _marker(path / text.removeprefix("gitdir: "))
                    if kept is not None and kept.tree.path == str(path.resolve()):
                        found.append(kept)
        return found

    def _require_repository(self, tree: Worktree) -> None:
        """Raises GitUnknown: the repository is not there any more, or is another one."""
        found = identity.identify(tree.repository)
        if found is None:
            raise GitUnknown(f"The repository {tree.repository} is not there.")
        if found.repository is None or found.repository[1:] != tree.identity[1:]:
            raise GitUnknown(f"{tree.repository} is another repository than when the task was handed over.")

    def _say(self, top: str, *arguments: str) -> bytes:
        """What git says in a directory. Raises GitUnknown, OSError."""
        return self._git.answer(top, arguments)

    def _of_repository(self, tree: Worktree, *arguments: str) -> bytes:
        """What git says of the repository. It is named, because git does not look for it inside its own files. Raises GitUnknown."""
        return self._git.answer(tree.repository, arguments, {"GIT_DIR": tree.repository})

    def _head_of(self, tree: Worktree) -> str | None:
        """The commit that its branch is at; None: there is no such branch."""
        question = ["rev-parse", "--verify", "--quiet", _HEADS + tree.branch]
        code, out, _ = self._git.ask(tree.repository, question, {"GIT_DIR": tree.repository})
        return out.decode("ascii").strip() if code == 0 else None

    def _is_ours(self, tree: Worktree, owner: str) -> bool:
        """Whether the branch was made for that task, as its reflog says."""
        logged = self._of_repository(tree, "reflog", "show", "--format=%gs", _HEADS + tree.branch, "--").splitlines()
        return bool(logged) and logged[-1] == _note(owner).encode()

    def _listed(self, tree: Worktree) -> list[_Listed]:
        found: list[_Listed] = []
        for block in self._of_repository(tree, "worktree", "list", "--porcelain", "-z").split(b"\0\0"):
            fields: dict[str, str] = {}
            for line in filter(None, block.split(b"\0")):
                name, _, value = os.fsdecode(line).partition(" ")
                fields[name] = value
            if "worktree" in fields:
                found.append(_Listed(os.path.realpath(fields["worktree"]), fields.get("branch")))
        return found


@contextmanager
def _alone(path: Path) -> Generator[None]:
    """Let no second process make the same worktree. Raises GitUnknown, OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path.parent / f".{path.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise GitUnknown("another process is making it.") from error
        yield
        (path.parent / f".{path.name}.lock").unlink(missing_ok=True)
    finally:
        os.close(fd)


def _note(owner: str) -> str:
    """What the reflog of a branch says of its making."""
    return f"watchkeeper: task {owner}"


def _marker(own: Path) -> Kept | None:
    """What a marker says; None: there is none, or it cannot be read. Raises OSError."""
    try:
        with (own / MARKER).open(encoding="utf-8") as marker:
            data = cast("dict[str, object]", json.loads(marker.read(_MOST_MARKER)))
        return Kept(str(data["owner"]), tree_of(data["tree"]))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def tree_of(told: object) -> Worktree:
    """A worktree from plain JSON values. Raises KeyError, TypeError, ValueError."""
    data = dict(cast("Mapping[str, object]", told))
    device, inode, generation = cast("list[int | None]", data["identity"])
    data |= {"identity": (device, inode, generation), "state": WorktreeState(cast("str", data["state"])), "made": None}
    merged = cast("Mapping[str, str] | None", data.get("merged"))
    data |= {"merge": None, "merged": None if merged is None else Merged(**merged)}
    return Worktree(**data)  # pyright: ignore[reportArgumentType] - the fields of our own record


def _size(path: str) -> int | None:
    """Bytes on the disk of a directory, without following links; None if it cannot be counted."""
    try:
        total = os.lstat(path).st_blocks
        for directory, names, files in os.walk(path):
            for name in (*names, *files):
                with suppress(FileNotFoundError):
                    total += os.lstat(os.path.join(directory, name)).st_blocks  # noqa: PTH118 - half as fast with pathlib
    except OSError:
        return None
    return total * 512


def _why(error: Exception) -> str:
    detail = describe_os_error(error) if isinstance(error, OSError) else str(error)
    return detail if detail.endswith(".") else f"{detail}."
