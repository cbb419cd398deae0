"""A real database and a real runtime for the loops, on a clock that is moved by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from app.stage import Verbs, open_verbs


@pytest.fixture
def verbs(tmp_path: Path) -> Iterator[Verbs]:
    """A fresh stage."""
    with open_verbs(tmp_path) as made:
        yield made
