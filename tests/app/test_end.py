"""What is alive of a run although a person has settled it."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from app.stage import Verbs
from support.handing import again, retry_with
from support.waiting import wait_until

from watchkeeper.domain.model import AgentIdentity, Proof, RunState, StopHow, TaskState
from watchkeeper.errors import Refused
from watchkeeper.ports.store import Tx
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id

_CODE = "import time; print(flush=True); time.sleep(600)"


@pytest.fixture
def agent() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that carries no mark: it is the agent because the row names it, by pid and start time."""
    process = subprocess.Popen([sys.executable, "-c", _CODE], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    _ = process.stdout.readline()
    yield process
    process.kill()
    _ = process.communicate()


def _held_with(verbs: Verbs, agent: "subprocess.Popen[bytes]", *, later: int = 0) -> None:
    """A held run whose row names this process, or one that bore its pid before (`later`)."""
    held = verbs.held()
    who = proc.identity(agent.pid)
    assert who is not None
    identity = AgentIdentity(pid=who[0], start_ticks=who[1] + later, boot_id=boot_id(), started_at=verbs.clock.now())
    verbs.store.transact("test", lambda tx: tx.runs.save(replace(held, agent=identity), held))


def _forget_effects(verbs: Verbs) -> None:
    def work(tx: Tx) -> None:
        for row in tx.outbox.due(verbs.clock.now(), 100, "m1"):
            tx.outbox.done(row.id)

    verbs.store.transact("test", work)


def _retry(verbs: Verbs) -> None:
    wanted = again(verbs.store)
    _ = retry_with(verbs.store, wanted, environments=verbs.environments, runtime=verbs.runtime, clock=verbs.clock)


def test_an_agent_that_outlived_its_settlement_is_ended_by_the_next_stop(
    verbs: Verbs, agent: "subprocess.Popen[bytes]"
) -> None:
    """The first attempts came to nothing and were given up. Until the agent is dead nothing else is started; the record stays as it is."""
    _held_with(verbs, agent)
    _ = verbs.stop()
    _forget_effects(verbs)
    with pytest.raises(Refused, match=f"still alive .pid {agent.pid}."):
        _retry(verbs)
    before = verbs.run()
    assert (before.state, before.proof) == (RunState.SETTLED, Proof.UNPROVEN)
    assert verbs.stop("t1", StopHow.KILL).state is TaskState.STOPPED
    assert verbs.pending() == 1
    _ = verbs.performer().perform_due()
    wait_until(lambda: agent.poll() is not None, what="the agent was ended")
    assert verbs.run() == before and "run.swept" in verbs.kinds()
    _retry(verbs)


def test_a_stranger_under_the_pid_is_spared(verbs: Verbs, agent: "subprocess.Popen[bytes]") -> None:
    """The start time is another one: no process is signalled, and a retry is not refused for its sake."""
    _held_with(verbs, agent, later=1)
    _ = verbs.stop("t1", StopHow.KILL)
    _ = verbs.performer().perform_due()
    assert agent.poll() is None
    _retry(verbs)
