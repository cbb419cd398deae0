"""The directory that an agent works in."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from watchkeeper.domain.model import Changes
from watchkeeper.domain.working_directory import WorkingDirectory

PLACE = "place"
"""Under this name a snapshot may say where a run works, as the store compares it."""

SILENT = "silent"
"""Under this name a snapshot says that the directory did not answer in time."""


class Checkout(NamedTuple):
    """The checkout that a directory is in."""

    top: str
    """Its top, without symlinks."""
    project: str
    """What the repository is called: the name of its main working tree's directory, so that all its worktrees share it."""


class Survey(NamedTuple):
    """One look at a directory before a launch."""

    first: WorkingDirectory | None
    """Which directory it was when the look began; None if there was none, or it could not be looked at."""
    before: Mapping[str, object]
    """What it looked like, as `snapshot` returned it."""
    last: WorkingDirectory | None
    """Which directory it was when the look was over."""


class Workspace(Protocol):
    """Looks, and touches nothing but names of our own in a repository, under which it keeps the files of runs."""

    def survey(self, cwd: str, name: str = "") -> Survey:
        """Which directory that is, what it looks like, and which it is afterwards. Never raises.

        With a name the files that differ from the last commit are kept under it; where that fails, the snapshot holds the reason.
        """
        ...

    def identify(self, cwd: str) -> WorkingDirectory | None:
        """Which directory that is, and what is checked out there; None if there is none, or it cannot be looked at. Never raises."""
        ...

    def snapshot(self, cwd: str) -> Mapping[str, object]:
        """What the directory looks like now, as plain JSON values. Never raises: what cannot be known is said inside."""
        ...

    def changes(self, cwd: str, before: Mapping[str, object] | None, name: str = "") -> Changes:
        """What differs from `before`. Never raises: what cannot be known is said inside.

        With a name the files as they were and as they are now are kept under it, for `wk diff`. Another call with the same name keeps the first state.
        """
        ...

    def forget(self, repository: str, names: Sequence[str]) -> str:
        """Let go of the files that a repository keeps under these names. Returns why that failed; empty if it did not. Never raises."""
        ...

    def checkout(self, cwd: str) -> Checkout | None:
        """The checkout that a directory is in; None outside git. Never raises: what git does not tell is taken from where `.git` is."""
        ...
