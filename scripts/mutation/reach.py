"""Which test reaches which function, in each process that it starts.

Every function of the changed package gets a call at its begin that writes the function's name to a file, once per process and test. A shim runs from a zipapp,
isolated and with an environment of its own, so the call needs nothing but the standard library and knows the path of the file. It uses `posix`, which no test
replaces.
"""

import ast
import hashlib
import json
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple, cast

import pytest

_CALL = "_wk_reach"
_SLOW_S = 3.0
"""Tests that take longer come last."""
_PREFACE = """
def {call}(name):
    import posix, sys
    seen = sys.__dict__.setdefault("{call}", set())
    if name not in seen:
        seen.add(name)
        try:
            fd = posix.open({log!r}, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC, 0o666)
        except OSError:
            return  # a test of limits
        try:
            posix.write(fd, (name + "\\n").encode())
        except OSError:
            pass
        posix.close(fd)
"""


class Reached(NamedTuple):
    """What is known of a test."""

    functions: frozenset[str]
    """The functions that it reaches, or that are reached while its file is imported."""
    seconds: float
    failed: bool


def instrument(source: str, file: str, log: Path) -> str:
    """The source of a file whose functions write `FILE::FUNCTION` to the log."""
    tree = ast.parse(source)
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            _announce(statement, f"{file}::{statement.name}")
        elif isinstance(statement, ast.ClassDef):
            for method in statement.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    _announce(method, f"{file}::{statement.name}.{method.name}")
    position = sum(_comes_first(statement) for statement in tree.body[:2])
    tree.body[position:position] = ast.parse(_PREFACE.format(call=_CALL, log=str(log))).body
    return ast.unparse(ast.fix_missing_locations(tree))


def _announce(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> None:
    position = int(_is_docstring(function.body[0]))
    function.body.insert(position, ast.parse(f"{_CALL}({name!r})").body[0])


def _comes_first(statement: ast.stmt) -> bool:
    return _is_docstring(statement) or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__")


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


class Recorder:
    """A plugin of pytest: writes a line of JSON for each test, with what it reached, how long it took and whether it failed."""

    def __init__(self, log: Path, record: Path) -> None:
        self._log, self._record = log, record
        self._imported: set[str] = set()
        self._seconds, self._failed = 0.0, False

    def pytest_collection_finish(self) -> None:
        """Keep what the import of the tests reached: a change to it is met by every test."""
        self._imported = self._take()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Record one test."""
        import sys  # noqa: PLC0415 - its attribute is what the functions write to

        sys.__dict__.pop(_CALL, None)
        self._seconds, self._failed = 0.0, False
        done = yield
        line = {
            "test": item.nodeid,
            "functions": sorted(self._take() | self._imported),
            "seconds": round(self._seconds, 3),
            "failed": self._failed,
        }
        with self._record.open("a", encoding="utf-8") as file:
            _ = file.write(json.dumps(line) + "\n")
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of a phase."""
        self._seconds += report.duration
        self._failed = self._failed or not report.passed

    def _take(self) -> set[str]:
        if not self._log.exists():
            return set()
        names = set(self._log.read_text(encoding="utf-8").split())
        self._log.write_text("", encoding="utf-8")
        return names


def read(record: Path) -> dict[str, Reached]:
    """The tests of a file that `Recorder` wrote."""
    found: dict[str, Reached] = {}
    for line in record.read_text(encoding="utf-8").splitlines() if record.exists() else ():
        row = cast("dict[str, object]", json.loads(line))
        functions = frozenset(cast("list[str]", row["functions"]))
        found[str(row["test"])] = Reached(functions, cast("float", row["seconds"]), bool(row["failed"]))
    return found


def choose(tests: dict[str, Reached], function: str, budget_s: float) -> tuple[list[str], int]:
    """The tests that reach a function, those that most likely notice a change first, until they take `budget_s` together; and how many were left out.

    A test whose file has the name of the function's file comes first, then one that reaches few functions, then a quick one; slow tests come last. A test that
    fails without a change is never chosen.
    """
    stem = Path(function.partition("::")[0]).stem

    def rank(name: str) -> tuple[bool, bool, int, float]:
        file = Path(name.partition("::")[0]).stem
        return tests[name].seconds > _SLOW_S, file != f"test_{stem}", len(tests[name].functions), tests[name].seconds

    able = sorted((name for name, test in tests.items() if function in test.functions and not test.failed), key=rank)
    chosen: list[str] = []
    left = budget_s
    for name in able:
        left -= tests[name].seconds
        if left < 0 and chosen:
            break
        chosen.append(name)
    return chosen, len(able) - len(chosen)


def digest(paths: list[Path]) -> str:
    """One word for the content of files."""
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]
