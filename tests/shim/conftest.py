"""Executions for each test, and the program, built once."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from shim.stage import Bench

from watchkeeper.runtimes.shim_image import install_shim


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim as it is installed."""
    return install_shim(tmp_path_factory.mktemp("shims"))


@pytest.fixture
def bench(image: Path, tmp_path: Path) -> Iterator[Bench]:
    """Makes executions, and ends them when the test is over."""
    # A socket's address may have a hundred bytes; pytest's directories are longer.
    made = Bench(image, tmp_path, Path(tempfile.mkdtemp(prefix="wks-")))
    yield made
    made.close()
