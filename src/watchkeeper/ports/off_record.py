"""Ends that were brought about while the database could not be written: what was done, until it is on record."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from watchkeeper.domain.model import Run, StopHow


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRun:
    """A run that nothing but its execution directory tells of, and that is not proven to have ended."""

    run: Run
    """What the directory says of it. Numbers that only the database knows are made up: the machine, the incarnation."""
    database_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopNote:
    """A person's stop of a run, put down beside the database."""

    database_id: str
    task_id: str
    run_id: str
    fence: int
    execution_id: str
    how: StopHow
    by: str
    at: datetime
    grace_s: float | None


class OffRecord(Protocol):
    """What is known, and kept, without the database."""

    def runs(self) -> list[FoundRun]:
        """Every run of this machine that is not proven to have ended, as the execution directories tell. Raises OSError."""
        ...

    def put(self, note: StopNote) -> None:
        """Keep a note, durably, in place of an earlier one of that execution. Raises OSError."""
        ...

    def notes(self) -> list[StopNote]:
        """All notes, oldest first. One that cannot be read is left where it is. Raises OSError."""
        ...

    def forget(self, note: StopNote) -> None:
        """It is on record. Twice is fine. Raises OSError."""
        ...
