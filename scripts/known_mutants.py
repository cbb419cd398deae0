"""Make each change of tests/mutants/mutants.toml in a copy of the tree, and run the tests that must notice it: they must fail there, and pass without it.

python scripts/known_mutants.py            every mutant
python scripts/known_mutants.py WORD ...   those whose name or file holds one of the words
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "mutants" / "mutants.toml"
COPIED = ("src", "tests", "docs", "scripts", "pyproject.toml", "justfile", "README.md", "CHANGELOG.md")
_TESTS_FAILED = 1
"""What pytest exits with when tests ran and some of them failed."""


class Mutant(NamedTuple):
    """One change."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, root: Path) -> None:
        """Make the change in a tree. Raises ValueError if the text is not there exactly once."""
        path = root / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            msg = f"'{self.name}' does not fit {self.file}: its text occurs {text.count(self.old)} times"
            raise ValueError(msg)
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def load(table: Path = TABLE) -> list[Mutant]:
    """The mutants of a table."""
    rows = tomllib.loads(table.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(row["name"], row["file"], row["old"], row["new"], tuple(row["tests"])) for row in rows]


def copy_tree(into: Path) -> Path:
    """Copy what the tests need."""
    for name in COPIED:
        copy_into(ROOT / name, into / name)
    return into


def copy_into(source: Path, target: Path) -> None:
    """Copy a file, or a directory in place of what was there, without what Python has compiled."""
    if source.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        _ = shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        _ = shutil.copy2(source, target)


def run_tests(root: Path, tests: list[str]) -> "subprocess.CompletedProcess[str]":
    """Run tests of a tree on the source of that tree."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]
    env = {**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)


def survives(mutant: Mutant, scratch: Path) -> str:
    """Why a mutant is not noticed; empty if it is."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        root = copy_tree(Path(name))
        mutant.apply(root)
        for test in mutant.tests:
            done = run_tests(root, [test])
            if done.returncode != _TESTS_FAILED:
                return f"{test} ended with {done.returncode}"
    return ""


def main(words: list[str]) -> int:
    """Run; the exit code is 1 if a mutant survives or a test fails without one."""
    mutants = [each for each in load() if not words or any(word in each.name or word in each.file for word in words)]
    if not mutants:
        print("No mutant is called so.")
        return 1
    with tempfile.TemporaryDirectory(prefix="wk-mutants-") as name:
        scratch = Path(name)
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        sound = run_tests(copy_tree(scratch / "sound"), tests)
        if sound.returncode:
            print(f"The tests fail without any mutant:\n{sound.stdout}")
            return 1
        survivors = 0
        for mutant in mutants:
            why = survives(mutant, scratch)
            survivors += bool(why)
            print(f"{'SURVIVED' if why else 'noticed '} {mutant.name}{f': {why}' if why else ''}", flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} mutants were noticed.")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
