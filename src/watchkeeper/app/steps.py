"""Record which slow step of a run has begun, to explain why the run waits."""

from collections.abc import Callable

OnStep = Callable[[str, str, str], None]
"""Called with a run's id, the step that begins (the beginning of a sentence), and what that is about. Both empty: it is over."""

LOOKS = "Its working directory has not answered"
"""What is said of a run whose directory is being looked at, once that takes long."""

MAKES = "Its worktree has been in the making"
"""What is said of a run whose worktree is being made, once that takes long."""

READS = "Its output has been read"
"""What is said of a run whose output is being read, once that takes long."""


def ignore_step(run_id: str, detail: str, about: str) -> None:
    """Ignore the step: the caller does not watch."""
    del run_id, detail, about
