"""The table of known mutants fits the source, and each names tests that there are. `just mutants` runs them."""

import ast
import tomllib
from pathlib import Path

import pytest
from known_mutants import Mutant, load
from mutate import FLOORS, package_of, score

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
        assert all(rules.get("accepted", {}).values()), "a survivor that is accepted has a reason"
    assert package_of(ROOT / "src" / "watchkeeper" / "domain" / "run.py") == "domain"


def test_a_score_counts_what_was_tried() -> None:
    """A mutant that no test reaches is a survivor; one that hangs or breaks the interpreter was noticed."""
    codes = {"a": 0, "b": 1, "c": 33, "d": None, "e": -24, "f": 0}
    found = score(codes, ["f*"])
    assert (found.noticed, found.survivors, found.accepted, found.not_tried) == (2, ["a", "c"], ["f"], 1)
    assert found.percent == 50.0
    assert score({}, []).percent == 0.0
