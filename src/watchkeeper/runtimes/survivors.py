"""Ending the survivors of a shim, while what they print gets into the logs."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from watchkeeper.domain.evidence import DirectoryState, LockState
from watchkeeper.domain.model import Run
from watchkeeper.runtimes import observation, records
from watchkeeper.runtimes.boot import boot_id, pid_namespace
from watchkeeper.runtimes.executions import ExecutionDirectories, OpenExecution, Unreadable
from watchkeeper.runtimes.log_pipes import LogPipes
from watchkeeper.runtimes.records import BadRecord

_DEFAULT_LIMIT = 64 * 1024 * 1024
"""How much is kept of the log of an execution whose spec cannot be read any more, in bytes."""


@contextmanager
def draining(pipes: LogPipes, run: Run, files: OpenExecution, may_begin: Callable[[], bool]) -> Generator[None]:
    """Move what a run's survivors print into its logs while the body ends them; see `LogPipes.draining`. Raises OSError."""
    try:
        limit = records.parse_spec(files.read(records.SPEC) or b"").log_limit_bytes
    except (Unreadable, BadRecord):
        limit = _DEFAULT_LIMIT
    with pipes.draining(run.execution_id, files.fd, limit, may_begin):
        yield


@contextmanager
def keeping_output(directories: ExecutionDirectories, pipes: LogPipes, run: Run) -> Generator[None]:
    """Keep what a run's processes print while the body ends them. A shim that lives drains its pipes itself, until it is dead. Raises OSError."""
    with directories.open(run) as files:
        if isinstance(files, DirectoryState):
            yield
            return

        def is_shim_dead() -> bool:
            return observation.gather(files, boot_id=boot_id(), pid_namespace=pid_namespace()).lock is LockState.FREE

        with draining(pipes, run, files, is_shim_dead):
            yield
