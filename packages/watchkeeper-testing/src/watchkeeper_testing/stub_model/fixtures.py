"""Pytest fixtures: put `watchkeeper_testing.stub_model.fixtures` into `pytest_plugins`."""

from collections.abc import Iterator

import pytest

from watchkeeper_testing.stub_model.server import StubModel


@pytest.fixture
def stub_model() -> Iterator[StubModel]:
    """A stub model that this test has for itself, served by threads."""
    with StubModel() as stub:
        yield stub
