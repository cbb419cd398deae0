"""Every durable step can be died at: the function that takes it also names a crash point (see watchkeeper/crash.py).

The scan is by syntax. It knows a step by the name of the call, and wants a `crashpoint(...)` in the same function.
"""

import ast
import re
from collections import Counter

from support.source import Function, Module, called, modules, parse

STEPS = frozenset({
    "os.link", "os.rename", "os.replace", "os.fsync", "os.fdatasync", "os.fork", "os.posix_spawn",
    "os.kill", "os.killpg", "signal.pidfd_send_signal", "_signal.pidfd_send_signal", "subprocess.Popen", "atomic.sync_directory",
})  # fmt: skip
METHODS = frozenset({"rename", "hardlink_to"})  # of a Path

EXCUSED: dict[str, str] = {
    "crash.py:crashpoint": "it is the dying itself",
    "shim/crash.py:crashpoint": "it is the dying itself",
    "runtimes/process.py:ProcessRuntime.prepare": "syncs again what an earlier try renamed; `prepare.parent` is the same place",
    "runtimes/state_directory.py:StateDirectory.open": "empty directories, which whoever comes next makes again",
    "shim/records.py:_write_temporary": "both its callers name a point before and after it",
    "shim/system.py:signal_through_pidfd": "`signal_all`, its one caller, names the points",
    "runtimes/atomic.py:sync_directory": "the callers name the point; their calls of it are held to that",
}
"""path:function → why it needs no crash point. The list may only shrink."""

WITHOUT = frozenset({"demo"})
"""Stand-ins for programs of others: they may do as they like."""


def steps_without_points(module: Module) -> list[str]:
    """The functions that take a durable step and name no point, and steps outside of functions."""
    wrong = [
        f"{module.path}:{name}"
        for name, function in module.functions()
        if any(is_step(call) for call in own_calls(function))
        and not any(is_point(call) for call in own_calls(function))
    ]
    if any(is_step(call) for call in own_calls(module.tree)):
        wrong.append(f"{module.path}:")
    return wrong


def own_calls(node: ast.Module | Function) -> list[ast.Call]:
    """The calls in a function, not those of the functions inside it."""
    found: list[ast.Call] = []
    rest: list[ast.AST] = list(node.body)
    while rest:
        each = rest.pop()
        if isinstance(each, Function):
            continue
        if isinstance(each, ast.Call):
            found.append(each)
        rest.extend(ast.iter_child_nodes(each))
    return found


def is_step(call: ast.Call) -> bool:
    """Does this call change what outlives us?"""
    name = called(call)
    method = isinstance(call.func, ast.Attribute) and not name.startswith("os.")
    if method and name.rpartition(".")[2] in METHODS:
        return True
    if method and name.endswith(".replace"):  # of a Path it has one argument; of a text two; of a time only named ones
        return len(call.args) == 1 and not call.keywords
    first = call.args[0] if call.args else None
    commits = (
        isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value.upper().startswith("COMMIT")
    )
    return name in STEPS or (commits and name.endswith("execute"))


def is_point(call: ast.Call) -> bool:
    """Is this a crash point?"""
    return called(call).rpartition(".")[2] == "crashpoint"


def point_names(module: Module) -> list[str]:
    """The names of the points, as written; of an f-string its source."""
    calls = (node for node in ast.walk(module.tree) if isinstance(node, ast.Call) and is_point(node))
    return [_name(call.args[0]) for call in calls]


def _name(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)


def test_every_durable_step_has_a_crash_point() -> None:
    wrong = {name for module in modules(without=WITHOUT) for name in steps_without_points(module)}
    assert wrong - EXCUSED.keys() == set()
    assert EXCUSED.keys() - wrong == set(), "excused without need"


def test_every_crash_point_has_a_name_of_its_own() -> None:
    names: list[str] = []
    for module in modules(without=WITHOUT):
        for function, node in module.functions():
            found = [_name(call.args[0]) for call in own_calls(node) if is_point(call)]
            # A name that is put together belongs to a helper: its callers give the part that makes them different.
            names += [f"{module.path}:{function} {name}" if name.startswith("f'") else name for name in found]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_every_crash_point_is_before_or_after_something() -> None:
    names = [name for module in modules(without=WITHOUT) for name in point_names(module)]
    assert [name for name in names if not re.search(r"\.(before|after)(_\w+)?'?$", name)] == []


def test_the_gate_sees_a_step_without_a_point() -> None:
    text = "import os\ndef good():\n    crashpoint('a.before')\n    os.link(1, 2)\ndef bad(p):\n    p.rename('x')\n"
    assert steps_without_points(parse("x.py", text)) == ["x.py:bad"]
    assert steps_without_points(parse("x.py", "def f(s, p):\n    s.replace('a', 'b')\n    p.replace('a')\n")) == [
        "x.py:f"
    ]
    assert steps_without_points(parse("x.py", "def f(db):\n    db.execute('COMMIT')\n")) == ["x.py:f"]
    assert steps_without_points(parse("x.py", "import os\nos.fsync(1)\n")) == ["x.py:"]
    inner = "import os\ndef f():\n    crashpoint('x.before')\n    def g():\n        os.fsync(1)\n"
    assert steps_without_points(parse("x.py", inner)) == ["x.py:f.g"]
