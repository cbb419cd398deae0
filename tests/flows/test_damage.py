"""A daemon over torn records, and over a log that is deleted under it: one task suffers and is named, everything else continues."""

import json

import apsw
from support.flow_words import let_go, sound, working
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import TaskState


def tear(rig: Rig, sql: str) -> list[tuple[object, ...]]:
    """Change the database as a failing disk might."""
    raw = apsw.Connection(str(rig.state / "wk.db"))
    raw.set_busy_timeout(5000)
    raw.execute("PRAGMA foreign_keys=OFF; PRAGMA ignore_check_constraints=ON")
    raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    found = list(raw.execute(sql))
    raw.close()
    return found


def named(rig: Rig) -> set[str]:
    """The records that the daemon has put on record."""
    return {each["record"] for each in json.loads(rig.wk("status", "--json").stdout)["damage"]}


def test_a_daemon_starts_over_a_torn_run_and_takes_it_up_when_it_can_be_read(rig: Rig) -> None:
    """Its agent continues all the while; others are launched and settled; then it is adopted, and its true outcome is reported."""
    rig.start_daemon()
    task_id, run = working(rig)
    rig.kill_daemon()
    ((at,),) = tear(rig, f"SELECT claimed_at FROM run WHERE id = '{run.id}'")
    tear(rig, f"UPDATE run SET claimed_at = 4611686018427387904 WHERE id = '{run.id}'")
    tear(rig, "INSERT INTO outbox (kind, payload, attempts, not_before, put_at) VALUES ('start_shim', '{', 0, 0, 0)")
    rig.start_daemon()
    other = rig.run("lines", "2", "exit", "0", options=("--shared",))
    assert rig.wait_resting(other).state is TaskState.DONE
    wait_until(lambda: f"run:{run.id}" in named(rig), within_s=30, what="the torn run is named")
    assert any(record.startswith("outbox:") for record in named(rig))
    assert rig.survivors(), "its agent goes on"
    tear(rig, f"UPDATE run SET claimed_at = {at} WHERE id = '{run.id}'")
    tear(rig, "DELETE FROM outbox WHERE payload = '{'")
    let_go(rig)
    assert rig.wait_resting(task_id).state is TaskState.DONE
    assert rig.started_runs().count(run.id) == 1


def test_a_log_that_is_deleted_under_a_daemon_costs_nothing(rig: Rig) -> None:
    """What it held is saved; a daemon that is started then continues with all of it."""
    rig.start_daemon()
    first = rig.run("lines", "2", "exit", "0")
    assert rig.wait_resting(first).state is TaskState.DONE
    for name in ("wk.db-wal", "wk.db-shm"):
        (rig.state / name).unlink()

    log = rig.root / "daemon.log"
    wait_until(lambda: b"what it held was saved" in log.read_bytes(), within_s=60, what="the log is saved")
    rig.daemons[-1].terminate()
    assert rig.daemons[-1].wait(30) == 0
    rig.start_daemon()
    second = rig.run("lines", "2", "exit", "0")
    assert rig.wait_resting(second).state is TaskState.DONE
    assert {task.id for task in rig.tasks()} >= {first, second}
    sound(rig)
