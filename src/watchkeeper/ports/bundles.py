"""Bundles: archives about one run that can be checked without the database."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A file that goes into a bundle."""

    name: str
    pieces: Iterable[bytes]
    """What it holds; read once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFacts:
    """What a bundle is."""

    path: Path
    size: int
    files: int
    sha256: str
    """The hash of its manifest, which stands for all of it."""
    about: Mapping[str, object]
    """What its manifest says it is about; empty if that cannot be read."""
    faults: tuple[str, ...] = ()
    """What is wrong with it, a sentence each."""


class Bundles(Protocol):
    """Writes and checks bundles."""

    def write(self, file: Path, parts: Iterable[Part], about: Mapping[str, object], *, replace: bool) -> BundleFacts:
        """Write a bundle; a reader sees all of it or nothing.

        Raises:
            Refused: there is something by that name, and `replace` is False.
            StateError: it cannot be written there.
        """
        ...

    def check(self, file: Path) -> BundleFacts:
        """Read a bundle from end to end.

        Raises:
            NotFound: there is no such file.
            BadTask: it is not a bundle.
        """
        ...
