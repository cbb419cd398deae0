"""Every column of every table torn in turn, on both databases: one task suffers with a reason, and everything else continues."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.torn import PostgresTearing, SqliteTearing, Tear, tears, world

MUST = {
    "seen start-b", "claimed queued-b", "claimed queued-c", "started start-b", "started start-c", "settled ended-b",
    "settled ended-c", "removed done-b", "removed done-c", "listed queued-b", "listed start-c", "told queued-b",
}  # fmt: skip
"""What continues whatever is torn about a task of the first group."""


@pytest.fixture(scope="module")
def sqlite_tearing(tmp_path_factory: pytest.TempPathFactory) -> SqliteTearing:
    return SqliteTearing(tmp_path_factory.mktemp("tearing"))


@pytest.fixture(scope="module")
def postgres_tearing() -> Iterator[PostgresTearing]:
    tearing = PostgresTearing()
    yield tearing
    tearing.close()


def missed(tearing: SqliteTearing | PostgresTearing, tear: Tear, root: Path) -> list[str]:
    """What did not continue, and what went wrong."""
    with tearing.torn(tear) as store:
        if store is None:
            return []
        there = world(store, root)
        moved = set(there.live())
        _ = there.damage()
        return [f"{tear}: {each}" for each in (*sorted(MUST - moved), *there.problems)]


@pytest.mark.parametrize("part", range(6))
def test_a_torn_column_of_sqlite(sqlite_tearing: SqliteTearing, tmp_path: Path, part: int) -> None:
    wrong: list[str] = []
    for tear in tears(sqlite_tearing.columns())[part::6]:
        wrong += missed(sqlite_tearing, tear, tmp_path)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("part", range(4))
def test_a_torn_column_of_postgres(postgres_tearing: PostgresTearing, tmp_path: Path, part: int) -> None:
    """The same readers; a server keeps texts whole, so a sixth of the columns is torn, and others than a file's."""
    wrong: list[str] = []
    for tear in tears(postgres_tearing.columns(), ('{"torn', "gone_mad"))[2::6][part::4]:
        wrong += missed(postgres_tearing, tear, tmp_path)
    assert not wrong, "\n".join(wrong)
