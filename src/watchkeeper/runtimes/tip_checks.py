"""Running a check beside a merge: a child of the command, in a session of its own, that is ended with all that it started.

Its processes carry a marker in their environment, as an agent's do, so the next merge of the task finds and ends what a killed command left running.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from watchkeeper.crash import crashpoint
from watchkeeper.errors import describe_os_error
from watchkeeper.ports.integration import CheckEnd
from watchkeeper.runtimes.sweep import MARKER, Sweep

_LEADS_ELSEWHERE = frozenset({
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR",
    "GIT_NAMESPACE", "GIT_PREFIX",
})  # fmt: skip
"""Variables that would make a check's git work in another repository."""


class ForegroundChecks:
    """The port's `TipChecks`."""

    def __init__(self, root: Path) -> None:
        """`root`: the directory of the logs."""
        self._root = root

    def log_for(self, task_id: str) -> str:
        """The file that takes what the checks print."""
        return str(self._root / f"{task_id}.log")

    def run(
        self, task_id: str, command: str, directory: str, environ: Mapping[str, str], deadline_s: float
    ) -> CheckEnd:
        """Run one check to its end or to its deadline."""
        kept = {name: value for name, value in environ.items() if name not in _LEADS_ELSEWHERE}
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _log(self.log_for(task_id)) as log:
            _ = log.write(f"$ {command}\n".encode("utf-8", "replace"))
            log.flush()
            crashpoint("merge.check.before")
            try:
                process = subprocess.Popen(
                    ["/bin/sh", "-c", command],
                    cwd=directory,
                    env={**kept, MARKER: _name(task_id)},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                detail = describe_os_error(error) if isinstance(error, OSError) else str(error)
                return CheckEnd(f"could not be started ({detail})")
            try:
                code = process.wait(deadline_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _ = self.end(task_id)
                _ = process.wait()
            crashpoint("merge.check.after")
        if code is None:
            return CheckEnd(f"took longer than {deadline_s:g} s and was ended")
        if code:
            return CheckEnd(f"failed with exit code {code}" if code > 0 else f"was ended by signal {-code}")
        return CheckEnd()

    def end(self, task_id: str) -> Sequence[str]:
        """End what is left of the checks of a task's merge."""
        return Sweep(_name(task_id), None).run().ended


def _name(task_id: str) -> str:
    return f"merge-{task_id}"


def _log(path: str) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab")
