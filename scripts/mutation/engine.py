"""Makes changes in the copied tree, one at a time, and runs the tests that can notice each. Process 1 of the namespace that `cell` makes.

    python -m mutation.engine JOB

The job is a file of JSON that `scripts/mutate.py` writes; the result of each change is a line of JSON in the record that it names.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from mutation import cell, reach
from mutation.changes import Change, changes_of

T = TypeVar("T")
_START_S = 60.0
"""How long pytest may take to start on a busy machine."""
_FILE_S = 1200.0
"""How long the tests of one file may take."""
_FIRST = 12
"""How many tests run before the rest is imported: most changes fail one of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to do."""

    tree: str
    """The copied tree, which is changed."""
    files: list[str]
    """The files to change, from the root of the tree."""
    tests: list[str]
    """The files of tests."""
    sources: list[str]
    """All source files: what a test reaches is measured for the whole program at once, and serves every package."""
    common: list[str]
    """The files that every test may depend on; when one changes, what tests reach is measured anew."""
    sample: int | None
    """How many changes to make; None for all."""
    seed: int
    budget_s: float
    """How long the tests of one change may take, by the time that they take without a change."""
    record: str
    """The file with the results; changes that are in it are not made again."""
    only_measure: bool
    """Draw the sample, measure what tests reach, and stop there."""
    drawn: str
    """The file with the changes to make, kept until the source changes."""
    reached: str
    """The file with what tests reach, kept from run to run."""


def spread(items: Sequence[T], number: int, seed: int) -> list[T]:
    """So many of the items at even distances from a random begin, in random order. All of them if there are not more."""
    if number >= len(items):
        return list(items)
    chance = random.Random(seed)  # noqa: S311 - a sample that can be drawn again
    step = len(items) / number
    begin = chance.random() * step
    taken = [items[min(int(begin + place * step), len(items) - 1)] for place in range(number)]
    chance.shuffle(taken)
    return taken


class Limits:
    """A plugin of pytest: runs tests in the order in which they are named, and gives each a time limit by the time that it usually takes."""

    def __init__(self, seconds: dict[str, float], failed: Path) -> None:
        self._seconds, self._failed = seconds, failed

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Order and limit the tests."""
        order = {name: place for place, name in enumerate(self._seconds)}
        items.sort(key=lambda item: order.get(item.nodeid, len(order)))
        for item in items:
            item.add_marker(pytest.mark.timeout(limit_s(self._seconds.get(item.nodeid, 0.0))), append=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name the test that noticed the change."""
        if report.failed:
            _ = self._failed.write_text(report.nodeid, encoding="utf-8")


def limit_s(usual_s: float) -> float:
    """When a test counts as one that hangs: well above what it takes on a machine that does other work too."""
    return 15.0 + 6 * usual_s


class Tree:
    """The copied tree. Python takes a compiled file for current by its source's whole second and size, so each text gets another second."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._second = int(time.time()) - 100_000_000

    def write(self, file: str, text: str) -> None:
        """Replace a file."""
        path = self.root / file
        _ = path.write_text(text, encoding="utf-8")
        self._second -= 1
        os.utime(path, (self._second, self._second))


def measure(job: Job, tree: Tree) -> dict[str, reach.Reached]:
    """What each test reaches: from the last run where neither the source nor the test has changed, else measured."""
    store = Path(job.reached)
    key = reach.digest([tree.root / file for file in (*job.sources, *job.common)])
    kept: dict[str, Any] = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
    known: dict[str, Any] = kept["files"] if kept.get("key") == key else {}
    log, record, output = (tree.root.parent / name for name in ("reach.log", "reach.jsonl", "output.txt"))
    missing = [file for file in job.tests if not _is_measured(known.get(file), tree.root / file)]
    originals = {file: (tree.root / file).read_text(encoding="utf-8") for file in job.sources}
    if missing:
        for file, text in originals.items():
            tree.write(file, reach.instrument(text, file, log))
    for place, file in enumerate(missing, 1):
        begun = time.monotonic()
        record.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
        code = cell.run_tests(tree.root, [file], reach.Recorder(log, record), _FILE_S, output)
        found = reach.read(record)
        failed = [name for name, test in found.items() if test.failed]
        print(f"[{place}/{len(missing)}] {file}: {len(found)} tests, {time.monotonic() - begun:.0f} s", flush=True)
        if code != (1 if failed else 0):
            print(f"pytest ended with {code}:\n{output.read_text(encoding='utf-8')[-2000:]}", flush=True)
        for name in failed:
            print(f"  left out, it fails without a change: {name}", flush=True)
        rows = {name: [sorted(test.functions), test.seconds, test.failed] for name, test in found.items()}
        known[file] = {"digest": reach.digest([tree.root / file]), "tests": rows}
        _ = store.write_text(json.dumps({"key": key, "files": known}), encoding="utf-8")
    if missing:
        for file, text in originals.items():
            tree.write(file, text)
    return {
        name: reach.Reached(frozenset(functions), seconds, failed)
        for file in job.tests
        for name, (functions, seconds, failed) in known[file]["tests"].items()
    }


def _is_measured(row: dict[str, Any] | None, file: Path) -> bool:
    """Whether a file of tests is as it was when it was measured, and all of it passed."""
    return (
        row is not None
        and row["digest"] == reach.digest([file])
        and not any(failed for *_, failed in row["tests"].values())
    )


def draw(job: Job) -> list[Change]:
    """The changes to make: those of the last run where the source and the sample are the same."""
    drawn, root = Path(job.drawn), Path(job.tree)
    key = [reach.digest([root / file for file in job.files]), job.files, job.sample, job.seed]
    kept: dict[str, Any] = json.loads(drawn.read_text(encoding="utf-8")) if drawn.exists() else {}
    if kept.get("key") != key:
        changes = [change for file in job.files for change in changes_of(root, file)]
        taken = changes if job.sample is None else spread(changes, job.sample, job.seed)
        kept = {"key": key, "all": len(changes), "changes": [asdict(change()) for change in taken]}
        _ = drawn.write_text(json.dumps(kept), encoding="utf-8")
    wanted = [Change(**change) for change in kept["changes"]]
    print(f"{kept['all']} changes in {len(job.files)} files, {len(wanted)} to make", flush=True)
    return wanted


def attempt(change: Change, job: Job, tree: Tree, tests: dict[str, reach.Reached]) -> dict[str, Any]:
    """Make a change, run its tests, and take the change back. Returns the line for the record."""
    chosen, left_out = reach.choose(tests, change.reach, job.budget_s)
    failed, output = tree.root.parent / "failed.txt", tree.root.parent / "output.txt"
    failed.unlink(missing_ok=True)
    begun = time.monotonic()
    noticed = ""
    original = (tree.root / change.file).read_text(encoding="utf-8")
    tree.write(change.file, change.source)
    for part in (chosen[:_FIRST], chosen[_FIRST:]):
        if part and not noticed:
            seconds = {name: tests[name].seconds for name in part}
            limit = _START_S + sum(map(limit_s, seconds.values()))
            code = cell.run_tests(tree.root, ["-x", *part], Limits(seconds, failed), limit, output)
            if (
                code == pytest.ExitCode.USAGE_ERROR
            ):  # a test has another name now, by its parameters, or its file cannot be imported
                files = sorted({name.partition("::")[0] for name in part})
                code = cell.run_tests(tree.root, ["-x", *files], Limits(seconds, failed), _FILE_S, output)
            if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
                noticed = failed.read_text(encoding="utf-8") if failed.exists() else f"pytest ended with {code}"
    tree.write(change.file, original)
    return {
        "name": change.name,
        "noticed": noticed,
        "tests": len(chosen),
        "left_out": left_out,
        "seconds": round(time.monotonic() - begun, 1),
        "lines": change.lines,
    }


def main(arguments: list[str]) -> int:
    """Do the job. An interrupt ends it between two changes, and the record keeps what was done."""
    cell.enter()
    job = Job(**cast("dict[str, Any]", json.loads(Path(arguments[0]).read_text(encoding="utf-8"))))
    os.chdir(job.tree)  # mutmut looks for the source below it
    tree, record = Tree(Path(job.tree)), Path(job.record)
    wanted = draw(job)
    done = {json.loads(line).get("name") for line in record.read_text(encoding="utf-8").splitlines()}
    with record.open("a", encoding="utf-8") as file:
        _ = file.write(json.dumps({"wanted": [change.name for change in wanted]}) + "\n")
        file.flush()
        tests = measure(job, tree)
        left = [] if job.only_measure else [change for change in wanted if change.name not in done]
        for place, change in enumerate(left, 1):
            line = attempt(change, job, tree, tests)
            _ = file.write(json.dumps(line) + "\n")
            file.flush()
            by = line["noticed"] or f"SURVIVED {line['tests']} tests"
            print(f"[{place}/{len(left)}] {change.name}: {by} ({line['seconds']} s)", flush=True)
    return 0


if __name__ == "__main__":
    _ = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
