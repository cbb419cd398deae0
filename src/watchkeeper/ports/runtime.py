"""Executions: directories, shims, evidence, signals."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from watchkeeper.domain.effects import RemoveExecution
from watchkeeper.domain.evidence import DecidedBy, Evidence, GoneFact
from watchkeeper.domain.inheritance import Inheritance
from watchkeeper.domain.model import AgentIdentity, DirectoryIdentity, EndReason, Proof, Run, StopHow
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.ports.off_record import OffRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRequest:
    """Everything a shim must know to run an agent once."""

    database_id: str
    run: Run
    argv: tuple[str | None, ...]
    """None is where the prompt's text or path goes."""
    cwd: str
    environment: Mapping[str, str]
    prompt: bytes
    prompt_by: str
    """`stdin`, `argument`, `file` or `none`."""
    keep_input: bool = False
    deadline_s: float | None = None
    silence_s: float | None = None
    """After how long without output the shim ends the agent; None: never."""
    grace_s: float = 10.0
    leftovers: str = "kill"
    log_limit_bytes: int = 256 * 1024 * 1024
    asked: tuple[str, ...] = ()
    """Variables that were asked for by name, by the task or its account: what they hold is hidden unless it is plainly no secret."""
    inherits: Inheritance | None = None
    """Umask, niceness and limits for the agent; None: those that an agent of an older version got."""
    place: WorkingDirectory | None = None
    """Which directory `cwd` must lead to at the start, and what must be checked out there; None: whatever is there."""
    before: Mapping[str, object] | None = None
    """What the workspace looked like; kept in the directory until settlement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReport:
    """What a sweep for the survivors of a dead shim found and did."""

    proof: Proof
    ended: tuple[str, ...] = ()
    """What was ended, as `pid command`."""
    spared: tuple[str, ...] = ()
    """What was left alone and why, a sentence each: a stranger under a recorded pid, a process that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forced:
    """What one step towards the end of a run past its shim came to."""

    sweep: SweepReport | None = None
    """What was ended and what is proven; None while the agent has its grace."""
    wait_s: float = 0.0
    """When to take the next step, if the agent has its grace."""


class PreparedExecution(Protocol):
    """What an execution directory is known by: a run, or what is left of one that was removed."""

    @property
    def id(self) -> str:
        """The run's id."""
        ...

    @property
    def task_id(self) -> str:
        """Its task's."""
        ...

    @property
    def fence(self) -> int:
        """Its fence."""
        ...

    @property
    def execution_id(self) -> str:
        """The directory's name."""
        ...

    @property
    def directory(self) -> DirectoryIdentity | None:
        """Which directory was prepared, if that was recorded."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionName:
    """What is left of a run that was removed: enough to find its directory, and to leave any other alone."""

    id: str
    task_id: str
    fence: int
    execution_id: str
    directory: DirectoryIdentity | None

    @classmethod
    def from_effect(cls, effect: RemoveExecution) -> "ExecutionName":
        """From what was put down when its task was removed."""
        known = effect.device is not None and effect.inode is not None
        return cls(
            id=effect.run_id,
            task_id=effect.task_id,
            fence=effect.fence,
            execution_id=effect.execution_id,
            directory=DirectoryIdentity(device=effect.device or 0, inode=effect.inode or 0) if known else None,
        )


class LogUnreadable(OSError):  # noqa: N818 - an answer about a file, not a failure of the program
    """The file with a log's name is not a log: a named pipe, a link, a device. It is not read."""


class Hole(NamedTuple):
    """Bytes of a log that are not kept, or that are more than is read of it."""

    start: int
    end: int


class Log(Protocol):
    """A log that is open for reading, as long as it was when it was opened. What it costs is what is kept of it."""

    @property
    def size(self) -> int:
        """How many bytes were ever written to it."""
        ...

    def read(self, start: int = 0, most: int | None = None) -> Iterator[bytes | Hole]:
        """What is kept from `start` on, in pieces, and what is not; at most about `most` bytes of it. Raises OSError."""
        ...

    def tail(self, most: int) -> bytes:
        """The newest bytes, at most `most` of them, back to the last hole. Raises OSError."""
        ...


class ShimUnreachable(Exception):  # noqa: N818 - an answer, not a failure of the program
    """The shim did not take the message; it may not listen yet, or be gone."""


