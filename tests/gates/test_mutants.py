"""The table of known mutants fits the source, and each names tests that there are; `just mutants` runs them. `just mutate` samples and counts correctly."""

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from known_mutants import Mutant, load
from mutate import FLOORS, Accepted, Result, keep_noticed, package_of, results, score
from mutation import cell
from mutation.changes import changed_lines
from mutation.engine import spread
from mutation.reach import Reached, choose, instrument

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = load()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_source_and_is_python(mutant: Mutant, tmp_path: Path) -> None:
    copy = tmp_path / mutant.file
    copy.parent.mkdir(parents=True)
    _ = copy.write_bytes((ROOT / mutant.file).read_bytes())
    mutant.apply(tmp_path)
    assert ast.dump(ast.parse(copy.read_text(encoding="utf-8"))) != ast.dump(
        ast.parse((ROOT / mutant.file).read_text(encoding="utf-8"))
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_that_notice_it_exist(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        functions = {
            node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)
        }
        assert name in functions, test


def test_every_mutant_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)


def test_a_mutant_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n", encoding="utf-8")
    for old in ("x = 1", "x = 2"):
        with pytest.raises(ValueError, match="does not fit"):
            Mutant("a", "a.py", old, "", ("t",)).apply(tmp_path)


def test_every_floor_is_of_a_package_that_is_there_and_names_its_tests() -> None:
    packages = tomllib.loads(FLOORS.read_text(encoding="utf-8"))["package"]
    for name, rules in packages.items():
        assert (ROOT / "src" / "watchkeeper" / name).is_dir()
        assert 0 < rules["floor"] <= 100
        assert rules["tests"] and all((ROOT / test).exists() for test in rules["tests"])
        for file, reason in rules.get("left_out", {}).items():
            assert (ROOT / file).is_file() and reason
    assert package_of(ROOT / "src" / "watchkeeper" / "domain" / "run.py") == "domain"


def test_a_survivor_that_is_accepted_has_a_reason_and_its_line_is_in_the_source() -> None:
    packages = tomllib.loads(FLOORS.read_text(encoding="utf-8"))["package"]
    for row in (row for rules in packages.values() for row in rules.get("accepted", [])):
        accepted = Accepted(**row)
        assert accepted.reason
        assert accepted.old.strip() in (ROOT / accepted.file).read_text(encoding="utf-8"), accepted


def result(name: str, noticed: str = "", lines: tuple[str, ...] = ("- x = 1", "+ x = 2")) -> Result:
    return Result(f"src/a.py::{name}", noticed, 3, 0, list(lines))


def test_a_score_leaves_out_what_is_accepted() -> None:
    accepted = Accepted("src/a.py", "x = 1", "  x = 3", "Both are the same.")
    found = score([result("f#1"), result("f#2", "test_f"), result("f#3", lines=("- x = 1", "+ x = 3"))], [accepted])
    assert (found.noticed, [each.name for each in found.survivors], len(found.accepted)) == (1, ["src/a.py::f#1"], 1)
    assert found.percent == 50.0
    assert score([], []).percent == 0.0


@pytest.mark.parametrize(
    ("noticed", "tried", "low", "high"), [(90, 100, 82.6, 94.5), (100, 100, 96.3, 100.0), (0, 0, 0.0, 100.0)]
)
def test_a_sample_has_wilsons_interval(noticed: int, tried: int, low: float, high: float) -> None:
    """The expected numbers are from a table of the interval."""
    all_ = [result(f"f#{number}", "test_f" if number < noticed else "") for number in range(tried)]
    assert score(all_, []).interval == pytest.approx((low, high), abs=0.05)


def test_a_sample_lies_evenly_over_the_files_and_is_the_same_for_a_seed() -> None:
    files = [(file, number) for file, size in (("a", 300), ("b", 90), ("c", 10)) for number in range(size)]
    taken = spread(files, 40, seed=7)
    assert taken == spread(files, 40, seed=7) != spread(files, 40, seed=8)
    assert len(set(taken)) == 40
    assert [sum(file == name for file, _ in taken) for name in "abc"] == [30, 9, 1]
    assert spread(files, 1000, seed=7) == files


