"""`just prose`: lint the prose of the files in git. `just prose --write` lowers the baseline to what is left."""

import subprocess
import sys
import tomllib
from pathlib import Path

from proselint.checks import __register__ as built_in  # pyright: ignore[reportMissingTypeStubs] - its types are in its source
from proselint.registry import CheckRegistry  # pyright: ignore[reportMissingTypeStubs] - its types are in its source
from proselint.tools import LintFile, LintResult  # pyright: ignore[reportMissingTypeStubs] - its types are in its source

from prose.rules import BUILT_IN, CHECKS
from prose.texts import prose_of

ROOT = Path(__file__).parents[2]
BASELINE = Path(__file__).with_name("baseline.toml")
LEFT_OUT = (
    "docs/cli.md",  # made from the help texts
    "docs/glossary.md",  # lists the words to avoid
    "docs/writing.md",  # as the glossary
    "scripts/prose/rules.py",  # as the glossary
    "src/watchkeeper/store/postgres/migrations/",  # a migration never changes
    "src/watchkeeper/store/sqlite/migrations/",
    "src/watchkeeper/store/sqlite/schema.sql",  # made from the migrations
    "tests/contracts/fixtures/",  # wrong on purpose
    "tests/gates/test_prose.py",  # as the fixtures
    "tests/gates/test_retired_words.py",  # as the fixtures
)
SHOWN = 20
SUFFIXES = {".py", ".md", ".sql"}


def main(arguments: list[str]) -> int:
    """Lint the named files, or all. Exit with 1 if a file does not have exactly the findings of its baseline."""
    registry = CheckRegistry()
    registry.register_many((*built_in, *CHECKS))
    names = [name for name in arguments if not name.startswith("--")] or tracked()
    found = {name: lint(name) for name in names if not name.startswith(LEFT_OUT)}
    if "--write" in arguments:
        write({name: len(all_) for name, all_ in found.items() if all_})
        return 0
    allowed = {} if "--all" in arguments else baseline()
    wrong = [
        compare(name, findings, allowed.get(name, 0)) for name, findings in found.items()
    ]  # all of them are printed
    return int(any(wrong))


def compare(name: str, findings: list[LintResult], limit: int) -> bool:
    """Print what is wrong with a file; True if something is."""
    if len(findings) > limit:
        show(name, findings, limit)
    elif len(findings) < limit:
        print(f"{name}: {len(findings)} findings, fewer than the {limit} of the baseline. Run `just prose --write`.")
    return len(findings) != limit


def baseline() -> dict[str, int]:
    """The number of findings that each older file may have."""
    return dict(tomllib.loads(BASELINE.read_text(encoding="utf-8"))["allowed"])


def tracked() -> list[str]:
    """The files that git knows."""
    return subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def lint(name: str) -> list[LintResult]:
    """The findings in one file."""
    file = ROOT / name
    prose = prose_of(name, file.read_text(encoding="utf-8")) if file.suffix in SUFFIXES else ""
    if not prose.strip():
        return []
    return LintFile(name, prose).lint({"max_errors": 10_000, "checks": {**BUILT_IN, "house": True}})


def show(name: str, findings: list[LintResult], limit: int) -> None:
    """Print the findings of a file, the first of many."""
    for finding in findings[: limit + SHOWN]:
        line, column = finding.pos
        print(f"{name}:{line}:{column}: {finding.check_result.message} ({finding.check_result.check_path})")
    if limit:
        print(f"{name}: {len(findings)} findings; its baseline allows {limit}.")


def write(counts: dict[str, int]) -> None:
    """Write the baseline."""
    lines = ["# Findings that are older than the linter. A count may only fall: `just prose --write`.", "[allowed]"]
    _ = BASELINE.write_text(
        "\n".join([*lines, *(f'"{name}" = {count}' for name, count in sorted(counts.items())), ""]), encoding="utf-8"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
