"""What a run came to: what its program told, what it changed, and what is done with its task."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from watchkeeper.domain.check_verdict import CheckVerdict
from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.run_record import ExitFact, Leftover, Proof
from watchkeeper.domain.working_directory import WorkingDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a run used, as its program reported it; None is unknown, never zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One path that differs from before the run: `added`, `modified`, `deleted`, `renamed`."""

    path: str
    change: str
    old: str | None = None
    """Of a renamed file the name before."""
    insertions: int | None = None
    """Lines that were added; None: not known, or not counted because the file is binary."""
    deletions: int | None = None
    """Lines that were taken away; None as above."""
    is_binary: bool = False
    is_committed: bool | None = None
    """Whether HEAD has the file as the run left it; None: not recorded, or there is no commit in such a directory."""


MOST_BESIDE = 20
"""How many tasks are named that worked in the same place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a run changed, computed from the working directory, not from what the agent claims."""

    known: bool
    """False: the directory is not under git, or could not be read."""
    why_unknown: str = ""
    files: tuple[FileChange, ...] = ()
    commits: tuple[str, ...] = ()
    truncated: bool = False
    in_checkout: bool = True
    """False: in a plain directory."""
    beside: tuple[str, ...] = ()
    """Tasks that ran in the same checkout or directory at the same time: the changes may be theirs. At most `MOST_BESIDE`."""
    left: WorkingDirectory | None = None
    """The directory as it was when the run was settled: what the task's next run must find. None: it could not be looked at."""
    ignored: tuple[str, ...] = ()
    """New paths that git ignores, a whole directory as one; not all of them where `ignored_in_all` is more."""
    ignored_in_all: int = 0
    base: str | None = None
    """The tree of git that holds the files as they were before the run; None: it was not kept."""
    tip: str | None = None
    """The tree that holds the files as the run left them; None: it was not kept."""
    repository: str | None = None
    """The directory of the repository that holds both."""
    not_kept: str = ""
    """Why there are no trees although something changed."""
    left_out: tuple[str, ...] = ()
    """Changed paths that the trees do not hold: too large, unreadable, or not a file."""

    @property
    def uncommitted(self) -> int:
        """How many of the listed files are not committed as the run left them."""
        return sum(file.is_committed is False for file in self.files)

    @property
    def lines(self) -> tuple[int, int] | None:
        """How many lines were added and taken away, binary files aside; None where that is not known of every file."""
        counted = [(file.insertions, file.deletions) for file in self.files if not file.is_binary]
        known = [(added, deleted) for added, deleted in counted if added is not None and deleted is not None]
        if len(known) < len(counted) or self.truncated:
            return None
        return sum(added for added, _ in known), sum(deleted for _, deleted in known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What the program's event stream told; the program's word, not a proof."""

    finished: bool
    """The program's own final event was seen."""
    ok: bool
    """The final event, or for a plain command the exit code, says success."""
    answered: bool = False
    """`ok` was said by a final event of the program's own, not by its exit code: whatever ends its process later, that stays."""
    kind: FailureKind | None = None
    reason: str = ""
    text: str = ""
    harness_session: str | None = None
    model: str | None = None
    turns: int | None = None
    steps: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    quota_until: datetime | None = None
    expects_trace: bool = False
    """The program is an agent: success without any tool call or change does not count unless an answer was expected, and its last message may be a question."""
    whole: bool = True
    """All that it printed could be read. False: lines were left out, so that what was not seen may have happened all the same."""


class OutcomeStatus(StrEnum):
    """What a run came to."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


class Result(StrEnum):
    """What a run left behind, whatever its status: the class of its outcome."""

    COMMITTED = "committed"
    """Commits."""
    CHANGED = "changed"
    """Changed files, and no commit."""
    UNCHANGED = "unchanged"
    """Nothing: no file differs, and there is no new commit."""
    REFUSED = "refused"
    """The agent refused the task."""
    NOTHING_RECORDED = "nothing_recorded"
    """Words only, where more was expected."""
    UNKNOWN = "unknown"
    """What changed could not be told."""


class Disposition(StrEnum):
    """What an outcome does to its task."""

    DONE = "done"
    NEEDS_INPUT = "needs_input"
    RETRY = "retry"
    FAILED = "failed"
    STOPPED = "stopped"
    HELD = "held"


RESOLVES_A_HELD_RUN = frozenset({Disposition.FAILED, Disposition.STOPPED})
"""What a person's word makes of a held run: it is given up, or stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The durable result of a run, decided once and stored with what it does to the task (R11)."""

    run_id: str
    fence: int
    status: OutcomeStatus
    disposition: Disposition
    kind: FailureKind | None
    reason: str
    at: datetime
    proof: Proof
    text: str = ""
    harness_session: str | None = None
    model: str | None = None
    exit: ExitFact | None = None
    turns: int | None = None
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    changes: Changes | None = None
    leftovers: tuple[Leftover, ...] = ()
    wake_at: datetime | None = None
    """When a retry may start."""
    result: Result | None = None
    """What the run left behind; None: no agent ran, or an older version did not record it."""
    verdict: CheckVerdict | None = None
    """Whether it is acceptable; None: an older version did not record it."""
