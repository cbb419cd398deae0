"""Change the code in every way that mutmut knows, one change at a time, run the tests that reach it, and hold the score against the floor of its package.

    python scripts/mutate.py PATH                        every change of a file below src/watchkeeper, or of a package
    python scripts/mutate.py PATH --sample N [--seed S]  N changes, at even distances over the files; the same again for the same seed
    python scripts/mutate.py PATH ... --again            keep what an earlier run noticed, and try the rest: what survived, and what was not tried
    python scripts/mutate.py PATH ... --tests TESTS ...  with these tests in place of the package's

Floors, the tests of each package, files that are left out and survivors that are accepted stand in tests/mutants/floors.toml. A sample prints the interval that
holds the score of the whole in 95 of 100 samples.

A change is made in a copy of the tree. Every process that a test starts runs that copy: `wk`, a daemon, and a shim, whose zipapp is built from it. Only tests
that reach the changed function are run (scripts/mutation/reach.py says how that is known), those that most likely notice the change first, and for at most a
limited time. So a survivor may be one that a test outside that time would notice: a score is at least what is printed. Changed code runs in namespaces of its
own, because it may signal and remove what it should not (scripts/mutation/cell.py).

The environment and the copied tree stand in `.cache/mutation`.
"""

import argparse
import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple, cast

from known_mutants import COPIED, ROOT, copy_into
from mutation import cell

FLOORS = ROOT / "tests" / "mutants" / "floors.toml"
CACHE = ROOT / ".cache" / "mutation"
LOCK = ROOT / "requirements" / "mutation.txt"
_NICE = 5
_INTERRUPTED = 130
_BUDGET_S = 20.0
_DEVIATION = 1.96
"""How many standard deviations hold 95 of 100 samples."""


class Result(NamedTuple):
    """What became of one change."""

    name: str
    noticed: str
    """The test that noticed it; empty if it survived."""
    tests: int
    left_out: int
    """How many tests reach it, but were left out for time."""
    lines: list[str]


class Accepted(NamedTuple):
    """A survivor that stays, by the lines that it removes and adds."""

    file: str
    old: str
    new: str
    reason: str

    def fits(self, result: Result) -> bool:
        """Whether this is the survivor."""
        return result.name.startswith(f"{self.file}::") and self.lines() == result.lines

    def lines(self) -> list[str]:
        """Its lines, as a result has them."""
        return [
            f"{mark} {line.strip()}" for mark, text in (("-", self.old), ("+", self.new)) for line in text.splitlines()
        ]


class Score(NamedTuple):
    """What came out for a file or a package."""

    noticed: int
    survivors: list[Result]
    accepted: list[Result]

    @property
    def tried(self) -> int:
        """How many changes were tried, the accepted ones left out."""
        return self.noticed + len(self.survivors)

    @property
    def percent(self) -> float:
        """How many of a hundred that were tried were noticed."""
        return 100.0 * self.noticed / self.tried if self.tried else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Where the score of the whole lies in 95 of 100 samples (Wilson's interval), in percent."""
        if not self.tried:
            return 0.0, 100.0
        square = _DEVIATION**2 / self.tried
        share = self.noticed / self.tried
        middle = share + square / 2
        half = (square * share * (1 - share) + square**2 / 4) ** 0.5
        return 100 * (middle - half) / (1 + square), 100 * (middle + half) / (1 + square)


def score(results: list[Result], accepted: list[Accepted]) -> Score:
    """Count results."""
    survived = [result for result in results if not result.noticed]
    known = [result for result in survived if any(each.fits(result) for each in accepted)]
    return Score(len(results) - len(survived), [result for result in survived if result not in known], known)


def package_of(path: Path) -> str:
    """The package of a file below src/watchkeeper. Raises ValueError for another one."""
    return path.resolve().relative_to(ROOT / "src" / "watchkeeper").parts[0]


def environment() -> Path:
    """Make the environment of mutmut from its lock unless it is there; returns its Python. Programs in it import Watchkeeper from the copied tree."""
    python, stamp = CACHE / "venv" / "bin" / "python", CACHE / "venv" / "lock"
    if not stamp.exists() or stamp.read_bytes() != LOCK.read_bytes():
        shutil.rmtree(CACHE / "venv", ignore_errors=True)
        _ = subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, str(CACHE / "venv")], check=True)
        install = ["uv", "pip", "install", "--quiet", "--python", str(python), "--require-hashes", "-r", str(LOCK)]
        _ = subprocess.run(install, check=True)
        stamp.write_bytes(LOCK.read_bytes())
    (site,) = (CACHE / "venv" / "lib").glob("python*/site-packages")
    paths = (CACHE / "tree" / "src", ROOT / "packages" / "watchkeeper-testing" / "src")
    _ = (site / "copied-tree.pth").write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
    return python


def files_of(path: Path) -> list[str]:
    """The Python files of a file or a directory, from the root of the tree."""
    found = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [file.resolve().relative_to(ROOT).as_posix() for file in found]


