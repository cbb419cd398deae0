"""The former words that the glossary lists stand nowhere else: not in code, SQL, pages, names of files or names of tests.

Three places keep them because they must: migrations that landed, the changes of past versions, and the few lines that read what earlier versions wrote.
"""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
KEPT = re.compile(
    r"docs/glossary\.md|CHANGELOG\.md|.*/migrations/\d+_\w+\.sql|tests/store/sqlite/data/.*|(.*/)?transcripts/.*"
    r"|src/watchkeeper/domain/former_names\.py|src/watchkeeper/shim/requests\.py"
    r"|tests/domain/test_former_names\.py|tests/shim/test_former_requests\.py|tests/gates/test_retired_words\.py"
)
READS_FORMER = {"src/watchkeeper/shim/requests.py": '_FORMER = {"condemned": "early_fail"}'}
"""A file of the kept ones that may hold a former word in one line only."""


def former(kind: str) -> list[str]:
    """The names in the glossary's table of former words that are retired as such a kind of name."""
    rows = [
        line.split("|")[1:4] for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    ]
    return [name for names, _, kinds in rows if kind in kinds for name in re.findall(r"`(\w+)`", names)]


def tracked() -> list[str]:
    """The files that git knows, without those that keep former words."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.splitlines() if not KEPT.fullmatch(name) and (ROOT / name).is_file()]


def words_in(name: str, text: str) -> list[str]:
    """Where a file has a former word, in its name or in its text; a part of an identifier counts."""
    forms = ((word, word.capitalize(), word.upper()) for word in former("word"))
    sought = re.compile(
        "|".join(rf"(?:(?<![A-Za-z]){low}|{title}|(?<![A-Z]){high})(?:s|ed)?(?![a-z])" for low, title, high in forms)
    )
    found = [f"{name}: its name"] if sought.search(name) else []
    return found + [f"{name}:{number}" for number, line in enumerate(text.splitlines(), 1) if sought.search(line)]


def definitions_in(name: str, text: str) -> list[str]:
    """Where a module defines a class, a function or a field under a former name."""
    classes, functions, attributes = set(former("class")), set(former("function")), set(former("field"))
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ClassDef(name=defined) if defined.lstrip("_") in classes:
                found.append(f"{name}:{node.lineno} class {defined}")
            case ast.Assign(targets=[ast.Name(id=defined)]) if defined.lstrip("_") in classes:
                found.append(f"{name}:{node.lineno} {defined} =")
            case ast.FunctionDef(name=defined) | ast.AsyncFunctionDef(name=defined) if defined.lstrip("_") in functions:
                found.append(f"{name}:{node.lineno} def {defined}")
            case ast.ClassDef(body=body):
                found += [
                    f"{name}:{each.lineno} field {each.target.id}"
                    for each in body
                    if isinstance(each, ast.AnnAssign)
                    and isinstance(each.target, ast.Name)
                    and each.target.id.lstrip("_") in attributes
                ]
            case _:
                pass
    return found


def test_the_glossary_lists_former_words() -> None:
    assert {"parked", "turnstile", "condemned", "crowd", "bearing", "vigil"} <= set(former("word"))
    assert {"Place", "Order", "Lost", "Mark", "Found"} <= set(former("class"))
    assert {"says", "told", "of", "here"} <= set(former("function"))


def test_no_text_holds_a_former_word() -> None:
    found: list[str] = []
    for name in tracked():
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # bytes on purpose
        found += words_in(name, text)
    assert found == []


def test_no_module_defines_a_former_name() -> None:
    names = [name for name in tracked() if name.endswith(".py") and not name.startswith("tests/contracts/fixtures/")]
    found = [each for name in names for each in definitions_in(name, (ROOT / name).read_text(encoding="utf-8"))]
    assert found == []


def test_no_module_of_the_command_line_has_a_former_name() -> None:
    assert [name for name in former("module") if (ROOT / "src/watchkeeper/cli" / f"{name}.py").exists()] == []


def test_what_reads_former_words_holds_one_line_of_them() -> None:
    for name, kept in READS_FORMER.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert kept in text
        assert words_in(name, text.replace(kept, "")) == []


@pytest.mark.parametrize(
    "text",
    [
        "the task is parked",
        "UPDATE task SET parked = 0",
        "def _unpark(self):",
        "class Turnstile:",
        "on_park(x)",
        "tell_parked",
        "bring_back(tx)",
        "it condemns",
        "Crowd()",
        "vigil = Vigil(call)",
    ],
)
def test_a_former_word_is_found(text: str) -> None:
    assert words_in("a.py", text) == ["a.py:1"]


@pytest.mark.parametrize("text", ["sparkle", "forbearing", "the bearer of a pid"])
def test_what_resembles_one_is_not(text: str) -> None:
    assert words_in("a.py", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "class Place: ...",
        "class _Found: ...",
        "Lost = int",
        "def says(): ...",
        "class A:\n    told: bool",
        "async def of(): ...",
        "class A:\n    def here(self): ...",
    ],
)
def test_a_definition_under_a_former_name_is_found(text: str) -> None:
    assert len(definitions_in("a.py", text)) == 1
