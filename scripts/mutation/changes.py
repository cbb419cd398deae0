"""The changes that mutmut knows for a file. Only this module sees mutmut, so only it needs the environment of `requirements/mutation.txt`."""

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
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
    source: str
    """The text of the file with the change."""
    lines: list[str]
    """The lines that the change removes and adds, each after `-` or `+`."""

    @property
    def name(self) -> str:
        """File, function and number."""
        return f"{self.reach}#{self.number}"

    @property
    def reach(self) -> str:
        """The key of its function in the record of which test reaches what."""
        return f"{self.file}::{self.function}"


def changed_lines(before: str, after: str) -> list[str]:
    """The lines by which two texts differ, each after `-` or `+`, without its indentation."""
    difference = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [f"{line[0]} {line[1:].strip()}" for line in list(difference)[2:] if not line.startswith("@@")]


def changes_of(root: Path, file: str) -> Iterator[Callable[[], Change]]:
    """Every change of a file, in the order of the file, made when it is called. mutmut changes functions and methods that have no decorator of their own."""
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
            yield partial(_change, module, each, file, function, numbers[function])


def _change(module: Any, mutation: Any, file: str, function: str, number: int) -> Change:  # noqa: ANN401 - what mutmut made
    source = module.deep_replace(mutation.original_node, mutation.mutated_node).code
    return Change(file=file, function=function, number=number, source=source, lines=changed_lines(module.code, source))
