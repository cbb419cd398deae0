"""The changes that mutmut knows for a file. Only this module sees mutmut, so only it needs the environment of `requirements/mutation.txt`."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change to one function."""

    file: str
    """The file, from the root of the tree."""
    function: str
    """The function or `Class.method` at the top level of the file that contains the change."""
    number: int
    """Its number among the changes of the function, from 1."""
    module: Any = field(repr=False)
    before: Any = field(repr=False)
    after: Any = field(repr=False)

    @property
    def name(self) -> str:
        """File, function and number."""
        return f"{self.file}::{self.function}#{self.number}"

    @property
    def reach(self) -> str:
        """The key of its function in the record of which test reaches what."""
        return f"{self.file}::{self.function}"

    def original(self) -> str:
        """The text of the file without the change."""
        return self.module.code

    def source(self) -> str:
        """The text of the file with the change."""
        return self.module.deep_replace(self.before, self.after).code

    def lines(self) -> list[str]:
        """The lines that the change removes and adds, each after `-` or `+`."""
        return changed_lines(self.original(), self.source())


def changed_lines(before: str, after: str) -> list[str]:
    """The lines by which two texts differ, each after `-` or `+`, without its indentation."""
    difference = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [f"{line[0]} {line[1:].strip()}" for line in list(difference)[2:] if not line.startswith("@@")]


def changes_of(root: Path, file: str) -> Iterator[Change]:
    """Every change of a file, in the order of the file. mutmut changes functions and methods that have no decorator of their own."""
    libcst: Any = import_module("libcst")
    mutmut: Any = import_module("mutmut.mutation.file_mutation")
    module: Any
    found: list[Any]
    module, found, _, _ = mutmut.create_mutations(file, (root / file).read_text(encoding="utf-8"))
    functions: dict[int, str] = {}
    for statement in module.body:
        if isinstance(statement, libcst.FunctionDef):
            functions[id(statement)] = statement.name.value
        elif isinstance(statement, libcst.ClassDef):
            for method in statement.body.body:
                if isinstance(method, libcst.FunctionDef):
                    functions[id(method)] = f"{statement.name.value}.{method.name.value}"
    numbers: dict[str, int] = {}
    for each in found:
        function = functions.get(id(each.contained_by_top_level_function))
        if function is not None:
            numbers[function] = numbers.get(function, 0) + 1
            yield Change(
                file=file,
                function=function,
                number=numbers[function],
                module=module,
                before=each.original_node,
                after=each.mutated_node,
            )
