"""What the database holds beside tasks, runs and outcomes, as the verbs see it."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from watchkeeper.domain.effects import Effect
from watchkeeper.domain.working_directory import WorkingDirectory

if TYPE_CHECKING:
    from watchkeeper.domain.profile import LaunchProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorisation:
    """Who allowed the launches of a task, and what (R1, R9)."""

    id: str
    task_id: str
    kind: str
    """`person`, `grant` or `inherited`."""
    by: str
    detail: str
    """The line that was shown before it started: sandbox, network, rights."""
    at: datetime
    profile: "LaunchProfile | None" = None
    """What was allowed, and all that a launch uses. None: recorded by a version that stored only the line."""
    directory: str | None = None
    """The path of the directory that it is for."""
    place: WorkingDirectory | None = None
    """Which directory that was, with what was checked out there. None: recorded by a version that did not look, or it could not be looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a run's launch was allowed by, and what was launched."""

    authorisation: Authorisation
    version: str | None
    """What the program said when it was launched; None: it was not launched yet, or did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One line of history."""

    seq: int
    at: datetime
    kind: str
    task_id: str | None
    run_id: str | None
    fence: int | None
    data: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """An effect that waits to be done."""

    id: int
    effect: Effect
    attempts: int
    not_before: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The answer to a claim: which task, which run, under which fence."""

    task_id: str
    run_id: str
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRecord:
    """What an operation id has already been used for."""

    claim: Claim | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimitReached:
    """So many ready tasks stood before a busy checkout that one transaction did not get past them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRecord:
    """A state directory's machine, and the incarnation of its newest daemon."""

    id: str
    incarnation: int
    boot_id: str
    started_at: datetime
    name: str = ""
    """What people call it: its host name."""
    holder: str = ""
    """A random word of the daemon that began this incarnation."""
    version: str = ""
    lease_until: datetime | None = None
    """Until when other machines take it to be alive; None where machines do not share a database."""
