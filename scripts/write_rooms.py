"""Write two pictures in `docs/architecture.md` anew: the rooms (packages and their imports), and the walk of a real task through them: `just rooms`.

The rooms come from the imports of the source. The walk runs `true` under a daemon of its own, in a temporary directory, and reads its history.
"""

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import grimp

Text = Callable[[], str]
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
SOURCE = ROOT / "src" / "watchkeeper"
SMALL = {"__main__", "crash", "environment", "errors", "flock", "safe_json", "settings"}
"""Modules that most packages may import; arrows to them would hide the others."""


def main() -> None:
    """Write both."""
    page = PAGE.read_text(encoding="utf-8")
    _ = PAGE.write_text(replaced(replaced(page, "rooms", rooms()), "walk", walk()), encoding="utf-8")


def replaced(page: str, name: str, text: str) -> str:
    """The page with new text between the markers of that name. Raises ValueError if it has none."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"{PAGE} has no markers of '{name}'.")
    return pattern.sub(lambda found: found[1] + text + found[2], page)


def rooms() -> str:
    """A Mermaid graph of the packages. An arrow that follows from others is left out."""
    graph = grimp.build_graph("watchkeeper", cache_dir=None)
    arrows = dict[str, set[str]]()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            one, other = package(module), package(imported)
            if one and other and one != other:
                arrows.setdefault(one, set()).add(other)
    lines = [f"    {one} --> {other}" for one in sorted(arrows) for other in sorted(reduced(one, arrows))]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "    shim -. records .-> runtimes", "```"])


def package(module: str) -> str:
    """The package of a module, if the picture shows it."""
    name = module.split(".")[1] if "." in module else ""
    return "" if name in SMALL else name


def reduced(one: str, arrows: dict[str, set[str]]) -> set[str]:
    """What a package imports, without what it also reaches by way of another import."""
    return {
        other for other in arrows[one] if not any(other in reached(third, arrows) for third in arrows[one] - {other})
    }


def reached(start: str, arrows: dict[str, set[str]]) -> set[str]:
    """All packages that can be reached from one by arrows."""
    found, new = set[str](), [start]
    while new:
        for other in arrows.get(new.pop(), ()):
            if other not in found:
                found.add(other)
                new.append(other)
    return found


def walk() -> str:
    """The history of one task as a table: each entry, the event that decides it, and where that is made."""
    lines = ["| history | event in `domain/` | made by |", "| --- | --- | --- |"]
    for kind in history():
        event, modules = origin(kind)
        lines.append(f"| `{kind}` | {f'`{event}`' if event else '–'} | {', '.join(f'`{each}`' for each in modules)} |")
    return "\n".join(lines)


def history() -> list[str]:
    """The kinds of entries in the history of a task that runs `true`, in order."""
    with tempfile.TemporaryDirectory(prefix="wk-") as name:
        home = Path(name)
        environ = {**os.environ, "HOME": name, "WATCHKEEPER_HOME": str(home / "state")}
        _ = wk(home, environ, "run", "--harness", "command", "--wait", "--", "true")
        _ = wk(home, environ, "daemon", "stop")
        entries = [json.loads(line) for line in wk(home, environ, "events", "--json").splitlines()]
    return [entry["kind"] for entry in entries if entry["task"]]


def wk(home: Path, environ: dict[str, str], *arguments: str) -> str:
    """Run a command; what it prints. Raises CalledProcessError."""
    command = [sys.executable, "-m", "watchkeeper", *arguments]
    return subprocess.run(command, cwd=home, env=environ, check=True, stdout=subprocess.PIPE, text=True).stdout


def origin(kind: str) -> tuple[str, list[str]]:
    """The event of an entry, if an event decides it, and the modules of `app/` that make it."""
    event = "".join(word.capitalize() for word in kind.partition(".")[2].split("_"))
    makers = sorted({path for path, name in calls() if name == event})
    if makers:
        return event, makers
    return "", sorted({path for path, name in calls() if name == kind})


def calls() -> Iterator[tuple[str, str]]:
    """Each module of `app/`, with the name of each class that it makes and each constant kind that it appends to the journal."""
    for path in sorted((SOURCE / "app").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield f"app/{path.name}", ast.unparse(node.func)
                if ast.unparse(node.func).endswith("journal.append") and isinstance(node.args[0], ast.Constant):
                    yield f"app/{path.name}", str(node.args[0].value)


if __name__ == "__main__":
    main()
