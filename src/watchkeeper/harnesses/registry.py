"""Harnesses by name: ours, those that users describe in a file, and those that they install.

Ours are loaded by import path when they are asked for, so that a command that starts nothing loads none. A file is
`NAME.toml` in the user's own directory, see `described`; it is read at each question, so a change of it counts at once. The
others are entry points of the group `watchkeeper.harnesses`; looking them up reads the metadata of every installed
distribution, so that is done last, or to list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from watchkeeper.domain.suggestion import did_you_mean
from watchkeeper.errors import HarnessError, UnknownHarness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from importlib.metadata import EntryPoint
    from pathlib import Path

    from watchkeeper.harnesses.program import Programs
    from watchkeeper.ports.harness import Harness

GROUP = "watchkeeper.harnesses"

BUILT_IN = {
    "claude": "watchkeeper.harnesses.claude:Claude",
    "codex": "watchkeeper.harnesses.codex:Codex",
    "command": "watchkeeper.harnesses.command:CommandHarness",
    "demo": "watchkeeper.harnesses.demo:Demo",
}
"""Name → where its class is."""

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_METHODS = ("find", "rights", "check", "plan", "reader", "takeover")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A name that can be given, and the harness or why there is none."""

    name: str
    harness: Harness | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A harness that is described or installed and cannot be used, because another one has its name, or because that is not a name."""

    name: str
    source: str
    """The file, or the entry point."""
    why: str
    """The rest of a sentence about it."""

    @property
    def detail(self) -> str:
        """A sentence for people."""
        return f"'{self.source}' does not count: {self.why}."


def installed() -> Iterable[EntryPoint]:
    """The entry points of users' own harnesses."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - `wk run` with a built-in one does not need it

    return entry_points(group=GROUP)


class Registry:
    """Every harness there is; each that is a class is made once and kept."""

    def __init__(self, found: Callable[[], Iterable[EntryPoint]] = installed, directory: Path | None = None) -> None:
        """Look installed harnesses up with `found`, and files in `directory`."""
        self._found = found
        self._directory = directory
        self._made: dict[str, Harness] = {}
        self._programs: Programs | None = None

    def get(self, name: str) -> Harness:
        """The harness of that name.

        Raises:
            UnknownHarness: there is none; says which come close and which there are.
            HarnessError: it is a user's own and cannot be loaded.
        """
        if name not in BUILT_IN and name in self._files():
            return self._described(name)
        if name not in self._made:
            self._made[name] = self._ours(name) if name in BUILT_IN else self._theirs(name)
        return self._made[name]

    def names(self) -> list[str]:
        """Every name that can be given, sorted."""
        return sorted({*BUILT_IN, *self._files(), *(point.name for point in self._found())})

    def ignored(self) -> list[Ignored]:
        """Every harness of the user's own that another one hides, or whose name cannot be given."""
        rows = [each for file in self._toml() if (each := _ignored_file(file)) is not None]
        files = self._files()
        for point in self._found():
            winner = (
                "the built-in harness"
                if point.name in BUILT_IN
                else f"'{files[point.name]}'"
                if point.name in files
                else ""
            )
            if winner:
                rows.append(Ignored(name=point.name, source=point.value, why=f"{winner} has its name"))
        return rows

    def ignored_file(self, name: str) -> Ignored | None:
        """The file that describes a harness of that name and does not count, because the built-in one has its name. Looks at one file name."""
        file = self._directory / f"{name}.toml" if self._directory is not None and name in BUILT_IN else None
        return None if file is None or not file.exists() else _ignored_file(file)

    def listed(self) -> list[Listed]:
        """Every harness; one that cannot be loaded is listed with its reason and spoils no other."""
        rows: list[Listed] = []
        for name in self.names():
            try:
                rows.append(Listed(name=name, harness=self.get(name)))
            except HarnessError as error:
                rows.append(Listed(name=name, harness=None, problem=str(error)))
        return rows

    def _ours(self, name: str) -> Harness:
        module, _, attribute = BUILT_IN[name].partition(":")
        return cast("Harness", getattr(import_module(module), attribute)())

    def _files(self) -> dict[str, Path]:
        """The files that describe harnesses, by name."""
        return {file.stem: file for file in self._toml() if _NAME.fullmatch(file.stem)}

    def _toml(self) -> list[Path]:
        return sorted(self._directory.glob("*.toml")) if self._directory is not None else []

    def _described(self, name: str) -> Harness:
        from watchkeeper.harnesses.described import DescribedHarness, read  # noqa: PLC0415 - most have no such file
        from watchkeeper.harnesses.program import Programs  # noqa: PLC0415 - as above

        self._programs = self._programs or Programs()  # remembers versions
        file = self._files()[name]
        return DescribedHarness(name, read(file), str(file), self._programs)

    def _theirs(self, name: str) -> Harness:
        points = [point for point in self._found() if point.name == name]
        if not points:
            raise self._unknown(name)
        values = sorted({point.value for point in points})
        if len(values) > 1:
            msg = f"Several installed packages bring a harness named '{name}': {', '.join(values)}."
            raise HarnessError(msg, hint="Uninstall all but one of them.")
        try:
            harness = points[0].load()()
        except Exception as error:
            # A plug-in is foreign code; an error in it concerns this one name only.
            msg = f"The harness '{name}' ({points[0].value}) cannot be loaded: {type(error).__name__}: {error}."
            raise HarnessError(msg, hint=_HINT) from error
        problem = _problem(name, harness)
        if problem:
            msg = f"The harness '{name}' ({points[0].value}) is none: {problem}."
            raise HarnessError(msg, hint=_HINT)
        return cast("Harness", harness)

    def _unknown(self, name: str) -> UnknownHarness:
        names = self.names()
        return UnknownHarness(
            f"There is no harness '{name}'.{did_you_mean(name, names)}", hint=f"There are: {', '.join(names)}."
        )


_HINT = "Mend or uninstall the package that brings it; other harnesses are not affected."


def _ignored_file(file: Path) -> Ignored | None:
    """Why a file describes no harness that can be named; None if it does."""
    if file.stem in BUILT_IN:
        return Ignored(name=file.stem, source=str(file), why="the built-in harness has its name: rename the file")
    if _NAME.fullmatch(file.stem) is None:
        return Ignored(
            name=file.stem,
            source=str(file),
            why="its name must be lower-case letters, digits and dashes, and begin with a letter",
        )
    return None


def _problem(name: str, harness: object) -> str:
    missing = [method for method in _METHODS if not callable(getattr(harness, method, None))]
    if missing:
        return f"it has no method {', '.join(missing)}"
    called = getattr(harness, "name", None)
    return "" if called == name else f"it calls itself {called!r}"
