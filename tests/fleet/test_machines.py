"""Two machines on one database, seen from each other: what is said of the other one's runs, what can be done to them, and who may act as whom."""

import itertools
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.fleet import Fleet
from support.flow_words import let_go, working
from support.postgres import shared_databases

from watchkeeper.app.lease import Lease
from watchkeeper.domain.model import RunState, TaskState
from watchkeeper.errors import Exit
from watchkeeper.ports.store import Tx

HOUR = timedelta(hours=1)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Two machines; no daemon runs yet."""
    databases = shared_databases()
    made = Fleet(tmp_path, databases.empty())
    yield made
    made.close()
    databases.drop(made.url)


def _forget(fleet: Fleet, number: int) -> None:
    """As if nothing had been heard of a machine for long."""

    def work(tx: Tx) -> None:
        machine = tx.machines.get(fleet.node(number))
        assert machine is not None
        assert tx.machines.renew(machine, machine.started_at - HOUR)

    fleet.transact(work)


def test_a_run_on_another_machine(fleet: Fleet) -> None:
    """It is shown where it is and as it is recorded, its output is not looked for here, and it is stopped from here."""
    here, there = fleet.rigs
    fleet.start()
    task_id, run = working(there)
    assert run.machine == fleet.node(1) != fleet.node(0)
    (row,) = json.loads(here.wk("ls", "--json").stdout)
    assert row["shown"] == "running" and row["why"].startswith("on ")
    shown = here.wk("show", task_id).stdout.decode()
    assert "where its logs are" in shown and "missing" not in shown
    refused = here.wk("logs", task_id, check=False)
    assert refused.returncode == Exit.REFUSED
    assert f"executions/{run.execution_id}/stdout.log" in refused.stderr.decode()
    here.wk("stop", task_id)
    assert here.task(task_id).state is TaskState.STOPPED
    assert not there.survivors()


def test_a_machine_that_nobody_hears_of(fleet: Fleet) -> None:
    """Its runs are unreachable and stay as they are; when it is back it adopts them."""
    here, there = fleet.rigs
    fleet.start()
    task_id, run = working(there)
    there.kill_daemon()
    _forget(fleet, 1)
    (row,) = json.loads(here.wk("ls", "--json").stdout)
    assert row["shown"] == "unreachable" and "unreachable since" in row["why"]
    machines = json.loads(here.wk("status", "--json").stdout)["machines"]
    assert {each["id"]: each["reachable"] for each in machines} == {fleet.node(0): True, fleet.node(1): False}
    assert "not heard of since" in here.wk("status").stdout.decode()
    assert here.wk("retry", task_id, check=False).returncode == Exit.REFUSED
    assert here.runs(task_id) == [run] and there.survivors()
    there.start_daemon()
    let_go(there)
    assert there.wait_resting(task_id).state is TaskState.DONE
    assert there.started_runs() == [run.id]


def test_a_copy_of_a_state_directory_is_refused(fleet: Fleet) -> None:
    """The second daemon under one id says what to do, and does not start; the first one continues."""
    here, there = fleet.rigs
    here.start_daemon()
    shutil.copy(here.state / "node", there.state / "node")
    daemon = there.start_daemon()
    assert daemon.wait(20) == Exit.DAEMON
    said = (there.root / "daemon.log").read_text(encoding="utf-8")
    assert "is a copy of the other" in said and f"If {there.state} is the copy" in said
    # Within its lease the same directory may start anew.
    here.kill_daemon()
    assert here.start_daemon().poll() is None


def test_a_daemon_that_was_replaced_ends(fleet: Fleet) -> None:
    """It says who took over; its agent continues."""
    here, _ = fleet.rigs
    daemon = here.start_daemon()
    task_id, run = working(here)
    fleet.transact(
        lambda tx: tx.machines.begin_incarnation(fleet.node(0), "b", datetime.now(UTC), name="elsewhere", holder="h.p")
    )
    assert daemon.wait(40) == Exit.DAEMON
    log = (here.root / "daemon.log").read_text(encoding="utf-8")
    assert "taken over: by=elsewhere" in log and "A daemon on elsewhere has taken over" in log
    assert here.survivors() and here.runs(task_id)[0].id == run.id


def test_a_lease_is_given_back_at_the_end(fleet: Fleet) -> None:
    """A daemon that ends in peace says so, and the next one begins at once."""
    here, _ = fleet.rigs
    daemon = here.start_daemon()
    here.wk("daemon", "stop")
    assert daemon.wait(20) == 0
    machine = fleet.read(lambda tx: tx.machines.get(fleet.node(0)))
    assert machine is not None and machine.lease_until is not None
    assert machine.lease_until <= fleet.now()


def test_a_machine_claims_nothing_without_a_lease(fleet: Fleet) -> None:
    """A machine that slept renews its lease first."""
    fleet.add(1)
    machine = fleet.transact(lambda tx: tx.machines.begin_incarnation(fleet.node(0), "b", fleet.now(), holder="h"))
    assert fleet.claim(0, machine) is not None
    fleet.add(1)
    _forget(fleet, 0)
    assert fleet.claim(0, machine) is None
    assert Lease(store=fleet.store(0), clock=fleet.clock(0), machine=machine).renew() is None
    assert fleet.claim(0, machine) is not None


def test_a_lease_that_ends_while_a_claim_waits(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is the time when it is its turn: a daemon that was stopped in between claims nothing."""
    fleet.add(1)
    machine = fleet.transact(lambda tx: tx.machines.begin_incarnation(fleet.node(0), "b", fleet.now(), holder="h"))
    assert Lease(store=fleet.store(0), clock=fleet.clock(0), machine=machine).renew() is None
    passed = itertools.count()
    now = fleet.now()
    monkeypatch.setattr(fleet.clock(0), "now", lambda: now + next(passed) * timedelta(minutes=2))
    assert fleet.claim(0, machine) is None
    assert next(passed) > 1
    monkeypatch.undo()
    assert fleet.claim(0, machine) is not None


