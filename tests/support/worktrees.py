"""A repository with a place for worktrees, for tests with real git."""

import os
import stat
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from watchkeeper.domain.salvage import Salvage, SalvageState
from watchkeeper.domain.worktree import Worktree
from watchkeeper.workspaces.salvage import GitSalvages
from watchkeeper.workspaces.worktrees import GitWorktrees

OWNER = "t1"


@dataclass
class Repo:
    """A repository, and a place for worktrees whose name is as odd as a name can be."""

    top: Path
    root: Path
    environ: dict[str, str]
    cap: int = 1024 * 1024

    def git(self, *arguments: str, at: Path | None = None, fails: bool = False) -> str:
        """What git prints; `fails`: also if it does not succeed."""
        command = ["git", "-C", str(at or self.top), *arguments]
        done = subprocess.run(command, check=not fails, capture_output=True, env=self.environ)
        return os.fsdecode(done.stdout).strip()

    def commit(self, message: str = "More", at: Path | None = None) -> str:
        """Commit everything; returns the commit."""
        _ = self.git("add", "-A", at=at)
        _ = self.git("commit", "-qm", message, at=at)
        return self.git("rev-parse", "HEAD", at=at)

    @property
    def worktrees(self) -> GitWorktrees:
        """What is tested."""
        return GitWorktrees(self.root, self.environ)

    def plan(self, branch: str = "wk/t1-fix", name: str = "t1-fix", base: str | None = None) -> Worktree:
        """A planned worktree."""
        start = self.worktrees.start(str(self.top), base, branch)
        return Worktree(
            path=self.worktrees.place_for(name),
            branch=branch,
            base=start.base,
            base_name=start.base_name,
            source=start.source,
            repository=start.repository,
            identity=start.identity,
        )

    def made(self) -> tuple[Worktree, Path]:
        """A worktree that was made, and its top."""
        tree = self.plan()
        made = self.worktrees.make(tree, OWNER)
        assert made.problem == ""
        return tree, Path(tree.path)

    @property
    def salvages(self) -> GitSalvages:
        """What keeps and removes them."""
        return GitSalvages(self.root, self.root.parent / "salvage", self.cap, self.environ)

    def wanted(self, tree: Worktree) -> Salvage:
        """What is asked of a removal."""
        at = datetime.now(UTC)
        return Salvage(id="", task_id=OWNER, title="Fix", tree=tree, at=at, by="ada", state=SalvageState.SAVING)

    def remove(self, tree: Worktree) -> str:
        """Keep it, then remove it; returns why not."""
        return self.salvages.remove(self.wanted(tree)).problem

    def names(self) -> tuple[list[str], list[str]]:
        """The worktrees and the branches that git knows."""
        listed = [
            line for line in self.git("worktree", "list", "--porcelain").splitlines() if line.startswith("worktree ")
        ]
        return listed, self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def git_environ(tmp_path: Path) -> dict[str, str]:
    """What git gets in a test: a new home directory, and a name for its commits."""
    home = tmp_path / "home"
    home.mkdir()
    return {
        "PATH": os.environ["PATH"], "HOME": str(home), "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org",
        "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org",
    }  # fmt: skip


def new_repo(tmp_path: Path) -> Repo:
    """A repository with a few files, and one commit."""
    made = Repo(tmp_path / "a repo", tmp_path / "work trees\nü", git_environ(tmp_path))
    made.top.mkdir()
    _ = made.git("init", "-q", "-b", "main")
    (made.top / "a").write_text("a\n", encoding="utf-8")
    (made.top / ".gitignore").write_text("*.log\n", encoding="utf-8")
    (made.top / "sub").mkdir()
    (made.top / "sub" / "odd ü\nname").write_text("x\n", encoding="utf-8")
    _ = made.commit("Begin")
    return made


def fingerprint(repo: Repo, tree: Worktree) -> dict[str, object]:
    """All that a removal could lose: every name, byte and mode below the worktree, what git says of it, and what the repository keeps of it."""
    found: dict[str, object] = {}
    top = os.fsencode(tree.path)
    for directory, names, files in os.walk(top):
        for name in (*names, *files):
            path = os.path.join(directory, name)  # noqa: PTH118 - bytes
            found[f"file {os.fsdecode(os.path.relpath(path, top))}"] = _entry(path)
    if os.path.lexists(top):
        found["top"] = _entry(top)
    logs = repo.top / ".git" / "logs" / "refs" / "heads" / tree.branch
    found["reflog"] = logs.read_bytes() if logs.is_file() else None
    found["worktrees"] = repo.git("worktree", "list", "--porcelain")
    found["branches"] = repo.git("for-each-ref", "refs/heads", "refs/stash")
    own = repo.top / ".git" / "worktrees" / Path(tree.path).name
    if own.is_dir():
        found |= {
            f"own {path.relative_to(own)}": path.read_bytes()
            for path in sorted(own.rglob("*"))
            if path.is_file() and path.name != "index"
        }
    if Path(tree.path).is_dir() and (Path(tree.path) / ".git").is_file() and own.is_dir():
        for question in (
            ("status", "--porcelain=v2", "--ignored", "--untracked-files=all", "-z"),
            ("ls-files", "-s", "-v", "-z"),
            ("rev-parse", "HEAD"),
        ):
            found[question[0]] = repo.git("--no-optional-locks", *question, at=Path(tree.path), fails=True)
    return found


def _entry(path: bytes) -> object:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return ("link", os.readlink(path))  # noqa: PTH115 - bytes
    if stat.S_ISREG(status.st_mode):
        with open(path, "rb") as file:  # noqa: PTH123 - bytes
            return (stat.filemode(status.st_mode), file.read())
    return (stat.filemode(status.st_mode), None)
