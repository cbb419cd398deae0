"""The source tree, read as text and as syntax, for the gates."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "watchkeeper"
TEST_TOOLS = ROOT / "packages" / "watchkeeper-testing" / "src" / "watchkeeper_testing"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One file of a package."""

    path: str
    """Relative to the package, with slashes."""
    text: str
    tree: ast.Module

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Every function with its qualified name, methods and inner functions among them."""
        yield from _functions(self.tree, "")


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield f"{prefix}{child.name}", child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def modules(package: Path = PACKAGE, *, without: frozenset[str] = frozenset()) -> list[Module]:
    """Every module of a package, except in the top-level packages named."""
    found = [path for path in sorted(package.rglob("*.py")) if path.relative_to(package).parts[0] not in without]
    return [parse(path.relative_to(package).as_posix(), path.read_text(encoding="utf-8")) for path in found]


def parse(path: str, text: str) -> Module:
    """A module from its text."""
    return Module(path=path, text=text, tree=ast.parse(text, path))


def called(call: ast.Call) -> str:
    """What is called, as written: `os.link`, `self.store.transact`; an empty string for anything but names and dots."""
    parts: list[str] = []
    node: ast.expr = call.func
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "")
    return ".".join(reversed(parts))
