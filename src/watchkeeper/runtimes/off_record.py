"""Runs as their directories tell of them, and notes of stops that the database could not take.

A note is a file `stops/EXECUTION.json` of the state directory. It is written before the request to the shim, and removed when its stop is on record.
"""

import contextlib
import os
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.domain.evidence import DecidedBy
from watchkeeper.domain.model import Cause, Run, RunState, StopHow
from watchkeeper.ports.off_record import FoundRun, StopNote
from watchkeeper.runtimes import atomic, observation, records
from watchkeeper.runtimes.boot import boot_id, pid_namespace
from watchkeeper.runtimes.executions import ExecutionDirectories, OpenExecution, identity_of
from watchkeeper.runtimes.observation import Gathered
from watchkeeper.runtimes.records import BadRecord

_LARGEST = 64 * 1024
_SUFFIX = ".json"


class DirectoryOffRecord:
    """The port's `OffRecord` over a state directory."""

    def __init__(self, state: Path, directories: ExecutionDirectories) -> None:
        """Nothing is made before the first note."""
        self._directories = directories
        self._notes = state / "stops"

    def runs(self) -> list[FoundRun]:
        """Every run that is not proven to have ended, as the directories tell; one that cannot be read is left out. Raises OSError."""
        found: list[FoundRun] = []
        for name in self._directories.names():
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                run = self._run(name)
                if run is not None:
                    found.append(run)
        return found

    def _run(self, name: str) -> FoundRun | None:
        with atomic.directory(self._directories.named(name)) as fd:
            seen = observation.gather(OpenExecution(fd), boot_id=boot_id(), pid_namespace=pid_namespace())
            directory, at = identity_of(fd), os.fstat(fd).st_ctime
        who = seen.identity
        if who is None or who.execution_id != name or not _is_unfinished(seen):
            return None
        agent = None if seen.agent is None else seen.agent.agent
        run = Run(
            id=who.run_id,
            task_id=who.task_id,
            number=_number(who.run_id),
            fence=who.fence,
            execution_id=name,
            cause=Cause.INITIAL,
            state=RunState.PREPARED if agent is None else RunState.RUNNING,
            machine="",
            incarnation=0,
            claimed_at=records.moment(at),
            directory=directory,
            agent=agent,
            exit=seen.exit,
        )
        return FoundRun(run=run, database_id=who.database_id)

    def put(self, note: StopNote) -> None:
        """Keep a note, durably. Raises OSError."""
        if not self._notes.exists():
            self._notes.mkdir(mode=atomic.DIRECTORY_MODE, exist_ok=True)
            crashpoint("stops.mkdir.after")
            atomic.sync_directory(self._notes.parent)
        record: dict[str, object] = {
            "format": records.FORMAT,
            "database": note.database_id,
            "task": note.task_id,
            "run": note.run_id,
            "fence": note.fence,
            "execution": note.execution_id,
            "how": note.how.value,
            "by": note.by,
            "at": note.at.isoformat(),
            "grace_s": note.grace_s,
        }
        with atomic.directory(self._notes) as fd:
            atomic.replace(fd, f"{note.execution_id}{_SUFFIX}", atomic.encode(record), point="stops.note")

    def notes(self) -> list[StopNote]:
        """All notes, oldest first. Raises OSError."""
        found: list[StopNote] = []
        try:
            names = sorted(os.listdir(self._notes))  # noqa: PTH208 - at every look
        except FileNotFoundError:
            return []
        for name in names:
            # One that cannot be read stays: what it says is a person's word, and nothing is guessed in its place.
            with contextlib.suppress(FileNotFoundError, BadRecord), atomic.directory(self._notes) as fd:
                if name.endswith(_SUFFIX):
                    found.append(_parsed(atomic.read_limited(fd, name, _LARGEST)))
        return sorted(found, key=lambda note: note.at)

    def forget(self, note: StopNote) -> None:
        """It is on record. Raises OSError."""
        crashpoint("stops.forget.before")
        with contextlib.suppress(FileNotFoundError):
            (self._notes / f"{note.execution_id}{_SUFFIX}").unlink()
            atomic.sync_directory(self._notes)
        crashpoint("stops.forget.after")


def _is_unfinished(seen: Gathered) -> bool:
    """Whether it is not proven that the run is over: an agent may start or be alive, or what it left, or the run may be tried again.

    A dead agent proves nothing of what it started, and a shim that was killed leaves a run that only a person's word or a look can end.
    """
    decision = seen.decision
    return seen.gone is None and (decision is None or decision.record.by is DecidedBy.SHIM)


def _number(run_id: str) -> int:
    """The task's own number of a run: `k3f9m2qx.2` is its second."""
    tail = run_id.rpartition(".")[2]
    return int(tail) if tail.isdecimal() else 1


def _parsed(data: bytes) -> StopNote:
    record = records.load(data)
    grace_s = record.get("grace_s")
    return StopNote(
        database_id=records.text(record, "database"),
        task_id=records.text(record, "task"),
        run_id=records.text(record, "run"),
        fence=records.integer(record, "fence"),
        execution_id=records.text(record, "execution"),
        how=records.word(record, "how", StopHow),
        by=records.text(record, "by"),
        at=records.time(record, "at"),
        grace_s=float(grace_s) if isinstance(grace_s, int | float) and not isinstance(grace_s, bool) else None,
    )
