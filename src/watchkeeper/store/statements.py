"""Named SQL, kept in `.sql` files: one file per topic, read when a name of that topic is first used.

A file is a list of blocks, each under a line `-- name: topic_what`. The part before the first underscore names the file, so a name says where it lives. What
every database understands stands in `store/sql/`, once; a database's own `sql/` holds only what it must say in its own way.

An INSERT that may meet a taken key ends in `ON CONFLICT DO NOTHING`, without naming the key: that no row was inserted is the conflict. A refused statement
would spoil a transaction of PostgreSQL, and a taken key is an ordinary answer that the adapters handle.
"""

import os
import re
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.machinery import SourceFileLoader

SHARED = "watchkeeper.store"
"""The package whose `sql` folder holds what every database understands."""

_NAME = r"(?m)^-- name: ([a-z]+_[a-z_]+)$"
_PARAMETER = r"(?<![:\w]):([a-z_]+)"


def read_text(package: str, file: str) -> str:
    """The text of a file that is shipped inside a package; for a missing one raises FileNotFoundError."""
    # As `pkgutil` does it; `importlib.resources`, and that too, would cost every start of `wk` modules that nothing else needs.
    module = import_module(package)
    loader = cast("SourceFileLoader", module.__loader__)
    return loader.get_data(folder(package, file)).decode("utf-8")


def folder(package: str, path: str) -> str:
    """Where a file or folder is that is shipped inside a package."""
    module = import_module(package)
    return os.path.join(os.path.dirname(module.__file__ or ""), *path.split("/"))  # noqa: PTH118, PTH120 - a loader takes a text


def parse(text: str) -> dict[str, str]:
    """The blocks of a `.sql` file by their names."""
    parts = re.split(_NAME, text)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def conflicts_without_row(sql: str) -> bool:
    """Whether a key is taken if this statement inserts no row."""
    return sql.endswith("ON CONFLICT DO NOTHING;")


def parameters(sql: str) -> frozenset[str]:
    """The names of a statement's parameters."""
    return frozenset(re.findall(_PARAMETER, sql))


class Statements:
    """The named statements of one database."""

    def __init__(self, package: str) -> None:
        """Take them from the `sql` folder of `package`."""
        self._package = package
        self._known: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        """The SQL of that name; an unknown name raises KeyError."""
        sql = self._known.get(name)
        if sql is None:
            self._known |= of_topic(self._package, name.partition("_")[0])
            sql = self._known[name]
        return sql


def of_topic(package: str, topic: str) -> dict[str, str]:
    """The statements of one topic: those of every database, and those of the one in `package`. None for a topic that there is not."""
    found: dict[str, str] = {}
    for folder in (SHARED, package):
        try:
            text = read_text(folder, f"sql/{topic}.sql")
        except FileNotFoundError:
            continue
        found |= parse(text)
    return found
