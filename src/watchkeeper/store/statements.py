"""Named SQL, kept in `.sql` files: one file per topic, read when a name of that topic is first used.

A file is a list of blocks, each under a line `-- name: topic_what`. The part before the first underscore names the file, so a name says where it lives.
"""

import os
import re
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.machinery import SourceFileLoader

_NAME = r"(?m)^-- name: ([a-z]+_[a-z_]+)$"
_PARAMETER = r"(?<![:\w]):([a-z_]+)"


def read_text(package: str, file: str) -> str:
    """The text of a file that is shipped inside a package; for a missing one raises FileNotFoundError."""
    # As `pkgutil` does it; `importlib.resources`, and that too, would cost every start of `wk` modules that nothing else needs.
    module = import_module(package)
    loader = cast("SourceFileLoader", module.__loader__)
    return loader.get_data(os.path.join(os.path.dirname(module.__file__ or ""), *file.split("/"))).decode("utf-8")  # noqa: PTH118, PTH120 - a loader takes a text


def parse(text: str) -> dict[str, str]:
    """The blocks of a `.sql` file by their names."""
    parts = re.split(_NAME, text)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


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
            topic = name.partition("_")[0]
            self._known |= parse(read_text(self._package, f"sql/{topic}.sql"))
            sql = self._known[name]
        return sql
