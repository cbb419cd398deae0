"""A repository with a place for worktrees, for tests with real git."""

import os
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

    def git(self, *arguments: str, at: Path | None = None) -> str:
        """What git prints."""
        command = ["git", "-C", str(at or self.top), *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=self.environ)
        return done.stdout.strip()

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


def new_repo(tmp_path: Path) -> Repo:
    """A repository with a few files, and one commit."""
    home = tmp_path / "home"
    home.mkdir()
    environ = {
        "PATH": os.environ["PATH"], "HOME": str(home), "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org",
        "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org",
    }  # fmt: skip
    made = Repo(tmp_path / "a repo", tmp_path / "work trees\nü", environ)
    made.top.mkdir()
    _ = made.git("init", "-q", "-b", "main")
    (made.top / "a").write_text("a\n", encoding="utf-8")
    (made.top / ".gitignore").write_text("*.log\n", encoding="utf-8")
    (made.top / "sub").mkdir()
    (made.top / "sub" / "odd ü\nname").write_text("x\n", encoding="utf-8")
    _ = made.commit("Begin")
    return made