class Runtime(Protocol):
    """Hosts agents as plain processes, each under a shim."""

    def prepare(self, request: ExecutionRequest) -> DirectoryIdentity:
        """Write the execution directory, synced, under its final name. Done twice it finds its own earlier work and completes it.

        Raises:
            OSError: the disk did not take it; nothing is under the final name unless it is whole.
        """
        ...

    def start_shim(self, run: Run) -> None:
        """Start a shim for a prepared execution, detached. Raises OSError."""
        ...

    def observe(self, run: Run, *, stop_asked: bool) -> Evidence:
        """Read the evidence, in the order that `domain.evidence` demands. Raises OSError when the system itself fails (no descriptors, input/output error)."""
        ...

    def take_decision(self, run: Run, by: DecidedBy, *, refused: int | None = None) -> bool:
        """Publish the write-once decision; False if another process was first."""
        ...

    def end(self, run: Run, how: StopHow, *, grace_s: float | None, why: EndReason) -> bool:
        """Tell the shim to end its agent; `why` is what its exit record will say. A suspended one is resumed first.

        True: it has acknowledged that. False: it was signalled, and whether it heard that is not known. Raises ShimUnreachable.
        """
        ...

    def force(self, run: Run, how: StopHow, *, grace_s: float | None, signalled: bool) -> Forced:
        """Take a step towards the end of a run whose shim does not answer: the agent and all that is its, by their identities; then a shim that hangs.

        `signalled`: its shim was sent TERM, and may be passing it on. Raises OSError.
        """
        ...

    def watch(self, run: Run) -> int | None:
        """A descriptor that becomes readable when the run's recorded agent dies; None if it is dead, or cannot be watched here. The caller closes it."""
        ...

    def living_agent(self, run: Run) -> AgentIdentity | None:
        """The run's recorded agent if exactly that process is alive: same pid, same start time, same boot. Raises OSError."""
        ...

    def sweep(self, run: Run, *, asked: bool = False) -> SweepReport:
        """End what survived a shim that was killed: by the run's marker and its recorded identities, each checked, until two looks find nothing.

        `asked`: a person wants everything of this run ended, whether or not its shim is known to be dead and its directory can be read.
        """
        ...

    def executions(self) -> "Executions":
        """The directories themselves."""
        ...

    def watch_agent(self, agent: AgentIdentity) -> int | None:
        """As `watch`, of an agent that no row names."""
        ...

    @property
    def off_record(self) -> OffRecord:
        """What is known, and kept, without the database."""
        ...

    @property
    def machine(self) -> str:
        """The id of the machine whose processes these are; empty where only one can be meant."""
        ...


class Executions(Protocol):
    """Reading and removing execution directories."""

    def path(self, run: Run) -> Path:
        """Where it is."""
        ...

    def log(self, run: Run, stream: str) -> Path:
        """The log of `stdout` or `stderr`."""
        ...

    def open_log(self, run: Run, stream: str) -> AbstractContextManager[Log | None]:
        """Open the log of `stdout` or `stderr`, never waiting; None if it is not there.

        Raises:
            LogUnreadable: its name belongs to something that is not a regular file.
            OSError: it cannot be opened.
        """
        ...

    def complaints(self, run: Run) -> Path | None:
        """The file in which the run's shim complained; None if it had nothing to say, or cannot be asked."""
        ...

    def environment(self, run: Run) -> Mapping[str, str] | None:
        """The environment its agent was given; None if it cannot be read. It holds secrets: what hides them needs it, nothing else does."""
        ...

    def asked(self, run: Run) -> tuple[str, ...]:
        """The variables of it that were asked for by name; none if that cannot be read."""
        ...

    def before(self, run: Run) -> Mapping[str, object] | None:
        """What the workspace looked like before the agent."""
        ...

    def repository(self, run: PreparedExecution) -> str | None:
        """The repository that may keep the files of this run; None if there is none, or that cannot be read."""
        ...

    def gone(self, run: Run) -> GoneFact | None:
        """The shim's proof of emptiness, if it was given."""
        ...

    def may_lack_end(self, run: Run) -> bool:
        """Whether the end of a run's output may be missing: its shim is gone, and no supervisor has seen all of it in the logs. Raises OSError."""
        ...

    def has_exit(self, run: Run) -> bool:
        """Whether there is a record of its agent's end, which may be unreadable. It costs one system call."""
        ...

    def still_open(self, run: Run) -> bool:
        """Whether its directory exists and there is no decision yet whether its agent is launched. Raises OSError."""
        ...

    def begun(self, run: Run, database_id: str) -> DirectoryIdentity | None:
        """The directory of a run that no row says is prepared, if it was: it is decided whether its agent is launched, or a shim lives in it.

        None: it is not there, nothing has begun in it, or it does not say that it is this run's. Raises OSError.
        """
        ...

    def names(self) -> list[str]:
        """Ids of all execution directories that are there."""
        ...

    def tidy(self) -> None:
        """Finish deletions that a crash interrupted."""
        ...

    def keep_logs(self, run: PreparedExecution) -> Path | None:
        """Keep the logs of an execution that is about to be removed, and return the directory where they are; None if there are none. Twice is fine."""
        ...

    def remove(self, run: PreparedExecution) -> None:
        """Delete the directory of a run that is provably not needed. Gone already is fine; one that is not the run's is left alone, and refused."""
        ...

    def dropped(self, run: Run, stream: str) -> list[tuple[int, int]]:
        """Byte ranges of a log that were given up to keep it bounded."""
        ...
