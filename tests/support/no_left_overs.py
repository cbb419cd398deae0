"""With WATCHKEEPER_NO_SKIPS=1, a test run that leaves a directory for sockets behind in the temporary directory is red.

Sockets lie in state directories, so no test has a reason to; a full run checks this too. Earlier versions named such a directory after the path
of its state directory, so those of this test run are distinguished from what others left.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from support.no_skips import VARIABLE

SHARED = Path("/tmp")


def left_behind(root: Path) -> list[Path]:
    """The directories for sockets that belong to state directories below `root`."""
    found = {path.parent for path in root.rglob("daemon.lock")}
    names = {hashlib.sha256(os.fsencode(state)).hexdigest()[:8] for state in found}
    paths = (SHARED / f"watchkeeper-{os.geteuid()}-{name}" for name in sorted(names))
    return [path for path in paths if path.exists()]


class NoLeftOvers:
    """Looks when all is over."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._left: list[Path] = []

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """The last chance to say how it went."""
        self._left = left_behind(getattr(self._config, "_tmp_path_factory").getbasetemp())  # noqa: B009 - pytest gives no public way
        if self._left and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name what was left behind."""
        if self._left:
            terminalreporter.section("directories for sockets that were left behind", red=True)
            for path in self._left:
                terminalreporter.line(str(path))


def pytest_configure(config: pytest.Config) -> None:
    """Watch only where asked to, and only in the process that sums up."""
    if os.environ.get(VARIABLE) == "1" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(NoLeftOvers(config), "no-left-overs")
