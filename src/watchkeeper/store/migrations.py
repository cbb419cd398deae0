"""Numbered migrations, forward only, each recorded with the hash of its text: what databases have in common of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from watchkeeper.crash import crashpoint
from watchkeeper.errors import DatabaseUnusable
from watchkeeper.store.statements import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from watchkeeper.store.rows import Value


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


def shipped(package: str, name: str) -> Migration:
    """A step whose text is in the `migrations` folder of a package."""
    return Migration(name=name, read=partial(read_text, package, f"migrations/{name}.sql"))


def missing(schema: Schema, known: Mapping[Value, str], apply: Callable[[int, str, str, str], None]) -> None:
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
