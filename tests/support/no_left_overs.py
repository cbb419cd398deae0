"""With WATCHKEEPER_NO_SKIPS=1, a session that leaves a directory for sockets behind in the temporary directory is red.

Sockets lie in state directories, so no test has a reason to; whoever checks everything checks this too.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from support.no_skips import VARIABLE

SHARED = Path("/tmp")


def found() -> set[str]:
    """The names that there are now."""
    return {path.name for path in SHARED.glob(f"watchkeeper-{os.geteuid()}-*")}


class NoLeftOvers:
    """Compares what is there in the end with what was there before."""

    def __init__(self) -> None:
        self._before = found()
        self._left: set[str] = set()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """The last chance to say how it went."""
        self._left = found() - self._before
        if self._left and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name what was left behind."""
        if self._left:
            terminalreporter.section(f"left behind in {SHARED}", red=True)
            for name in sorted(self._left):
                terminalreporter.line(name)


def pytest_configure(config: pytest.Config) -> None:
    """Watch only where asked to, and only in the process that sums up."""
    if os.environ.get(VARIABLE) == "1" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(NoLeftOvers(), "no-left-overs")
