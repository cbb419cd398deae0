"""Ending the survivors of a shim, while what they print gets into the logs."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from watchkeeper.domain.evidence import DirectoryState, LockState
from watchkeeper.domain.model import Run
from watchkeeper.ports.runtime import SweepReport
from watchkeeper.runtimes import observation, records
from watchkeeper.runtimes.boot import boot_id, pid_namespace
from watchkeeper.runtimes.executions import ExecutionDirectories, OpenExecution, Unreadable
from watchkeeper.runtimes.log_pipes import LogPipes
from watchkeeper.runtimes.records import BadRecord
from watchkeeper.runtimes.sweep import Sweep

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


def sweep_asked(directories: ExecutionDirectories, pipes: LogPipes, run: Run) -> SweepReport:
    """Sweep because a person wants everything of a run ended; its shim, which may live, drains its pipes itself until it is dead. Raises OSError."""
    sweep = Sweep(run.execution_id, run.agent)
    with directories.open(run) as files:
        if isinstance(files, DirectoryState):
            return sweep.run()

        def is_shim_dead() -> bool:
            return observation.gather(files, boot_id=boot_id(), pid_namespace=pid_namespace()).lock is LockState.FREE

        with draining(pipes, run, files, is_shim_dead):
            return sweep.run()
