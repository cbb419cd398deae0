"""What a quick command imports: no event loop, no renderer, no server, no driver it does not need.

`wk ls` is typed a hundred times a day; a library that only the daemon needs would be paid for each time.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = frozenset({
    "anyio", "asyncio", "httpx", "jinja2", "mcp", "multiprocessing", "psycopg", "pydantic", "pytest", "rich", "sqlite3",
    "ssl", "starlette", "textual", "trio", "unittest", "uvicorn",
    "watchkeeper.demo", "watchkeeper.shim", "watchkeeper.testing",
})  # fmt: skip


def imported_by(*arguments: str, home: Path) -> set[str]:
    """Every module that `wk <arguments>` loads, in a process and a state directory of its own."""
    environment = os.environ | {"WATCHKEEPER_HOME": str(home)}
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "watchkeeper", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = (line for line in result.stderr.splitlines() if line.startswith("import time:"))
    modules = {line.rpartition("|")[2].strip() for line in lines}
    assert "watchkeeper.cli.main" in modules, result.stderr[-2000:]
    return modules


@pytest.mark.parametrize("arguments", [("--help",), ("ls",), ("status",), ("show", "1"), ("stop", "1")], ids=" ".join)
def test_a_quick_command_loads_nothing_heavy(arguments: tuple[str, ...], tmp_path: Path) -> None:
    modules = imported_by(*arguments, home=tmp_path / "home")
    assert {name for name in modules if any(name == heavy or name.startswith(f"{heavy}.") for heavy in HEAVY)} == set()


def test_help_does_not_open_the_database(tmp_path: Path) -> None:
    assert "apsw" not in imported_by("--help", home=tmp_path / "home")