def test_what_another_machine_lacks(fleet: Fleet) -> None:
    """A task that may run anywhere passes on no variable; where its directory is missing it needs a person, and nothing spins."""
    here, there = fleet.rigs
    there.start_daemon()
    refused = here.wk("run", "--machine", "any", "--env", "HOME", "--", "true", check=False)
    assert refused.returncode == Exit.BAD_TASK and "passes on HOME" in refused.stderr.decode()
    (task,) = fleet.add(1, machine=fleet.node(1), cwd=str(fleet.work / "only-here"))
    resting = there.wait_resting(task.id)
    assert resting.state is TaskState.NEEDS_INPUT
    assert resting.reason == f"The directory '{fleet.work / 'only-here'}' is not on this machine."
    assert [run.state for run in there.runs(task.id)] == [RunState.SETTLED]


def test_a_wait_for_a_task_that_another_machine_may_run(fleet: Fleet) -> None:
    """What closes its way here does not end the wait as long as it is open there; if no machine's is, it does."""
    here, there = fleet.rigs
    fleet.start()
    here.wk("queue", "pause", "--machine", fleet.node(0))
    task_id = here.wk(
        "add", "--harness", "demo", "--machine", "any", "--expect", "answer", "--not-before", "+4s", "say hello"
    ).stdout.decode().strip()  # fmt: skip
    waited = here.wk("wait", "--timeout", "60s", task_id, check=False)
    assert waited.returncode == Exit.OK, waited
    assert there.runs(task_id)[0].machine == fleet.node(1)
    here.wk("queue", "pause", "--machine", fleet.node(1))
    late = here.wk("add", "--harness", "demo", "--machine", "any", "say hello").stdout.decode().strip()
    waited = here.wk("wait", "--timeout", "60s", late, check=False)
    assert waited.returncode == Exit.NEEDS_YOU and b"waits for you: paused" in waited.stdout, waited
