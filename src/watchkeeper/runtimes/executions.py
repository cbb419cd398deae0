"""Execution directories: opening exactly the one that was prepared, reading it, removing it.

A name is not enough (a directory is ours by device and inode, recorded when it was prepared). All reading goes through one
descriptor of that directory, so that what is read together belongs together even if the name is given to another directory meanwhile.
"""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.domain.evidence import DirectoryState, GoneFact, LockState
from watchkeeper.domain.model import DirectoryIdentity, Run
from watchkeeper.errors import Refused
from watchkeeper.ports.backup import DescribedExecution
from watchkeeper.ports.runtime import PreparedExecution
from watchkeeper.runtimes import atomic, kept_log, locks, log_pipes, records
from watchkeeper.runtimes.kept_log import KeptLog
from watchkeeper.runtimes.records import BadRecord

RECORD_LIMIT = 4 * 1024 * 1024
"""No record is larger; a spec holds an environment of at most a few hundred kilobytes."""

_ALPHABET = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_LONGEST_ID = 64
_REFUSALS = frozenset({errno.EACCES, errno.EPERM})
_NOT_A_DIRECTORY = frozenset({errno.ENOTDIR, errno.ELOOP})
_UNREADABLE = _REFUSALS | _NOT_A_DIRECTORY | {errno.EBADMSG, errno.EISDIR, errno.ENXIO}
"""Errors that say something about one file. All others, such as EMFILE and EIO, say something about the system and are raised."""

_NO_DIRECTORY = (FileNotFoundError, NotADirectoryError, PermissionError)
_BEGUN = (records.DECISION, records.AGENT, records.EXIT, records.GONE)


class Unreadable(Exception):  # noqa: N818 - an answer about a file, not a failure of the program
    """A record is there, and cannot be read."""


class OpenExecution:
    """The files of one execution directory, by its descriptor."""

    def __init__(self, fd: int) -> None:
        """Read through `fd`, which the caller closes."""
        self.fd = fd

    def read(self, name: str) -> bytes | None:
        """The bytes of a record, None if it is missing.

        Raises:
            Unreadable: it is there and cannot be read.
            OSError: the system is in trouble.
        """
        try:
            return atomic.read_limited(self.fd, name, RECORD_LIMIT)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in _UNREADABLE:
                raise Unreadable(name) from error
            raise

    def exists(self, name: str) -> bool:
        """Whether something has this name. Raises OSError if the system is in trouble."""
        try:
            os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def lock(self) -> LockState:
        """Whether a living shim holds the lock. Raises OSError if the system is in trouble."""
        return locks.probe(records.LOCK, dir_fd=self.fd)


def identity_of(fd: int) -> DirectoryIdentity:
    """Which directory a descriptor is. Raises OSError."""
    found = os.fstat(fd)
    return DirectoryIdentity(device=found.st_dev, inode=found.st_ino)