def results(record: Path) -> list[Result]:
    """What a record holds of the changes that the last run wanted."""
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    wanted = {name for line in lines for name in line.get("wanted", ())}
    found = {
        line["name"]: Result(line["name"], line["noticed"], line["tests"], line["left_out"], line["lines"])
        for line in lines
        if line.get("name") in wanted
    }
    return list(found.values())


def keep_noticed(record: Path, source: str) -> None:
    """Leave in a record what was noticed in this source; a record of another source becomes empty."""
    lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
    same = bool(lines) and json.loads(lines[0]).get("source") == source
    noticed = [line for line in lines[1:] if same and json.loads(line).get("noticed")]
    _ = record.write_text("\n".join([json.dumps({"source": source}), *noticed, ""]), encoding="utf-8")


def run(options: argparse.Namespace, rules: dict[str, Any], record: Path) -> int:
    """Make the changes. Returns the exit code of the engine."""
    python, tests = environment(), options.tests or rules["tests"]
    files = [file for file in files_of(options.path) if file not in rules.get("left_out", {})]
    tree = CACHE / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    for name in COPIED:
        copy_into(ROOT / name, tree / name)
    if not options.again:
        record.unlink(missing_ok=True)
    sources = files_of(ROOT / "src" / "watchkeeper")
    from mutation.reach import digest  # noqa: PLC0415 - imports pytest

    keep_noticed(record, digest([ROOT / file for file in sources]))
    test_files = [file for test in tests for file in files_of(ROOT / test) if Path(file).name.startswith("test_")]
    common = [file for file in files_of(ROOT / "tests") if not Path(file).name.startswith("test_")]
    job = {
        "tree": str(tree), "files": files, "tests": test_files, "sample": options.sample, "seed": options.seed, "budget_s": options.budget,
        "common": [file for file in common if "/fixtures/" not in file], "record": str(record), "reached": str(CACHE / "reached.json"),
        "sources": sources, "only_measure": options.measure, "drawn": str(record.with_suffix(".drawn.json")),
    }  # fmt: skip
    _ = (CACHE / "job.json").write_text(json.dumps(job), encoding="utf-8")
    inside = [str(python), "-m", "mutation.engine", str(CACHE / "job.json")]
    own = {"PYTHONPATH": str(ROOT / "scripts"), cell.OUTSIDE: cell.namespace(), "COLUMNS": "160"}
    _ = os.nice(_NICE)
    environ = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }  # or every run compiles everything
    return subprocess.run(cell.command(CACHE, inside), env=environ | own, check=False).returncode


def report(path: Path, found: Score, floor: float, sample: str) -> None:
    """Print the survivors and the score."""
    for result in found.survivors:
        more = f", {result.left_out} more reach it" if result.left_out else ""
        print(f"\nsurvived {result.tests} tests{more}: {result.name}")
        for line in result.lines:
            print(f"    {line}")
    low, high = found.interval
    within = f"; 95 % interval {low:.0f} to {high:.0f} %" if sample else ""
    print(
        f"\n{path}: {found.noticed} of {found.tried} noticed ({found.percent:.1f} %{within}; floor {floor} %), "
        f"{len(found.accepted)} accepted{sample}."
    )


def main(arguments: list[str]) -> int:
    """Run; the exit code is 1 if the score is below the floor or the run did not end, 2 if an argument is invalid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("path", type=Path)
    _ = parser.add_argument("--tests", nargs="+", help="the tests to run; else those of the package")
    _ = parser.add_argument("--sample", type=int, metavar="N", help="how many changes to make; else all")
    _ = parser.add_argument("--seed", type=int, help="which sample; else a random one")
    _ = parser.add_argument("--again", action="store_true", help="keep what an earlier run noticed")
    _ = parser.add_argument(
        "--budget", type=float, default=_BUDGET_S, help="seconds of tests for a change (%(default)s)"
    )
    _ = parser.add_argument(
        "--measure", action="store_true", help="draw the sample and measure what tests reach, and stop there"
    )
    options = parser.parse_args(arguments)
    if options.seed is None:
        options.seed = 0 if options.again else random.randrange(1, 1000)  # noqa: S311 - a sample
    rules = cast("dict[str, Any]", tomllib.loads(FLOORS.read_text(encoding="utf-8"))["package"]).get(
        package_of(options.path)
    )
    if rules is None:
        print(f"tests/mutants/floors.toml has no floor for {package_of(options.path)}.")
        return 2
    CACHE.mkdir(parents=True, exist_ok=True)
    of = f".{options.sample}.{options.seed}" if options.sample is not None else ""
    record = CACHE / f"{options.path.resolve().relative_to(ROOT).as_posix().replace('/', '.')}{of}.jsonl"
    with (CACHE / "in-use").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            code = run(options, rules, record)
        except KeyboardInterrupt:
            code = _INTERRUPTED
    if options.measure:
        return code
    found = score(results(record), [Accepted(**row) for row in rules.get("accepted", [])])
    sample = f"; a sample of {options.sample}, seed {options.seed}" if options.sample else ""
    report(options.path, found, rules["floor"], sample + ("; the run did not end" if code else ""))
    return int(code != 0 or found.percent < rules["floor"])


if __name__ == "__main__":
    _ = signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
