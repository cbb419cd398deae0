"""Where a run works, as the store compares it."""

from pathlib import Path

import pytest

from watchkeeper.app.beside import place_of
from watchkeeper.ports.workspace import PLACE


@pytest.mark.parametrize(
    ("before", "place"),
    [
        ({PLACE: "/a/place", "top": "/a/top"}, "/a/place"),
        ({PLACE: "", "top": "/"}, "/"),
        ({}, "{}/"),
        (None, "{}/"),
    ],
)
def test_the_recorded_place_wins_over_the_checkout_and_that_over_the_directory(
    tmp_path: Path, before: dict[str, object] | None, place: str
) -> None:
    assert place_of(before, str(tmp_path)) == place.format(tmp_path.resolve())
