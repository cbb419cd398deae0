"""The server goes away and comes back: agents do not notice, each loop says so once, and everything continues by itself."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.flow_words import let_go, working
from support.postgres import Server
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that may be stopped."""
    made = Server()
    yield made
    made.remove()


@pytest.fixture
def rig(tmp_path: Path, server: Server) -> Iterator[Rig]:
    """An installation on it."""
    made = Rig(tmp_path / "rig", settings={"WATCHKEEPER_STORE_URL": server.url(server.database())})
    yield made
    made.close()


def _log(rig: Rig, message: str) -> list[str]:
    lines = (rig.root / "daemon.log").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if f" {message}: " in line]


def _loop(line: str) -> str:
    return line.partition("loop=")[2].partition(" ")[0]


def test_an_agent_ends_while_the_server_is_away(rig: Rig, server: Server) -> None:
    """Its outcome is the true one, and no loop filled the log."""
    daemon = rig.start_daemon()
    task_id, run = working(rig)
    server.stop()
    asked = rig.wk("ls", check=False)
    assert asked.returncode == Exit.STATE and b"cannot be reached" in asked.stderr and b"Traceback" not in asked.stderr
    wait_until(lambda: "reconcile" in map(_loop, _log(rig, "tick failed")), what="a loop says so")
    let_go(rig)
    wait_until((rig.state / "executions" / run.execution_id / "gone.json").exists, what="the shim has ended")
    assert daemon.poll() is None
    server.start()
    assert rig.wait_resting(task_id, keep=False).state is TaskState.DONE
    (settled,) = rig.runs(task_id)
    assert settled.exit is not None and settled.exit.exit_code == 0
    assert rig.started_runs() == [run.id] and daemon.poll() is None
    wait_until(lambda: "reconcile" in map(_loop, _log(rig, "recovered")), what="it says that it is over")
    # A loop tells of a trouble once; the words of the server may change once or twice while it goes down and comes up.
    said = Counter(map(_loop, _log(rig, "tick failed")))
    assert max(said.values()) <= 4, said


@pytest.mark.parametrize("command", ["stop", "kill"])
def test_a_stop_while_the_server_is_away(rig: Rig, server: Server, command: str) -> None:
    """The agent is ended at once, said to be off the record; when the server is back it is on record as stopped, and nothing is tried again."""
    rig.start_daemon()
    task_id, run = working(rig, options=("--retries", "2"))
    server.stop()
    done = rig.wk(command, task_id)
    assert f"{task_id}  stopped off the record: the database cannot be used".encode() in done.stdout
    assert run.agent is not None and proc.has_died(run.agent.pid, run.agent.start_ticks, boot_id(), within_s=0)
    server.start()
    assert rig.wait_resting(task_id, keep=False).state is TaskState.STOPPED
    stop, (settled,) = rig.task(task_id).stop, rig.runs(task_id)
    assert stop is not None and stop.how.value == command and settled.kind is FailureKind.STOPPED
    assert rig.started_runs() == [run.id]


def test_a_server_that_only_reads(rig: Rig, server: Server) -> None:
    """Nothing is written meanwhile, looking works, and afterwards it continues."""
    rig.start_daemon()
    task_id, run = working(rig)
    server.ask("ALTER SYSTEM SET default_transaction_read_only TO on")
    server.ask("SELECT pg_reload_conf()")
    wait_until(lambda: b"read-only" in rig.wk("run", "--", "true", check=False).stderr, what="it is read-only")
    assert task_id.encode() in rig.wk("ls").stdout
    let_go(rig)
    wait_until((rig.state / "executions" / run.execution_id / "gone.json").exists, what="the shim has ended")
    wait_until(lambda: "observe" in map(_loop, _log(rig, "tick failed")), what="the end cannot be recorded")
    server.ask("ALTER SYSTEM SET default_transaction_read_only TO off")
    server.ask("SELECT pg_reload_conf()")
    assert rig.wait_resting(task_id, keep=False).state is TaskState.DONE
    assert rig.started_runs() == [run.id]
