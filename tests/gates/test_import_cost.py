"""What a quick command costs to start: no library, no driver and no heavy part of the standard library that it does not need.

`wk ls` is typed a hundred times a day; a library that only the daemon needs would be paid for each time. What the modules of this package cost is measured
as a whole, against an empty Python on the same machine; `benchmarks/cli.py` measures more exactly.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.records import make_task

from watchkeeper.store.sqlite.store import SqliteStore

LIBRARIES = frozenset({"ahocorasick_rs", "apsw", "click"})
"""What is installed beside Python and may be loaded by a quick command."""

NOT_LIBRARIES = frozenset({"watchkeeper", "org"})
"""This package, and what Python's own `copy` tries to import for Jython."""

HEAVY = frozenset({
    "asyncio", "multiprocessing", "pydoc", "sqlite3", "ssl", "unittest", "xml",
})  # fmt: skip
"""Parts of the standard library that no quick command needs."""

NOT_FOR_A_LIST = HEAVY | {
    "ahocorasick_rs", "difflib", "email", "getpass", "hashlib", "hmac", "importlib.metadata", "importlib.resources", "pkgutil", "random",
    "resource", "secrets", "socket", "subprocess", "tempfile", "textwrap", "tomllib", "traceback", "zipfile",
}  # fmt: skip
"""What only errors, messages, redaction or the start of a program need."""

TIMES = 12.0
"""How many times the processor time of `python -c pass` a list may take. It takes about six times as much."""

ROUNDS = 15
"""How often both are measured at most. The smallest time counts, so one undisturbed round is enough."""


def imported_by(*arguments: str, home: Path) -> set[str]:
    """Every module that `wk <arguments>` loads beyond an empty Python, in a process and a state directory of its own."""
    modules = _loaded("-m", "watchkeeper", *arguments, home=home)
    assert "watchkeeper.cli.main" in modules
    return modules - _loaded("-c", "pass", home=home)


def _loaded(*arguments: str, home: Path) -> set[str]:
    result = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        env=os.environ | {"WATCHKEEPER_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = (line for line in result.stderr.splitlines() if line.startswith("import time:"))
    return {line.rpartition("|")[2].strip() for line in lines}


def libraries(modules: set[str]) -> set[str]:
    """The packages among these modules that are neither Python's nor ours."""
    packages = {name.partition(".")[0] for name in modules}
    return {name for name in packages - sys.stdlib_module_names - NOT_LIBRARIES if not name.startswith("__")}


def among(modules: set[str], packages: frozenset[str]) -> set[str]:
    """The modules that are one of these packages or part of one."""
    return {name for name in modules if any(name == package or name.startswith(f"{package}.") for package in packages)}


def times_as_much(*arguments: str, home: Path, rounds: int = ROUNDS) -> float:
    """How many times the processor time of an empty Python a Python with these arguments takes.

    The smallest of some rounds counts, so other programs on the machine do not count against it.
    """
    least = empty = float("inf")
    for _ in range(rounds):
        least = min(least, _processor_s(arguments, home))
        empty = min(empty, _processor_s(("-c", "pass"), home))
        if least <= TIMES * empty:
            break
    return least / empty


def _processor_s(arguments: tuple[str, ...], home: Path) -> float:
    to_nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    environment = os.environ | {"WATCHKEEPER_HOME": str(home)}
    pid = os.posix_spawn(sys.executable, (sys.executable, *arguments), environment, file_actions=to_nowhere)
    _, status, used = os.wait4(pid, 0)
    assert status == 0
    return used.ru_utime + used.ru_stime


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A state directory with one task and no daemon, so that the look for a daemon is part of a list."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    store = SqliteStore.open(home / "wk.db", home / "write.lock", create=True, upgrade=False)
    store.transact("add", lambda tx: tx.tasks.add(make_task("aaaaaaaa")))
    store.close()
    return home


@pytest.mark.parametrize("arguments", [("--help",), ("ls",), ("status",), ("show", "1"), ("stop", "1")], ids=" ".join)
def test_a_quick_command_loads_nothing_heavy(arguments: tuple[str, ...], tmp_path: Path) -> None:
    modules = imported_by(*arguments, home=tmp_path / "home")
    assert libraries(modules) - LIBRARIES == set()
    assert among(modules, HEAVY | {"watchkeeper.demo", "watchkeeper.shim"}) == set()


def test_help_does_not_open_the_database(tmp_path: Path) -> None:
    assert "apsw" not in imported_by("--help", home=tmp_path / "home")


def test_a_list_loads_only_what_it_needs(home: Path) -> None:
    modules = imported_by("ls", home=home)
    assert "watchkeeper.store.tasks" in modules
    assert "watchkeeper.runtimes.daemon_host" in modules
    assert among(modules, NOT_FOR_A_LIST) == set()


def test_a_list_takes_a_bounded_multiple_of_what_python_takes(home: Path) -> None:
    assert times_as_much("-m", "watchkeeper", "ls", home=home) <= TIMES


def test_the_gate_sees_a_program_that_takes_long(tmp_path: Path) -> None:
    spin = "import time\nwhile time.process_time() < 1: pass"
    assert times_as_much("-c", spin, home=tmp_path, rounds=2) > TIMES


def test_the_gate_tells_libraries_from_python_and_from_this_package() -> None:
    modules = {"anyio", "anyio.abc", "json.decoder", "watchkeeper.cli", "__editable___x_finder", "ssl", "sslx"}
    assert libraries(modules) == {"anyio", "sslx"}
    assert among(modules, frozenset({"ssl", "anyio"})) == {"anyio", "anyio.abc", "ssl"}
