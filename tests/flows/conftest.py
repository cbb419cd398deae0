"""A rig for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A scratch installation whose processes are all gone afterwards."""
    made = Rig(tmp_path / "rig")
    yield made
    made.close()
