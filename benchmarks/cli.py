"""How long quick commands take: `wk ls` with a hundred tasks, `wk run` with a running daemon, and beside them Python itself.

    python benchmarks/cli.py [--rounds 15] [--directory DIR]

Prints the medians, as time on the clock and as time of the processor; the second is the one to compare on a busy machine. Ends with 1 when `wk ls` takes
more than eight times as long as `python -c pass`, by both.
"""

import argparse
import compileall
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.records import claim, make_task, settle

import watchkeeper
from watchkeeper.ports.store import Tx
from watchkeeper.store.sqlite.store import SqliteStore

MOST = 8.0
"""How many times `python -c pass` a list may take."""

_TASKS = 100
_DONE = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a program took, in milliseconds."""

    wall_ms: float
    busy_ms: float


def once(command: Sequence[str], environ: Mapping[str, str], log: Path) -> Cost:
    """Run a program to its end. Raises RuntimeError with its words if it fails."""
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], tuple(command), environ, file_actions=actions)
    _, status, used = os.wait4(pid, 0)
    took = time.perf_counter() - began
    if status != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {log.read_text(encoding='utf-8', errors='replace')}")
    return Cost(wall_ms=took * 1e3, busy_ms=(used.ru_utime + used.ru_stime) * 1e3)


def measure(
    commands: Mapping[str, Sequence[str]], environ: Mapping[str, str], log: Path, rounds: int
) -> dict[str, Cost]:
    """The medians. The programs take turns, so that what else the machine does falls on all of them."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            cost = once(command, environ, log)
            if number:  # the first round warms the caches
                costs[name].append(cost)
    return {
        name: Cost(
            wall_ms=statistics.median(cost.wall_ms for cost in found),
            busy_ms=statistics.median(cost.busy_ms for cost in found),
        )
        for name, found in costs.items()
    }


def fill(state: Path) -> None:
    """A hundred tasks, most of them done, the others set aside so that no daemon touches them."""

    def work(tx: Tx) -> None:
        for number in range(_TASKS):
            tx.tasks.add(make_task(f"t{number:07}"))
        for _ in range(_DONE):
            claimed = claim(tx)
            if claimed is not None:
                _ = settle(tx, tx.runs.get(claimed.run_id))

    state.mkdir(mode=0o700)
    store = SqliteStore.open(state / "wk.db", state / "write.lock", create=True, upgrade=False)
    store.transact("fill", work)
    store.close()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("--rounds", type=int, default=15)
    _ = parser.add_argument("--directory", type=Path, default=None)
    arguments = parser.parse_args()
    # An installed program is compiled; where Python may not write bytecode, ours would be compiled at each start.
    _ = compileall.compile_dir(Path(watchkeeper.__file__).parent, quiet=1)
    python = sys.executable
    wk = str(Path(python).with_name("wk"))
    with tempfile.TemporaryDirectory(dir=arguments.directory) as where:
        root, log = Path(where), Path(where) / "log"
        environ = {"PATH": os.environ["PATH"], "HOME": where, "WATCHKEEPER_HOME": str(root / "state")}
        fill(root / "state")
        looks = {"python -c pass": (python, "-c", "pass"), "wk ls": (wk, "ls"), "wk ls --all": (wk, "ls", "--all")}
        found = measure(looks, environ, log, arguments.rounds)
        _ = once((wk, "daemon", "start"), environ, log)
        try:
            found |= measure({"wk run": (wk, "run", "--", "true")}, environ, log, arguments.rounds)
        finally:
            _ = once((wk, "daemon", "stop"), environ, log)
    base = found["python -c pass"]
    for name, cost in found.items():
        times, busy_times = cost.wall_ms / base.wall_ms, cost.busy_ms / base.busy_ms
        print(
            f"{name:16}{cost.wall_ms:8.1f} ms ({times:4.1f} ×)   processor {cost.busy_ms:7.1f} ms ({busy_times:4.1f} ×)"
        )
    most = found["wk ls --all"]
    if most.wall_ms > MOST * base.wall_ms and most.busy_ms > MOST * base.busy_ms:
        print(f"`wk ls` takes more than {MOST:g} times as long as `python -c pass`.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
