"""How long many agents take to be settled that are stopped at once: `python benchmarks/stops.py [HOW_MANY]`.

Real shims, a real daemon. The time counts from the start of `wk stop` of all of them until the last one is settled. The journal tells when each stage was over.
The processor time of each part is printed beside it; on a machine that does other work it says more than the times do.
"""

import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.rig import Rig

from watchkeeper.compose import Watchkeeper
from watchkeeper.domain.model import RunState

STAGES = {"run.stop_wanted": "asked", "run.stop_told": "told", "run.exit_seen": "ended", "run.settled": "settled"}
"""What the journal calls the end of each stage."""

QUIET_S = 1.0
"""After so long without work the shims that have ended are reaped, and their processor time counts as the daemon's children's."""


def main() -> None:
    """Measure once."""
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    root = Path(tempfile.mkdtemp(prefix="wk-stops-"))
    rig = Rig(root / "rig", settings={"WATCHKEEPER_QUEUE_LIMIT": str(many), "WATCHKEEPER_DAEMON_START_GRACE": "60"})
    try:
        rig.start_daemon()
        line = json.dumps({"argv": ["sleep", "1000"], "shared": True}) + "\n"
        began = time.monotonic()
        added = rig.wk("add", "--harness", "command", "--json", "--json-lines", "-f", "-", given=line.encode() * many)
        ids = [str(json.loads(each)["id"]) for each in added.stdout.splitlines()]
        store = Watchkeeper.open(rig.repo, rig.environment, writes=False, repository=False).store
        _wait(lambda: len(store.read(lambda tx: tx.runs.live(states={RunState.RUNNING}))), many)
        print(f"{many} agents work after {time.monotonic() - began:.1f} s")
        time.sleep(QUIET_S)
        _measure(rig, lambda: many - len(store.read(lambda tx: tx.runs.live())), ids)
    finally:
        rig.close()
        shutil.rmtree(root, ignore_errors=True)


def _measure(rig: Rig, settled: Callable[[], int], ids: list[str]) -> None:
    daemon, many = rig.daemons[-1].pid, len(ids)
    before, began = _used_s(daemon), time.monotonic()
    rig.wk("stop", "--no-wait", *ids)
    _wait(settled, many)
    took = time.monotonic() - began
    print(f"{many} stops: all settled after {took:.2f} s, {took / many * 1000:.1f} ms each")
    entries = [entry for entry in rig.journal() if entry.kind in STAGES]
    last_s = {STAGES[entry.kind]: (entry.at - entries[0].at).total_seconds() for entry in entries}
    print("the last one, from the first wish on:", ", ".join(f"{word} {at_s:.2f} s" for word, at_s in last_s.items()))
    time.sleep(QUIET_S)
    costs = {part: (used_s - before[part]) / many * 1000 for part, used_s in _used_s(daemon).items()}
    print("processor time:", ", ".join(f"{part} {cost:.1f} ms each" for part, cost in costs.items()))


def _used_s(daemon: int) -> dict[str, float]:
    """Seconds of processor time that each part has used: what is alive, and what of it was reaped."""
    fields, own = _stat(daemon), resource.getrusage(resource.RUSAGE_CHILDREN)
    used = {"command": own.ru_utime + own.ru_stime, "daemon": _ticks_s(fields[11:13]), "git": 0.0}
    shims = _ticks_s(fields[13:15])
    for child in Path(f"/proc/{daemon}/task").glob("*/children"):
        for pid in map(int, child.read_text(encoding="ascii").split()):
            if b"looker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                used["git"] += _ticks_s(_stat(pid)[11:15])
            else:
                shims += int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    return {**used, "shims": shims}


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()


def _ticks_s(fields: list[str]) -> float:
    return sum(map(int, fields)) / os.sysconf("SC_CLK_TCK")


def _wait(count: Callable[[], int], wanted: int) -> None:
    deadline = time.monotonic() + 300
    while count() < wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count()} of {wanted}")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
