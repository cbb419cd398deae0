"""Two machines, one PostgreSQL server, five hundred tasks, and deaths all the while: every task is done once, and no machine's books are wrong."""

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.fleet import Fleet
from support.postgres import Server
from support.waiting import wait_until

from watchkeeper.domain.model import LIVE_RUN_STATES, RESTING_TASK_STATES, OutcomeStatus, TaskState
from watchkeeper.errors import StateError
from watchkeeper.ports.store import Tx

TASKS, AT_ONCE = 500, 8
KILLS, OUTAGES = 3, 2
WITHIN_S = 400.0


def _script(fleet: Fleet, seed: int, server: Server) -> list[tuple[int, str, Callable[[], None]]]:
    """What happens after how many starts of agents."""
    chance = random.Random(seed)

    def outage() -> None:
        server.stop()
        time.sleep(chance.uniform(0.1, 1.0))  # agents end meanwhile, and daemons ask in vain
        server.start()

    events = [
        (
            chance.randrange(10, TASKS * 9 // 10),
            f"kill -9 of the daemon of {rig.root.name}",
            lambda rig=rig: fleet.kill(rig),
        )
        for rig in fleet.rigs
        for _ in range(KILLS)
    ]
    events += [(chance.randrange(10, TASKS * 9 // 10), "the server is stopped", outage) for _ in range(OUTAGES)]
    return sorted(events, key=lambda event: event[0])


@pytest.mark.timeout(WITHIN_S + 60)
def test_five_hundred_tasks_on_two_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each daemon is killed three times and the server stopped twice, at random moments: 500 outcomes, and every agent began once."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    with contextlib.ExitStack() as last:
        server = Server("max_connections=120")
        last.callback(server.remove)
        fleet = Fleet(tmp_path, server.url(server.database()), limit=AT_ONCE)
        last.callback(fleet.close)
        began = time.monotonic()
        fleet.start()
        fleet.add(TASKS)
        added_s = time.monotonic() - began
        script = _script(fleet, seed, server)
        told: list[str] = []

        def over() -> bool:
            started = fleet.started().total()
            while script and started >= script[0][0]:
                _, what, do = script.pop(0)
                do()
                told.append(what)
            fleet.keep()
            return not script and started >= TASKS and _all_rest(fleet)

        try:
            _ = wait_until(over, within_s=WITHIN_S, what=f"all tasks rest (seed {seed})")
        except pytest.fail.Exception:
            print(f"done: {told}, left: {[step[:2] for step in script]}, started: {fleet.started().total()}")
            print(fleet.read(_unrest))
            raise
        took_s = time.monotonic() - began
        counts = fleet.read(lambda tx: _judge(fleet, tx))
        with capsys.disabled():
            print(f"\nfleet: {counts} in {took_s:.0f} s (added in {added_s:.0f} s), {Counter(told)}")
        assert not any(rig.survivors() for rig in fleet.rigs)


def _unrest(tx: Tx) -> str:
    """What keeps the test waiting."""
    tasks = tx.tasks.in_states(list(set(TaskState) - {TaskState.DONE}), 20)
    lines = [
        f"{task.id} {task.state} {task.reason} {[run.state.value for run in tx.runs.of_task(task.id)]}"
        for task in tasks
    ]
    return "\n".join((str(tx.tasks.counts()), f"{tx.outbox.pending()} steps left", str(tx.damage.all()), *lines))


def _all_rest(fleet: Fleet) -> bool:
    try:
        counts, pending = fleet.read(lambda tx: (tx.tasks.counts(), tx.outbox.pending()))
    except StateError:
        return False
    return not pending and sum(counts[state] for state in RESTING_TASK_STATES) >= TASKS


def _judge(fleet: Fleet, tx: Tx) -> str:
    """Everything that must hold in the end, and the numbers."""
    tasks = tx.tasks.in_states(list(TaskState), TASKS * 2)
    assert Counter(task.state for task in tasks) == {TaskState.DONE: TASKS}
    runs = {task.id: tx.runs.of_task(task.id) for task in tasks}
    outcomes = [outcome for each in runs.values() for run in each if (outcome := tx.outcomes.get(run.id))]
    assert not any(run.state in LIVE_RUN_STATES for each in runs.values() for run in each)
    assert sum(outcome.status is OutcomeStatus.SUCCEEDED for outcome in outcomes) == TASKS
    assert len(outcomes) == sum(map(len, runs.values()))
    started = fleet.started()
    assert set(started.values()) == {1} and len(started) == TASKS, "an agent began twice, or never"
    # A machine that looked at the other one's runs would find nothing there, and hold them until that one looks again.
    assert not [entry for entry in tx.journal.after(0, 100 * TASKS) if entry.kind == "run.held_back"]
    assert tx.waits.audit() == []
    assert tx.outbox.pending() == 0
    assert tx.queue.occupied() == []
    machines = Counter(run.machine for each in runs.values() for run in each if run.exit is not None)
    assert len(machines) == len(fleet.rigs) and sum(machines.values()) == TASKS
    return f"{len(outcomes)} runs of {len(tasks)} tasks, {sorted(machines.values())} on the machines"
