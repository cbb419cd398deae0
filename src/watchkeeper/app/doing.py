"""Record which slow step of a run has begun, to explain why the run waits."""

from collections.abc import Callable

Doing = Callable[[str, str, str], None]
"""Told, by a run's id, what is begun: the beginning of a sentence, and what it is about. Both empty: it is over."""

LOOKS = "Its working directory has not answered"
"""What is said of a run whose directory is being looked at, once that takes long."""

MAKES = "Its worktree has been in the making"
"""What is said of a run whose worktree is being made, once that takes long."""

READS = "Its output has been read"
"""What is said of a run whose output is being read, once that takes long."""


def tell_nobody(run_id: str, says: str, about: str) -> None:
    """Nobody asks."""
    del run_id, says, about
