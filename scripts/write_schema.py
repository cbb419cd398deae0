"""Write `docs/schema.sql`, which a reader looks at, anew from the migrations: `just tables`."""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from watchkeeper.store.sqlite.schema import dump
from watchkeeper.store.sqlite.store import SqliteStore

FILE = Path(__file__).parents[1] / "docs" / "schema.sql"


def main() -> None:
    """Apply every migration to an empty database, and write what it tells of itself."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        store = SqliteStore.open(place / "wk.db", place / "write.lock", create=True, upgrade=True)
        if store._connection is not None:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the file shows the inside
            _ = FILE.write_text(dump(store._connection), encoding="utf-8")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the same
        store.close()


if __name__ == "__main__":
    main()