class ExecutionDirectories:
    """Everything under `executions/` of a state directory."""

    def __init__(self, root: Path) -> None:
        """Look under `root`, which need not exist yet."""
        self.root = root

    def named(self, execution_id: str) -> Path:
        """Where an execution's directory is. Raises Refused for an id that could point elsewhere."""
        if not execution_id or len(execution_id) > _LONGEST_ID or not _ALPHABET.issuperset(execution_id):
            msg = f"'{execution_id}' cannot be the id of an execution."
            raise Refused(msg, hint="`wk doctor` lists what is in the state directory.")
        return self.root / execution_id

    def path(self, run: Run) -> Path:
        """Where it is."""
        return self.named(run.execution_id)

    def log(self, run: Run, stream: str) -> Path:
        """The log of `stdout` or `stderr`."""
        return self.path(run) / log_name(stream)

    @contextmanager
    def open_log(self, run: Run, stream: str) -> Generator[KeptLog | None]:
        """Open a log, never waiting; None if it is not there.

        Raises:
            LogUnreadable: its name belongs to something that is not a regular file.
            OSError: it cannot be opened.
        """
        try:
            fd = atomic.open_directory(self.path(run))
        except FileNotFoundError:
            yield None
            return
        try:
            dropped, most = lambda: self.dropped(run, stream), lambda: _log_limit(OpenExecution(fd)) + kept_log.LEAST
            with kept_log.open_kept(log_name(stream), dropped, most, dir_fd=fd) as log:
                yield log
        finally:
            os.close(fd)

    def complaints(self, run: Run) -> Path | None:
        """What the shim itself wrote, if it wrote anything."""
        path = self.path(run) / records.SHIM_ERRORS
        try:
            return path if path.stat().st_size else None
        except OSError:
            return None

    @contextmanager
    def open(self, run: Run) -> Generator[OpenExecution | DirectoryState]:
        """Open the directory that was prepared for a run, or say why it is not there. Raises OSError if the system is in trouble."""
        try:
            fd = atomic.open_directory(self.path(run))
        except OSError as error:
            yield _state_of(error)
            return
        try:
            same = run.directory is not None and identity_of(fd) == run.directory
            yield OpenExecution(fd) if same else DirectoryState.FOREIGN
        finally:
            os.close(fd)

    @contextmanager
    def intact(self, run: Run) -> Generator[OpenExecution]:
        """Open the directory that was prepared for a run. Raises OSError, ESTALE if it is not there."""
        with self.open(run) as found:
            if isinstance(found, DirectoryState):
                raise OSError(errno.ESTALE, "the prepared execution directory is not there", str(self.path(run)))
            yield found

    def still_named(self, run: Run) -> DirectoryState:
        """Whether the prepared directory still has its name. Raises OSError if the system is in trouble."""
        with self.open(run) as found:
            return found if isinstance(found, DirectoryState) else DirectoryState.INTACT

    def still_open(self, run: Run) -> bool:
        """Whether its directory exists and there is no decision yet whether its agent is launched. Raises OSError if the system is in trouble."""
        with self.open(run) as found:
            return isinstance(found, OpenExecution) and not found.exists(records.DECISION)

    def has_exit(self, run: Run) -> bool:
        """Whether there is a record of its agent's end; whose directory it is in is not compared."""
        return os.path.lexists(self.path(run) / records.EXIT)

    def begun(self, run: Run, database_id: str) -> DirectoryIdentity | None:
        """The directory of a run that no row says is prepared, if something has begun in it. Raises OSError if the system is in trouble."""
        with contextlib.suppress(BadRecord, Unreadable, *_NO_DIRECTORY), atomic.directory(self.path(run)) as fd:
            found = OpenExecution(fd)
            who = records.parse_spec(found.read(records.SPEC) or b"").identity
            return _begun(found) if who == records.SpecIdentity.for_run(database_id, run) else None
        return None

    def before(self, run: Run) -> Mapping[str, object] | None:
        """What the workspace looked like before the agent; None if that was not kept or cannot be read."""
        data = self._read(run, records.BEFORE)
        with contextlib.suppress(BadRecord):
            return None if data is None else records.load(data)
        return None

    def repository(self, run: PreparedExecution) -> str | None:
        """The repository that may keep the files of this run; None if there is none, or that cannot be read."""
        with contextlib.suppress(BadRecord, OSError), atomic.directory(self.named(run.execution_id)) as fd:
            if run.directory is None or identity_of(fd) == run.directory:
                data = atomic.read_limited(fd, records.BEFORE, RECORD_LIMIT)
                found = records.load(data).get("repository")
                return found if isinstance(found, str) else None
        return None

    def environment(self, run: Run) -> Mapping[str, str] | None:
        """The environment that its spec holds; None if it cannot be read. Raises OSError if the system is in trouble."""
        data = self._read(run, records.SPEC)
        with contextlib.suppress(BadRecord):
            return None if data is None else records.parse_environment(data)
        return None

    def asked(self, run: Run) -> tuple[str, ...]:
        """The variables of its environment that were asked for by name; none if that cannot be read. Raises OSError if the system is in trouble."""
        data = self._read(run, records.SPEC)
        with contextlib.suppress(BadRecord):
            return () if data is None else records.parse_asked(data)
        return ()

    def gone(self, run: Run) -> GoneFact | None:
        """The shim's proof of emptiness; None if it was not given or cannot be read, which proves nothing."""
        data = self._read(run, records.GONE)
        with contextlib.suppress(BadRecord):
            return None if data is None else records.parse_gone(data)
        return None

    def dropped(self, run: Run, stream: str) -> list[tuple[int, int]]:
        """Byte ranges of a log that were given up to keep it bounded; none if that cannot be read."""
        data = self._read(run, records.DROPPED)
        with contextlib.suppress(BadRecord):
            return [] if data is None else records.parse_dropped(data, log_name(stream))
        return []

    def may_lack_end(self, run: Run) -> bool:
        """Whether the end of a run's output may be missing: its shim is gone, and no supervisor has seen it in the logs. Raises OSError."""
        with self.open(run) as found:
            return (
                isinstance(found, OpenExecution) and log_pipes.are_left(found.fd) and found.lock() is not LockState.HELD
            )

    def names(self) -> list[str]:
        """Ids of all execution directories that are there. Raises OSError."""
        try:
            with os.scandir(self.root) as entries:
                return sorted(
                    entry.name
                    for entry in entries
                    if _ALPHABET.issuperset(entry.name) and entry.is_dir(follow_symlinks=False)
                )
        except FileNotFoundError:
            return []

    def described(self) -> list[DescribedExecution]:
        """What each directory says of itself; one that cannot be read is left out. Raises OSError if the system is in trouble."""
        found: list[DescribedExecution] = []
        for name in self.names():
            with contextlib.suppress(FileNotFoundError, Unreadable, BadRecord):
                found.append(self._described(name))
        return found

    def _described(self, name: str) -> DescribedExecution:
        with atomic.directory(self.named(name)) as fd:
            execution = OpenExecution(fd)
            who = records.parse_spec(execution.read(records.SPEC) or b"").identity
            return DescribedExecution(
                execution_id=name,
                database_id=who.database_id,
                task_id=who.task_id,
                run_id=who.run_id,
                fence=who.fence,
                lock=execution.lock(),
                begun=_begun(execution),
            )

    def keep_logs(self, run: PreparedExecution) -> Path | None:
        """Keep the logs of an execution under names of their own, in `kept-logs/TASK` of the state directory.

        Raises:
            Refused: an id points elsewhere.
            OSError: they could not be kept.
        """
        into = self.kept_logs(run.task_id)
        found = [stream for stream in ("stdout", "stderr") if self._has_log(run, stream)]
        if not found:
            return into if into.exists() else None
        atomic.make_directory(into)
        crashpoint("executions.keep.before")
        for stream in found:
            with contextlib.suppress(FileExistsError):  # kept by an earlier try
                os.link(self.named(run.execution_id) / log_name(stream), into / f"{run.id}.{log_name(stream)}")
        crashpoint("executions.keep.after")
        atomic.sync_directory(into)
        atomic.sync_directory(into.parent)
        return into

    def kept_logs(self, task_id: str) -> Path:
        """Where the logs of a removed task are kept. Raises Refused for an id that could point elsewhere."""
        return self.root.parent / "kept-logs" / self.named(task_id).name

    def _has_log(self, run: PreparedExecution, stream: str) -> bool:
        try:
            with atomic.directory(self.named(run.execution_id)) as fd:
                ours = run.directory is None or identity_of(fd) == run.directory
                return ours and os.stat(log_name(stream), dir_fd=fd, follow_symlinks=False).st_size > 0
        except (FileNotFoundError, NotADirectoryError):
            return False

    def remove(self, run: PreparedExecution) -> None:
        """Delete a run's directory that is provably not needed, and what is left of earlier attempts to delete or prepare it. Gone already is fine.

        It loses its name first, so that a crash half-way leaves nothing under the name that looks whole.

        Raises:
            Refused: the id points elsewhere, something that is not this run's directory has the name (R13), or a living shim holds its lock (R6).
            OSError: it could not be deleted.
        """
        execution_id = run.execution_id
        path = self.named(execution_id)
        gone = self.root / f".{execution_id}.gone"
        delete(gone)
        delete(self.root / f".{execution_id}.new")
        try:
            found = path.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(found.st_mode):
            msg = f"{path} is not a directory, so it does not belong to an execution: it was left alone."
            raise Refused(msg, hint="Look at it and delete it by hand.")
        if not self._is_of(run, path, DirectoryIdentity(device=found.st_dev, inode=found.st_ino)):
            msg = f"{path} is not the directory that was prepared for run {run.id}: it was left alone."
            raise Refused(msg, hint="Look at it; what is not needed delete by hand, and it is not asked about again.")
        if locks.probe(path / records.LOCK) is LockState.HELD:
            msg = f"The execution {execution_id} still has a living shim: its directory was left alone."
            raise Refused(msg, hint="Stop its task first.")
        crashpoint("executions.remove.rename.before")
        path.rename(gone)
        crashpoint("executions.remove.rename.after")
        atomic.sync_directory(self.root)
        crashpoint("executions.remove.delete.before")
        delete(gone)
        crashpoint("executions.remove.delete.after")

    def _is_of(self, run: PreparedExecution, path: Path, found: DirectoryIdentity) -> bool:
        """Whether a directory is the one that was prepared for a run; of one that was written and never recorded, its spec tells."""
        if run.directory is not None:
            return found == run.directory
        try:
            with atomic.directory(path) as fd:
                identity = records.parse_spec(atomic.read_limited(fd, records.SPEC, RECORD_LIMIT)).identity
        except (BadRecord, FileNotFoundError):
            return False
        return identity == records.SpecIdentity.for_run(identity.database_id, run)

    def tidy(self) -> None:
        """Finish deletions that a crash interrupted. Raises OSError."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self.root) as entries:
            for name in [entry.name for entry in entries if entry.name[:1] == "." and entry.name.endswith(".gone")]:
                delete(self.root / name)

    def _read(self, run: Run, name: str) -> bytes | None:
        with self.open(run) as found:
            if isinstance(found, DirectoryState):
                return None
            with contextlib.suppress(Unreadable):
                return found.read(name)
        return None


def _begun(found: OpenExecution) -> DirectoryIdentity | None:
    """Which directory it is, if something has begun in it. Raises OSError."""
    began = any(found.exists(name) for name in _BEGUN) or found.lock() is LockState.HELD
    return identity_of(found.fd) if began else None


def log_name(stream: str) -> str:
    """The file of a stream's log. Raises ValueError for a stream that has none."""
    if stream not in {"stdout", "stderr"}:
        msg = f"no such stream: {stream}"
        raise ValueError(msg)
    return f"{stream}.log"


def _log_limit(found: OpenExecution) -> int:
    with contextlib.suppress(BadRecord, Unreadable):
        return records.parse_log_limit(found.read(records.SPEC) or b"")
    return 0


def _state_of(error: OSError) -> DirectoryState:
    """What a failure to open a directory says about it; re-raises what says nothing about it."""
    if isinstance(error, FileNotFoundError):
        return DirectoryState.ABSENT
    if error.errno in _NOT_A_DIRECTORY:
        return DirectoryState.FOREIGN
    if error.errno in _REFUSALS:
        return DirectoryState.UNREADABLE
    raise error


def delete(path: Path) -> None:
    """Delete a tree, or whatever else has the name; never follows a symlink. Gone already is fine. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()
