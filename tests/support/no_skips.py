"""With WATCHKEEPER_NO_SKIPS=1 a test that was skipped, or failed as expected, fails the whole session.

A check that was left out is not a check that passed. Works under xdist too: the workers' reports reach the main process.
"""

import os
from typing import Any

import pytest

VARIABLE = "WATCHKEEPER_NO_SKIPS"


class NoSkips:
    """Remembers what did not run and turns the session red for it."""

    def __init__(self) -> None:
        self.left_out: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for each phase of each test."""
        if report.skipped:
            self.left_out.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Called for each module; one may skip itself as a whole."""
        if report.skipped:
            self.left_out.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """The last chance to say how it went."""
        if self.left_out and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name what was left out."""
        if self.left_out:
            terminalreporter.section(f"left out, and {VARIABLE} is set", red=True)
            for name in sorted(set(self.left_out)):
                terminalreporter.line(name)


def pytest_configure(config: pytest.Config) -> None:
    """Watch only where asked to, and only in the process that sums up."""
    if os.environ.get(VARIABLE) == "1" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(NoSkips(), "no-skips")
