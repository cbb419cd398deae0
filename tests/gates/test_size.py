"""No module over 400 lines, no function over 50: what is longer does two things.

The lists of exceptions may only shrink. An entry says why it is one, and how long it may be at most; an entry that is
no longer needed, or has room to spare, is an error too.
"""

from support.source import Function, Module, modules, parse

MODULE_LINES = 400
FUNCTION_LINES = 50

LONG_MODULES: dict[str, tuple[int, str]] = {}
"""path → (lines, reason)"""
LONG_FUNCTIONS: dict[str, tuple[int, str]] = {}
"""path:qualified name → (lines, reason)"""


def module_lengths(tree: list[Module]) -> dict[str, int]:
    """How many lines each module has."""
    return {module.path: len(module.text.splitlines()) for module in tree}


def function_lengths(tree: list[Module]) -> dict[str, int]:
    """How many lines each function has from its `def` on, without its docstring: telling a story costs nothing."""
    return {f"{module.path}:{name}": _length(node) for module in tree for name, node in module.functions()}


def _length(node: Function) -> int:
    first = node.body[0]
    docstring = 0
    if (
        node.body[0:1]
        and hasattr(first, "value")
        and isinstance(getattr(getattr(first, "value", None), "value", None), str)
    ):
        docstring = (first.end_lineno or first.lineno) - first.lineno + 1
    return (node.end_lineno or node.lineno) - node.lineno + 1 - docstring


def over(lengths: dict[str, int], limit: int, exceptions: dict[str, tuple[int, str]]) -> list[str]:
    """What breaks the limit, and what is excused without need."""
    wrong = [
        f"{name} has {lines} lines, {exceptions.get(name, (limit, ''))[0]} are allowed"
        for name, lines in lengths.items()
        if lines > exceptions.get(name, (limit, ""))[0]
    ]
    loose = [
        f"{name} is excused for {lines} lines and has {lengths.get(name, 0)}: tighten or remove the exception"
        for name, (lines, _) in exceptions.items()
        if lengths.get(name, 0) < lines
    ]
    return wrong + loose


def test_no_module_is_too_long() -> None:
    assert over(module_lengths(modules()), MODULE_LINES, LONG_MODULES) == []


def test_no_function_is_too_long() -> None:
    assert over(function_lengths(modules()), FUNCTION_LINES, LONG_FUNCTIONS) == []


def test_the_gate_sees_what_is_too_long_and_what_is_excused_in_vain() -> None:
    body = "def outer():\n" + "    pass\n" * 60
    tree = [parse("long.py", body)]
    assert over(function_lengths(tree), 50, {}) == ["long.py:outer has 61 lines, 50 are allowed"]
    assert over(function_lengths(tree), 50, {"long.py:outer": (61, "a table")}) == []
    assert len(over(function_lengths(tree), 50, {"long.py:outer": (62, "a table")})) == 1
    assert len(over(module_lengths(tree), 50, {})) == 1
