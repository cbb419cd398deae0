"""The wheel that users install: it holds the program, and nothing that only tests read."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.source import PACKAGE, ROOT, TEST_TOOLS

NOT_PYTHON = frozenset({".sql"})
"""What the program reads beside its own code."""


def built(project: Path, directory: Path) -> set[str]:
    """The names in the wheel of a distribution, which is built in that directory. No network is used."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    _ = subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=100)
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def files(package: Path) -> set[str]:
    """What a package's folder holds, named as in a wheel."""
    found = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(package.parent).as_posix() for path in found}


@pytest.mark.parametrize(
    ("project", "package"), [(ROOT, PACKAGE), (TEST_TOOLS.parents[1], TEST_TOOLS)], ids=["watchkeeper", "testing"]
)
def test_a_wheel_holds_its_package_and_nothing_else(project: Path, package: Path, tmp_path: Path) -> None:
    assert built(project, tmp_path) == files(package)


def test_the_program_brings_no_test_tools_and_no_dump_of_the_schema() -> None:
    names = files(PACKAGE)
    assert {Path(name).suffix for name in names} <= {".py"} | NOT_PYTHON
    assert [name for name in names if "testing" in Path(name).parts or name.endswith("schema.sql")] == []
