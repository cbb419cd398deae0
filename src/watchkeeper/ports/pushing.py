"""Pushing a branch to a remote, and running a forge's own program."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from watchkeeper.domain.worktree import Worktree


class Remote(NamedTuple):
    """A remote of a repository."""

    name: str
    url: str


class Pusher(Protocol):
    """Pushes by the user's own git settings; of the repository's configuration only the remote's address counts."""

    def remote(self, tree: Worktree, named: str | None, target: str) -> Remote:
        """The remote to push to: the one that is named, else the target branch's, `origin`, or the only one. Raises Refused."""
        ...

    def push(self, tree: Worktree, remote: Remote, commit: str) -> None:
        """Push the commit as the task's branch, never by force, and remember where the remote's branch is. Raises Refused."""
        ...

    def program(self, name: str) -> str | None:
        """Where a program is; None: it is not installed."""
        ...

    def ask_forge(self, command: Sequence[str]) -> str:
        """Run a forge's own program with the user's terminal for its complaints; what it prints. Raises Refused."""
        ...
