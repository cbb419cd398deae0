"""What a daemon keeps going is begun again whatever it raises."""

import errno
import io
from datetime import UTC, datetime

import anyio
import pytest

from watchkeeper.daemon import steady
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.steady import steadily
from watchkeeper.errors import DatabaseBusy, DatabaseNewer


class _Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def recorded(self, at: datetime) -> datetime:
        return at

    def boottime_s(self) -> float:
        return 0.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady, "_FIRST_WAIT_S", 0.001)


@pytest.mark.parametrize(
    "trouble",
    [
        OSError(errno.EMFILE, "Too many open files"), OSError(errno.ENFILE, "Too many open files in system"),
        OSError(errno.ENOSPC, "No space left on device"), MemoryError(), RuntimeError("can't start new thread"),
        DatabaseBusy("The database is held."),
    ],
    ids=lambda trouble: type(trouble).__name__ + str(getattr(trouble, "errno", "")),
)  # fmt: skip
def test_it_is_begun_again_until_it_is_done(trouble: Exception) -> None:
    """A trouble that repeats is logged and told once, and its end once."""
    out, told, tries = io.StringIO(), [], []

    async def work() -> None:
        tries.append(1)
        if len(tries) < 4:
            raise trouble

    anyio.run(steadily, Log(_Clock(), out), "inbox", work, told.append)
    assert len(tries) == 4 and told == [str(trouble), ""]
    assert out.getvalue().count("tick failed") == 1 and "recovered: loop=inbox after_failures=3" in out.getvalue()


def test_a_newer_database_ends_it() -> None:
    """Nothing can be done with one."""

    async def work() -> None:
        raise DatabaseNewer("It is newer.")

    with pytest.raises(DatabaseNewer):
        anyio.run(steadily, Log(_Clock(), io.StringIO()), "retire", work)
