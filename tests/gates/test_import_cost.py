"""What a quick command imports: no event loop, no renderer, no server, no driver it does not need.

`wk ls` is typed a hundred times a day; a library that only the daemon needs would be paid for each time.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.records import make_task

from watchkeeper.store.sqlite.store import SqliteStore

HEAVY = frozenset({
    "anyio", "asyncio", "httpx", "jinja2", "mcp", "multiprocessing", "psycopg", "pydantic", "pytest", "rich", "sqlite3",
    "ssl", "starlette", "textual", "trio", "unittest", "uvicorn",
    "watchkeeper.demo", "watchkeeper.shim", "watchkeeper.testing",
})  # fmt: skip


LISTING = frozenset({
    "", "__main__", "errors", "crash", "settings", "compose", "compose.databases", "compose.parts", "compose.this_machine",
    "app", "app.views", "app.views.brief", "app.views.rows", "app.views.standing",
    "cli", "cli.call", "cli.command", "cli.commands", "cli.commands.ls", "cli.daemon", "cli.errors", "cli.main", "cli.render",
    "daemon", "daemon.client", "ports", "ports.damage", "ports.service",
    "domain", "domain.failure_kind", "domain.lock_state", "domain.store_url", "domain.task_record", "domain.wait",
    "runtimes", "runtimes.atomic", "runtimes.boot", "runtimes.daemon_host", "runtimes.locks", "runtimes.proc",
    "runtimes.state_directory", "runtimes.system",
    "store", "store.checked", "store.filesystem", "store.migrations", "store.rows", "store.statements", "store.tasks", "store.tx", "store.values",
    "store.sqlite", "store.sqlite.connection", "store.sqlite.faults", "store.sqlite.schema", "store.sqlite.store",
    "store.sqlite.newest", "store.sqlite.turnstile",
})  # fmt: skip
"""All of ours that a list of tasks at rest may load. Whoever adds to it adds to the time of every `wk ls` (`benchmarks/cli.py`)."""

NOT_FOR_A_LIST = frozenset({
    "difflib", "email", "getpass", "hashlib", "hmac", "importlib.metadata", "importlib.resources", "pkgutil", "random",
    "resource", "secrets", "socket", "subprocess", "tempfile", "textwrap", "tomllib", "traceback", "zipfile",
})  # fmt: skip
"""Of the standard library: what only errors, mistakes, messages or starts of programs need."""


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


def test_a_list_loads_only_what_it_needs(tmp_path: Path) -> None:
    """With tasks that wait, and without a daemon, so that the look for one is part of it."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    store = SqliteStore.open(home / "wk.db", home / "turnstile", create=True, upgrade=False)
    store.transact("add", lambda tx: tx.tasks.add(make_task("aaaaaaaa")))
    store.close()
    modules = imported_by("ls", home=home)
    ours = {name.removeprefix("watchkeeper").removeprefix(".") for name in modules if name.startswith("watchkeeper")}
    assert "store.tasks" in ours
    assert "runtimes.daemon_host" in ours
    assert ours - LISTING == set()
    assert modules & NOT_FOR_A_LIST == set()