def test_another_run_keeps_what_was_noticed_in_the_same_source(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    keep_noticed(record, "s1")
    rows = [
        {"name": name, "noticed": by, "tests": 1, "left_out": 0, "lines": []} for name, by in (("a", "t"), ("b", ""))
    ]
    with record.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in [{"wanted": ["a", "b"]}, *rows])
    assert [each.name for each in results(record)] == ["a", "b"]
    keep_noticed(record, "s1")
    assert results(record) == []
    with record.open("a", encoding="utf-8") as file:
        _ = file.write(json.dumps({"wanted": ["a", "c"]}) + "\n")
    assert [each.name for each in results(record)] == ["a"]
    keep_noticed(record, "s2")
    assert results(record) == []


SOURCE = '''"""A module."""
from __future__ import annotations
import sys

def first(x):
    """A docstring stays the first statement."""
    return second(x)

def second(x):
    return x

class Pair:
    def third(self):
        def inner():
            return second(1)
        return inner()
'''


def test_a_process_that_a_test_starts_records_each_function_that_it_reaches_once(tmp_path: Path) -> None:
    """Also without an environment and site-packages, as a shim runs."""
    log = tmp_path / "log"
    code = instrument(SOURCE, "m.py", log) + "\nassert first.__doc__\nfirst(1), first(2), Pair().third()\n"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], env={}, check=True)
    assert log.read_text().split() == ["m.py::first", "m.py::second", "m.py::Pair.third"]


def test_the_tests_of_a_change_reach_it_and_the_most_likely_comes_first() -> None:
    both, one = frozenset({"src/run.py::f", "src/run.py::g"}), frozenset({"src/run.py::f"})
    tests = {
        "tests/test_all.py::wide": Reached(both, 0.1, failed=False),
        "tests/test_all.py::narrow": Reached(one, 0.2, failed=False),
        "tests/test_all.py::slow": Reached(one, 9.0, failed=False),
        "tests/test_run.py::own": Reached(both, 0.2, failed=False),
        "tests/test_run.py::red": Reached(one, 0.1, failed=True),
        "tests/test_run.py::elsewhere": Reached(frozenset({"src/run.py::g"}), 0.1, failed=False),
    }
    own, narrow, wide, slow = (
        f"tests/test_{name}" for name in ("run.py::own", "all.py::narrow", "all.py::wide", "all.py::slow")
    )
    assert choose(tests, "src/run.py::f", 20.0) == ([own, narrow, wide, slow], 0)
    assert choose(tests, "src/run.py::f", 0.45) == ([own, narrow], 2)
    assert choose(tests, "src/run.py::h", 20.0) == ([], 0)


def test_a_change_is_known_by_its_lines() -> None:
    assert changed_lines("a\n    b\nc\n", "a\n    B\nc\n") == ["- b", "+ B"]
    assert changed_lines("a\nb\n", "a\n") == ["- b"]


def test_changed_code_runs_only_in_a_namespace_of_its_own() -> None:
    """The engine ends every other process that it sees."""
    with pytest.raises(RuntimeError, match="namespace of its own"):
        cell.enter()


def test_changed_code_sees_no_other_process_and_writes_only_to_the_copy(tmp_path: Path) -> None:
    copy = tmp_path / "a copy"
    copy.mkdir()
    (tmp_path / "beside").write_text("kept")
    script = 'echo $$; ls -d /proc/[0-9]* | wc -l; echo x >inside; echo x >/tmp/anything; echo x >"$0" && echo written'
    done = subprocess.run(
        cell.command(copy, ["sh", "-c", script, str(ROOT / "written")]), capture_output=True, text=True, check=False
    )
    pid, processes = done.stdout.split()
    assert pid == "1" and int(processes) < 5
    assert (copy / "inside").read_text() == "x\n"
    assert not (ROOT / "written").exists() and (tmp_path / "beside").read_text() == "kept"
