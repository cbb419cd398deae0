"""Twenty real processes at one database."""

import json
import os
import subprocess
import sys
from pathlib import Path

from support.records import NOON, at_work, first
from support.stores import check, fresh_place, open_place

from watchkeeper.domain.model import RunState, TaskState

WORKERS, OWN = 20, 6
PROGRAM = Path(__file__).parents[1] / "support" / "store_worker.py"


def test_twenty_processes_add_claim_and_finish_at_once(kind: str) -> None:
    """Each makes the database if it is first. No error, no update lost, each task claimed once, each fence given once."""
    with fresh_place(kind, empty=True) as place:
        env = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(sys.path)}
        total = WORKERS * OWN
        processes = [
            subprocess.Popen(
                [sys.executable, str(PROGRAM), place, f"w{number}", str(OWN), str(total)],
                env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for number in range(WORKERS)
        ]  # fmt: skip
        answers = [process.communicate(timeout=110) for process in processes]
        assert [said for _, said in answers if said] == []
        assert [process.returncode for process in processes] == [0] * WORKERS
        claims = [tuple(one) for out, _ in answers for one in json.loads(out)]

        store = open_place(place, create=False)
        check(store)
        names = {f"w{worker}-{number}" for worker in range(WORKERS) for number in range(OWN)}
        assert sorted(task for task, _, _ in claims) == sorted(names)
        tasks = store.read(lambda tx: tx.tasks.in_states([TaskState.DONE], 1000))
        assert {task.id for task in tasks} == names
        assert all((task.version, task.runs) == (2, 1) for task in tasks)

        runs = [store.read(lambda tx, i=run: tx.runs.get(i)) for _, run, _ in claims]
        assert all(run.state is RunState.SETTLED for run in runs)
        assert [run.fence for run in runs] == [fence for _, _, fence in claims]
        assert sorted(fence for _, _, fence in claims) == list(range(1, total + 1))
        for out, _ in answers:
            own = [fence for _, _, fence in json.loads(out)]
            assert own == sorted(own)
        entries = store.read(lambda tx: tx.journal.after(0, 10_000))
        assert [entry.seq for entry in entries] == list(range(1, total + 1))
        assert {entry.run_id for entry in entries} == {run.id for run in runs}
        assert store.transact("look", lambda tx: (at_work(tx), first(tx, NOON))) == (0, None)
        store.close()
