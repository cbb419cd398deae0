"""How long many agents take to be settled that are stopped at once: `python benchmarks/stops.py [HOW_MANY]`.

Real shims, a real daemon. What counts is the time from the beginning of `wk stop` of all of them until the last one is settled, and which part of it the
command itself took.
"""

import json
import os
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
        _wait(lambda: sum(run.state is RunState.RUNNING for run in store.read(lambda tx: tx.runs.live())), many)
        print(f"{many} agents work after {time.monotonic() - began:.1f} s")
        began, used = time.monotonic(), _cpu_s(rig.daemons[-1].pid)
        rig.wk("stop", "--no-wait", *ids)
        told = time.monotonic() - began
        _wait(lambda: many - len(store.read(lambda tx: tx.runs.live())), many)
        took = time.monotonic() - began
        print(f"{many} stops: the command {told:.2f} s, all settled {took:.2f} s, {took / many * 1000:.1f} ms each")
        print(f"the daemon's own processor time: {(_cpu_s(rig.daemons[-1].pid) - used) / many * 1000:.1f} ms each")
    finally:
        rig.close()
        shutil.rmtree(root, ignore_errors=True)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait(count: Callable[[], int], wanted: int) -> None:
    deadline = time.monotonic() + 300
    while count() < wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count()} of {wanted}")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
