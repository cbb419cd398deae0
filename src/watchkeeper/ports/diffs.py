"""Showing what a run changed, from the files that its repository keeps of it."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from watchkeeper.domain.model import Changes


class Kept(NamedTuple):
    """Files as they were before a run and as it left them."""

    repository: str
    """The directory of the repository that holds both."""
    base: str
    """The tree before the run."""
    tip: str
    """The tree as the run left it."""


class Diffs(Protocol):
    """Compares kept files without any program or setting of the repository that holds them, because an agent may have written these."""

    def is_there(self, kept: Kept) -> bool:
        """Whether the repository still has both. Raises HarnessError where git is missing, OSError."""
        ...

    def show(self, kept: Kept, form: str, *, on_terminal: bool) -> int:
        """Print the difference to standard output, and return git's exit code.

        Args:
            kept: what is compared.
            form: `patch`, `stat` or `names`.
            on_terminal: as git itself prints it to its user, with their pager and colours; else plain, and a patch is whole, so that git can apply it.
        """
        ...

    def patch(self, kept: Kept) -> bytes:
        """The difference as a plain patch. Raises Refused if it is too large to be kept in memory, OSError."""
        ...

    def review(self, kept: Kept, tool: str | None) -> int:
        """Open the difference in a tool that is given two directories, and return its exit code; None: the one that git's user has configured."""
        ...


class LiveFiles(Protocol):
    """Looks at the files of a run that has not ended."""

    def so_far(self, cwd: str, before: Mapping[str, object] | None) -> AbstractContextManager[Changes]:
        """What differs now from `before`, with files to compare for the time of the body. Never raises: what cannot be known is said inside.

        Nothing is written into the directory or its repository, the agent's index included.
        """
        ...
