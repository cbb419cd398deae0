"""The import contracts of pyproject.toml are kept by the real tree, and each of them has been seen broken.

A directory `fixtures/<contract>` or `fixtures/<contract>-<what>` is laid over an empty copy of the package's layout and
checked with the contract of that name as it stands in pyproject.toml. The empty layout itself must pass, so what turns
the check red is the fixture and nothing else.
"""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.source import PACKAGE, ROOT

FIXTURES = sorted(path for path in (Path(__file__).parent / "fixtures").iterdir() if path.is_dir())
CONTRACTS = [
    contract["id"]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
]


def contract_of(fixture: Path) -> str:
    """The id of the contract that a fixture breaks."""
    return fixture.name.partition("-")[0]


def check(directory: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    """Check the package `watchkeeper` that is found in `directory`."""
    chosen = [word for contract in contracts for word in ("--contract", contract)]
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache", *chosen]
    return subprocess.run(
        [*command, str(ROOT / "pyproject.toml")], cwd=directory, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """The package with all its top-level modules, every one of them empty."""
    for path in [PACKAGE / "__init__.py", *PACKAGE.glob("*.py"), *PACKAGE.glob("*/__init__.py")]:
        empty = tmp_path / "watchkeeper" / path.relative_to(PACKAGE)
        empty.parent.mkdir(parents=True, exist_ok=True)
        empty.touch()
    return tmp_path


def test_the_real_tree_keeps_every_contract() -> None:
    result = check(PACKAGE.parent)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(CONTRACTS)} kept, 0 broken" in result.stdout


def test_an_empty_layout_keeps_every_contract(layout: Path) -> None:
    result = check(layout)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.name)
def test_a_contract_is_broken_by_its_fixture(fixture: Path, layout: Path) -> None:
    shutil.copytree(fixture, layout / "watchkeeper", dirs_exist_ok=True)
    result = check(layout, contract_of(fixture))
    assert result.returncode == 1, result.stdout + result.stderr
    assert "0 kept, 1 broken" in result.stdout


def test_every_contract_has_a_fixture() -> None:
    assert {contract_of(fixture) for fixture in FIXTURES} == set(CONTRACTS)
