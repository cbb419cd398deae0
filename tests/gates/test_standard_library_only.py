"""The shim, the demo agent and the domain import the standard library and themselves; the domain one library that only computes beside, and nothing else.

The shim runs alone from a zip file, with whatever Python there is; the domain is checked by machine.
"""

import ast
import sys
from pathlib import PurePosixPath

import pytest
from support.source import Module, modules, parse

ALONE = {
    "shim": ("watchkeeper.shim",),
    "demo": ("watchkeeper.demo",),
    "domain": ("watchkeeper.domain", "watchkeeper.errors", "ahocorasick_rs"),
}
"""Package → what else it may import: our own packages, and a search that does nothing but compute."""


def foreign_imports(module: Module, ours: tuple[str, ...]) -> list[str]:
    """What a module imports that is neither the standard library's nor allowed. Relative imports stay inside."""
    names: list[str] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return [
        name
        for name in names
        if name.partition(".")[0] not in sys.stdlib_module_names
        and not any(name == own or name.startswith(f"{own}.") for own in ours)
    ]


@pytest.mark.parametrize("package", ALONE)
def test_it_stands_alone(package: str) -> None:
    own = [module for module in modules() if PurePosixPath(module.path).parts[0] == package]
    assert own, "the package has moved"
    assert {m.path: found for m in own if (found := foreign_imports(m, ALONE[package]))} == {}


def test_the_gate_sees_what_is_foreign() -> None:
    module = parse(
        "x.py", "import os\nimport apsw\nfrom watchkeeper.ports import store\nfrom watchkeeper.shim import a\n"
    )
    assert foreign_imports(module, ("watchkeeper.shim",)) == ["apsw", "watchkeeper.ports.store"]
