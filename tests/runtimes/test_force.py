"""Going past a shim that does not do what it is asked: every process by its identity, and no other process."""

import signal
from dataclasses import replace

from runtimes.stage import Child, Stage
from support.waiting import wait_until

from watchkeeper.domain.model import AgentIdentity, Proof, Run, StopHow
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id

TERM_DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
"""Runs on after a TERM."""


def _hung(stage: Stage, agent: Child) -> tuple[Run, Child]:
    """A run whose shim holds its lock and answers nothing; it does not even listen."""
    run = stage.prepared(stage.id)
    shim = stage.start("cat")
    stage.hold(run)
    stage.decide(run, shim=shim)
    stage.agent(run, agent=agent, shim=shim)
    return run, shim


def test_a_hung_shim_goes_last(stage: Stage) -> None:
    """The agent has its grace, then KILL; then the shim, which would keep its lock forever."""
    agent = stage.python(TERM_DEAF, WATCHKEEPER_EXECUTION=stage.id)
    assert agent.line() == "up"
    run, shim = _hung(stage, agent)
    asked = stage.runtime.force(run, StopHow.STOP, grace_s=0.2, signalled=False)
    assert asked.sweep is None and 0 < asked.wait_s <= 0.2
    assert agent.running and shim.running
    made = wait_until(
        lambda: stage.runtime.force(run, StopHow.STOP, grace_s=0.2, signalled=False).sweep, what="the grace is over"
    )
    assert made.proof is Proof.SWEPT
    assert [entry.split()[0] for entry in made.ended] == [str(agent.pid), str(shim.pid)]
    assert not agent.running and not shim.running


def test_a_polite_agent_ends_in_its_grace(stage: Stage) -> None:
    """Nothing waits for the whole of it."""
    agent = stage.start("cat", WATCHKEEPER_EXECUTION=stage.id)
    run, shim = _hung(stage, agent)
    made = wait_until(
        lambda: stage.runtime.force(run, StopHow.STOP, grace_s=60.0, signalled=False).sweep, what="it has ended"
    )
    assert made.proof is Proof.SWEPT
    assert agent.process.wait(10) == -signal.SIGTERM
    assert not shim.running


def test_a_stranger_with_a_recycled_pid_is_never_signalled(stage: Stage) -> None:
    """The records name living processes, for the agent and for the shim, that started at another time: stop and kill touch neither."""
    stranger, other = stage.start("cat"), stage.start("cat")
    run = stage.prepared(stage.id)
    stage.hold(run)
    stage.decide(run, shim=replace(other, start_ticks=other.start_ticks - 1))
    stage.agent(
        run,
        agent=replace(stranger, start_ticks=stranger.start_ticks - 1),
        shim=replace(other, start_ticks=other.start_ticks - 1),
    )
    for how in StopHow:
        made = stage.runtime.force(run, how, grace_s=0.0, signalled=False)
        assert made.sweep is not None and made.sweep.ended == ()
    stage.directory(run).rename(stage.state / "executions" / "moved")
    identity = AgentIdentity(
        pid=stranger.pid, start_ticks=stranger.start_ticks - 1, boot_id=boot_id(), started_at=run.claimed_at
    )
    made = stage.runtime.force(replace(run, agent=identity), StopHow.KILL, grace_s=0.0, signalled=False)
    assert made.sweep is not None and made.sweep.ended == ()
    for spared in (stranger, other):
        assert proc.identity(spared.pid) == (spared.pid, spared.start_ticks)


def test_another_pid_namespace_proves_nothing(stage: Stage) -> None:
    """What is seen from here says nothing of the agent, and that is said; nothing is signalled, also where a person asked."""
    agent = stage.start("cat", WATCHKEEPER_EXECUTION=stage.id)
    run, shim = _hung(stage, agent)
    stage.decide(run, shim=shim, pid_namespace="pid:[1]")
    stage.agent(run, agent=agent, shim=shim, pid_namespace="pid:[1]")
    asked = stage.runtime.sweep(run, asked=True)
    forced = stage.runtime.force(run, StopHow.KILL, grace_s=None, signalled=False).sweep
    for made in (asked, forced):
        assert made is not None and (made.proof, made.ended) == (Proof.UNPROVEN, ())
        assert "another pid namespace" in made.spared[0]
    assert agent.running and shim.running


def test_nothing_is_claimed_of_an_agent_that_may_be_about_to_start(stage: Stage) -> None:
    """Its shim is there, and no record of an agent yet."""
    run = stage.prepared(stage.id)
    shim = stage.start("cat")
    stage.hold(run)
    stage.decide(run, shim=shim)
    made = stage.runtime.force(run, StopHow.KILL, grace_s=None, signalled=False).sweep
    assert made is not None and made.proof is Proof.UNPROVEN
    assert shim.running


def test_a_stopped_shim_is_made_to_go_on(stage: Stage) -> None:
    """Before it is asked, by its identity."""
    agent = stage.start("cat", WATCHKEEPER_EXECUTION=stage.id)
    run, shim = _hung(stage, agent)
    shim.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: _state(shim) == "T", what="it is stopped")
    force = stage.runtime._force
    force.wake_shim(run, force._gathered(run))
    wait_until(lambda: _state(shim) != "T", what="it goes on")
    assert agent.running


def _state(child: Child) -> str:
    stat = proc.stat_of(child.pid)
    assert stat is not None
    return stat.state
