"""No module over 400 lines without a reason, none over 600; no function over 50 lines.

A file that is whole at 500 lines is better than two that only read together: name it in the list below with the reason. An entry that is no longer
needed is an error.
"""

from support.source import TEST_TOOLS, Function, Module, modules, parse

MODULE_LINES = 400
EXCUSED_MODULE_LINES = 600
FUNCTION_LINES = 50
EXCUSED_FUNCTION_LINES = 100

LONG_MODULES: dict[str, str] = {
    "app/views/plain.py": "every view as JSON values, one function each: what programs read stands in one place",
    "compose/parts.py": "the object graph, one property for each part",
    "domain/task.py": "every event of a task beside the one decision on them",
    "ports/tables.py": "the parts of one transaction, read together",
    "settings.py": "every setting with its default and its meaning, in one table",
}
"""path → reason"""
LONG_FUNCTIONS: dict[str, str] = {}
"""path:qualified name → reason"""


def every_module() -> list[Module]:
    """The modules of the program and of the test tools."""
    return [*modules(), *modules(TEST_TOOLS)]


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


def over(lengths: dict[str, int], limit: int, excused_limit: int, excused: dict[str, str]) -> list[str]:
    """What breaks its limit, and what is excused without need."""
    limits = {name: excused_limit if name in excused else limit for name in lengths}
    wrong = [
        f"{name} has {lines} lines, {limits[name]} are allowed"
        for name, lines in lengths.items()
        if lines > limits[name]
    ]
    return wrong + [f"{name} needs no exception: remove it" for name in excused if lengths.get(name, 0) <= limit]


def test_no_module_is_too_long() -> None:
    assert over(module_lengths(every_module()), MODULE_LINES, EXCUSED_MODULE_LINES, LONG_MODULES) == []


def test_no_function_is_too_long() -> None:
    assert over(function_lengths(every_module()), FUNCTION_LINES, EXCUSED_FUNCTION_LINES, LONG_FUNCTIONS) == []


def test_each_exception_has_a_reason() -> None:
    assert [name for name, reason in (LONG_MODULES | LONG_FUNCTIONS).items() if not reason.strip()] == []


def test_the_gate_sees_what_is_too_long_and_what_is_excused_in_vain() -> None:
    body = "def outer():\n" + "    pass\n" * 60
    tree = [parse("long.py", body)]
    excused = {"long.py:outer": "a table"}
    assert over(function_lengths(tree), 50, 60, {}) == ["long.py:outer has 61 lines, 50 are allowed"]
    assert over(function_lengths(tree), 50, 61, excused) == []
    assert over(function_lengths(tree), 50, 60, excused) == ["long.py:outer has 61 lines, 60 are allowed"]
    assert over(function_lengths(tree), 61, 90, excused) == ["long.py:outer needs no exception: remove it"]
    assert len(over(module_lengths(tree), 50, 90, {})) == 1
