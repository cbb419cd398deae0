"""Change the code in every way that mutmut knows, one change at a time, run the tests that reach it, and hold the score against the floor of its package.

    python scripts/mutate.py PATH             a file below src/watchkeeper, or a package
    python scripts/mutate.py PATH TESTS ...   with these tests in place of the package's

Floors, the tests of each package and the survivors that are accepted stand in tests/mutants/floors.toml. The environment and the mutated tree stand in
`.cache/mutation`. Each run begins anew: mutmut would keep the results of mutants whose tests have changed.

mutmut changes functions only, and in a process that it forks. What runs as a program of its own (a shim, `wk` in a process apart) is changed by the known
mutants (`scripts/known_mutants.py`) instead.
"""

import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple, cast

from known_mutants import COPIED, ROOT, copy_into

FLOORS = ROOT / "tests" / "mutants" / "floors.toml"
CACHE = ROOT / ".cache" / "mutation"
LOCK = ROOT / "requirements" / "mutation.txt"
_NICE = 19
_SURVIVED, _NO_TESTS = frozenset({0}), frozenset({5, 33})
_NOT_TRIED = frozenset({None, 2, 34, 37})
"""Exit codes of mutmut for a mutant: not run, interrupted, left out, not a program."""


class Score(NamedTuple):
    """What came out for a file or a package."""

    noticed: int
    survivors: list[str]
    accepted: list[str]
    not_tried: int

    @property
    def percent(self) -> float:
        """How many of the mutants that were tried, the accepted ones left out, were noticed."""
        tried = self.noticed + len(self.survivors)
        return 100.0 * self.noticed / tried if tried else 0.0


def score(codes: dict[str, int | None], accepted: list[str]) -> Score:
    """Count the exit codes of mutants by their names; `accepted` are patterns of names whose survival has a reason."""
    survived = [name for name, code in codes.items() if code in _SURVIVED | _NO_TESTS]
    known = [name for name in survived if any(fnmatch.fnmatch(name, pattern) for pattern in accepted)]
    not_tried = sum(code in _NOT_TRIED for code in codes.values())
    noticed = len(codes) - len(survived) - not_tried
    return Score(noticed, [name for name in survived if name not in known], known, not_tried)


def package_of(path: Path) -> str:
    """The package of a file below src/watchkeeper. Raises ValueError for another one."""
    return path.resolve().relative_to(ROOT / "src" / "watchkeeper").parts[0]


def environment() -> Path:
    """Make the environment of mutmut from its lock unless it is there; returns its Python."""
    python, stamp = CACHE / "venv" / "bin" / "python", CACHE / "venv" / "lock"
    if not stamp.exists() or stamp.read_bytes() != LOCK.read_bytes():
        shutil.rmtree(CACHE / "venv", ignore_errors=True)
        _ = subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, str(CACHE / "venv")], check=True)
        install = ["uv", "pip", "install", "--quiet", "--python", str(python), "--require-hashes", "-r", str(LOCK)]
        _ = subprocess.run(install, check=True)
        stamp.write_bytes(LOCK.read_bytes())
    return python


def workplace(path: Path, tests: list[str]) -> Path:
    """A fresh copy of the tree in which mutmut works."""
    inside = path.resolve().relative_to(ROOT).as_posix()
    work = CACHE / inside.replace("/", ".")
    shutil.rmtree(work, ignore_errors=True)
    for name in COPIED:
        copy_into(ROOT / name, work / name)
    settings = {
        "source_paths": ["src/"],
        "only_mutate": [inside if path.is_file() else f"{inside}/*"],
        "also_copy": [name for name in COPIED if name not in {"src", "tests"}],
        "pytest_add_cli_args": ["-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider", "--hypothesis-seed=0"],
        "pytest_add_cli_args_test_selection": tests,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    _ = (work / "pyproject.toml").write_text("\n".join((project, "[tool.mutmut]", *lines, "")), encoding="utf-8")
    return work


def results(work: Path, path: Path) -> dict[str, int | None]:
    """The exit code of each mutant of a file or a package."""
    place = work / "mutants" / path.resolve().relative_to(ROOT)
    files = [place.with_name(f"{place.name}.meta")] if path.is_file() else sorted(place.rglob("*.meta"))
    codes: dict[str, int | None] = {}
    for file in files:
        codes |= cast("dict[str, int | None]", json.loads(file.read_text(encoding="utf-8"))["exit_code_by_key"])
    return codes


def main(arguments: list[str]) -> int:
    """Run; the exit code is 1 if the score is below the floor, 2 if the argument is invalid."""
    if not arguments:
        print(__doc__)
        return 2
    path, tests = Path(arguments[0]), arguments[1:]
    package = package_of(path)
    rules = tomllib.loads(FLOORS.read_text(encoding="utf-8"))["package"].get(package)
    if rules is None:
        print(f"tests/mutants/floors.toml has no floor for {package}.")
        return 2
    python, work = environment(), workplace(path, tests or rules["tests"])
    mutmut = str(python.with_name("mutmut"))
    _ = os.nice(_NICE)
    _ = subprocess.run([mutmut, "run", "--max-children", "1"], cwd=work, check=False)
    reasons = cast("dict[str, str]", rules.get("accepted", {}))
    found = score(results(work, path), list(reasons))
    for name in found.survivors:
        print(f"\nsurvived: {name}", flush=True)
        _ = subprocess.run([mutmut, "show", name], cwd=work, check=False)
    print(
        f"\n{path}: {found.noticed} of {found.noticed + len(found.survivors)} noticed ({found.percent:.1f} %, floor {rules['floor']} %), "
        f"{len(found.accepted)} accepted, {found.not_tried} not tried."
    )
    return int(found.percent < rules["floor"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
