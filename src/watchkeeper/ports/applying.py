"""Putting a run's changes into a checkout as uncommitted changes."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from watchkeeper.ports.diffs import Kept


class Applied(NamedTuple):
    """What came of it."""

    top: str
    """The top of the checkout."""
    paths: tuple[str, ...] = ()
    """The paths that changed, or would change."""
    conflicts: tuple[str, ...] = ()
    """Paths that hold both versions between markers."""


class Applier(Protocol):
    """Applies patches in a checkout whose repository agents can write to: no program of its configuration is run."""

    def apply(
        self, kept: Kept, patch: bytes, directory: str, *, reverse: bool, three_way: bool, dry_run: bool
    ) -> Applied:
        """Apply the difference in the checkout that holds `directory`: all of it, or nothing.

        Args:
            kept: the files before and after.
            patch: their difference.
            directory: where the caller is.
            reverse: take the changes out again.
            three_way: merge what does not fit, and leave both versions between markers where they conflict.
            dry_run: change nothing.

        Raises:
            Refused: with the paths that stand against it. Nothing was changed.
        """
        ...

    def checkout_of(self, directory: str) -> str:
        """The top of the checkout that holds a directory. Raises Refused."""
        ...


NAMED: int = 5
"""So many paths are named in a sentence."""


def named(paths: Sequence[str]) -> str:
    """A few paths in words."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return f"{', '.join(paths[:NAMED])}{more}"
