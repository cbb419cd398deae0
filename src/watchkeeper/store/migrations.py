"""Numbered migrations, forward only, each recorded with the hash of its text: what databases have in common of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from watchkeeper.crash import crashpoint
from watchkeeper.errors import DatabaseUnusable
from watchkeeper.store.statements import SHARED, folder, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from watchkeeper.store.rows import SqlValue


_DIGITS = 4
"""Of the number that the name of a step begins with."""


# A named tuple, as in `settings`: every command waits for the class.
class Migration(NamedTuple):
    """One step of the schema."""

    name: str
    """The file's name, `0001_first`."""
    read: Callable[[], str]
    """Its SQL; read only when it is needed."""


class Schema(NamedTuple):
    """All steps, oldest first."""

    migrations: tuple[Migration, ...]

    @property
    def number(self) -> int:
        """The number of the newest step."""
        return len(self.migrations)


def shipped(package: str, translate: Callable[[str], str] | None = None) -> Schema:
    """All steps of one database, by the names of their files.

    A step stands in the `migrations` folder of `store`, once for every database, in SQLite's words. What a database must say in its own way stands in the
    `migrations` folder of its own package instead.

    Args:
        package: the database's package.
        translate: from SQLite's words into the database's; None: it understands them.
    """
    own = [_step(package, name) for name in _names(package)]
    shared = [_step(SHARED, name, translate) for name in _names(SHARED)]
    return Schema(migrations=tuple(sorted((*own, *shared), key=lambda step: step.name)))


def _names(package: str) -> list[str]:
    """The names of the steps in a package's folder, without their endings."""
    try:
        found = os.listdir(folder(package, "migrations"))  # noqa: PTH208 - `pathlib` costs more at the start of every command
    except FileNotFoundError:
        return []
    return [file.removesuffix(".sql") for file in found if _is_step(file)]


def _is_step(file: str) -> bool:
    """Whether a file is a step, such as `0001_first.sql`. Every command asks, and a regular expression costs more than the rest of the question."""
    number, _, words = file.removesuffix(".sql").partition("_")
    return file.endswith(".sql") and len(number) == _DIGITS and number.isdecimal() and words.replace("_", "a").isalpha()


def _step(package: str, name: str, translate: Callable[[str], str] | None = None) -> Migration:
    def read() -> str:
        text = read_text(package, f"migrations/{name}.sql")
        return text if translate is None else translate(text)

    return Migration(name=name, read=read)


def missing(schema: Schema, known: Mapping[SqlValue, str], apply: Callable[[int, str, str, str], None]) -> None:
    """Call `apply(number, name, text, hash)` for each step that is not among the `known` ones, which are hashes by number.

    Raises:
        DatabaseUnusable: a step that was applied once is another one now.
    """
    import hashlib  # noqa: PLC0415 - only a new or an older database needs it

    for number, step in enumerate(schema.migrations, start=1):
        text = step.read()
        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
        if number in known:
            if known[number] != digest:
                raise DatabaseUnusable(
                    f"The database was made by another build: its step {step.name} differs from ours.",
                    hint="Use the version of Watchkeeper that made it.",
                )
            continue
        crashpoint(f"migration.{step.name}.before")
        apply(number, step.name, text, digest)
        crashpoint(f"migration.{step.name}.after")
