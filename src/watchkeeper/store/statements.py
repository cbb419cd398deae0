"""Named SQL, kept in `.sql` files: one file per topic, read when a name of that topic is first used.

A file is a list of blocks, each under a line `-- name: topic_what`. The part before the first underscore names the file, so a name says where it lives.
"""

import re
from pkgutil import get_data

_NAME = re.compile(r"^-- name: ([a-z]+_[a-z_]+)$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


def read_text(package: str, file: str) -> str:
    """The text of a file that is shipped inside a package; for a missing one raises FileNotFoundError."""
    # `pkgutil` and not `importlib.resources`: the same answer without a dozen modules that every start of `wk` would pay for.
    data = get_data(package, file)
    if data is None:
        raise FileNotFoundError(f"{package} has no {file}.")
    return data.decode("utf-8")


def parse(text: str) -> dict[str, str]:
    """The blocks of a `.sql` file by their names."""
    parts = _NAME.split(text)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def parameters(sql: str) -> frozenset[str]:
    """The names of a statement's parameters."""
    return frozenset(_PARAMETER.findall(sql))


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
