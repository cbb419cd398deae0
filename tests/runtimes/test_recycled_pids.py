"""A pid is given to a stranger at any moment: no signal comes to the stranger, and it is not taken for a descendant of the agent (R7)."""

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from runtimes.stage import AT, Stage
from support.process_table import FIRST, Process, ProcessTable, every_step

from watchkeeper.app import enforce
from watchkeeper.domain.effects import EndExecution
from watchkeeper.domain.model import AgentIdentity, EndReason, Proof, Run, StopHow
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id
from watchkeeper.runtimes.proc import SignalResult
from watchkeeper.runtimes.sweep import Sweep

if TYPE_CHECKING:
    from watchkeeper.ports.runtime import SweepReport

ID = "execution-of-this-test"
SHIM, AGENT, CHILD, OTHER = range(FIRST, FIRST + 4)


def identity(process: Process) -> AgentIdentity:
    """As a shim would have recorded it."""
    return AgentIdentity(pid=process.pid, start_ticks=process.ticks, boot_id=boot_id(), started_at=AT)


def strangers(table: ProcessTable, was: Process) -> list[Process]:
    """The pid of a dead process goes to a stranger, which has a child of its own in its session."""
    stranger = table.recycle(was, 900, name="stranger")
    return [stranger, table.start(OTHER, 910, parent=stranger.pid, session=stranger.pid, name="stranger")]


@pytest.mark.parametrize("sends", [signal.SIGTERM, signal.SIGKILL, signal.SIGCONT])
def test_a_signal_comes_to_the_recorded_process_or_to_none(
    monkeypatch: pytest.MonkeyPatch, sends: signal.Signals
) -> None:
    seen: set[SignalResult] = set()

    def play(table: ProcessTable, step: int) -> None:
        agent = table.start(AGENT, 50)
        table.at_step(step, lambda: strangers(table, agent))
        seen.add(proc.signal_checked(AGENT, 50, boot_id(), sends))
        assert table.reached() <= {agent}

    assert every_step(monkeypatch, play) == 3
    assert seen == {SignalResult.REACHED, SignalResult.STRANGER, SignalResult.GONE}


def test_a_pidfd_for_waiting_is_of_the_recorded_process_or_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger that lives on does not make a dead agent look alive."""

    def play(table: ProcessTable, step: int) -> None:
        agent = table.start(AGENT, 50)
        table.at_step(step, lambda: strangers(table, agent))
        assert proc.has_died(AGENT, 50, boot_id(), within_s=0.0) is (not agent.alive)

    assert every_step(monkeypatch, play) == 2


@pytest.mark.parametrize("dies", ["agent", "child"])
@pytest.mark.parametrize("marked", [False, True], ids=["known by its record", "known by its mark"])
def test_a_sweep_spares_the_new_bearer_of_a_pid(monkeypatch: pytest.MonkeyPatch, dies: str, marked: bool) -> None:
    """The agent or its child ends during the sweep. Neither the new bearer of its pid nor what that started is touched."""
    reports: list[SweepReport] = []

    def play(table: ProcessTable, step: int) -> None:
        agent = table.start(AGENT, 50, marker=ID if marked else "")
        child = table.start(CHILD, 60, parent=AGENT)
        theirs: list[Process] = []
        table.at_step(step, lambda: theirs.extend(strangers(table, agent if dies == "agent" else child)))
        reports.append(Sweep(ID, None if marked else identity(agent), grace_s=0.0).run())
        assert table.reached() <= {agent, child}
        assert all(stranger.alive for stranger in theirs)
        if not theirs:
            assert not agent.alive and not child.alive, "undisturbed, all that is the agent's is ended"

    assert every_step(monkeypatch, play) > 10
    assert reports[-1].proof is Proof.SWEPT


@pytest.mark.parametrize("older", [10, 40])
def test_a_child_of_a_pids_earlier_bearer_is_not_the_agents(monkeypatch: pytest.MonkeyPatch, older: int) -> None:
    """A stranger is read while its own parent lives. Then that pid goes to a process of the agent's, which is younger than its supposed child."""

    def play(table: ProcessTable, step: int) -> None:
        parent = table.start(AGENT, 5, name="stranger")
        stranger = table.start(SHIM, older, parent=AGENT, name="stranger")  # a lower pid, so it is read first
        ours: list[Process] = []
        table.at_step(step, lambda: ours.append(table.recycle(parent, 50, marker=ID)))
        _ = Sweep(ID, None, grace_s=0.0).run()
        assert table.reached() <= set(ours)
        assert stranger.alive
        reached.update(table.reached())

    reached: set[Process] = set()
    assert every_step(monkeypatch, play) > 5
    assert reached, "the agent's process is ended where it is there in time"


def test_a_sweep_that_may_not_touch_its_shim_is_not_led_to_a_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shim's pid is spared only while it is the shim that bears it; a stranger is spared all the same."""

    def play(table: ProcessTable, step: int) -> None:
        shim = table.start(SHIM, 40, name="shim")
        agent = table.start(AGENT, 50, parent=SHIM)
        table.at_step(step, lambda: strangers(table, shim))
        _ = Sweep(ID, identity(agent), grace_s=0.0, shim=(SHIM, 40)).run()
        assert table.reached() <= {agent}

    assert every_step(monkeypatch, play) > 5


def _hung(stage: Stage, table: ProcessTable, run: Run) -> tuple[Process, Process]:
    """A shim that answers nothing, and its agent."""
    shim = table.start(SHIM, 40, name="shim")
    agent = table.start(AGENT, 50, parent=SHIM, marker=run.execution_id)
    stage.decide(run, pid=SHIM, start_ticks=40)
    stage.agent(run, pid=AGENT, start_ticks=50, shim_pid=SHIM, shim_start_ticks=40, hears_requests=True)
    return shim, agent


def _end(stage: Stage, run: Run, how: StopHow) -> enforce.Step:
    effect = EndExecution(
        run_id=run.id, fence=run.fence, execution_id=run.execution_id, how=how, grace_s=0.0, why=EndReason(how.value)
    )  # fmt: skip
    return enforce.step(stage.runtime, run, effect, lambda sweep: sweep)


Ending = Callable[[Stage, Run], object]
ENDINGS: dict[str, Ending] = {
    "a stop": lambda stage, run: _end(stage, run, StopHow.STOP),
    "a kill": lambda stage, run: _end(stage, run, StopHow.KILL),
    "a sweep that a person asks for": lambda stage, run: stage.runtime.sweep(run, asked=True),
    "an end past the shim": lambda stage, run: stage.runtime.force(run, StopHow.STOP, grace_s=0.0, signalled=False),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("dies", ["shim", "agent"])
def test_an_end_by_force_spares_the_new_bearer_of_a_pid(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, ending: str, dies: str
) -> None:
    """The shim or the agent ends while it is gone past; its pid is a stranger's from any step on."""
    run = stage.prepared(stage.id)
    stage.hold(run)
    reached: set[str] = set()

    def play(table: ProcessTable, step: int) -> None:
        shim, agent = _hung(stage, table, run)
        theirs: list[Process] = []
        table.at_step(step, lambda: theirs.extend(strangers(table, shim if dies == "shim" else agent)))
        _ = ENDINGS[ending](stage, run)
        assert table.reached() <= {shim, agent}
        assert all(stranger.alive for stranger in theirs)
        reached.update(process.name for process in table.reached())

    assert every_step(monkeypatch, play) > 10
    assert reached == {"shim", "program"}, "undisturbed, both are ended"


@pytest.mark.parametrize("dies", ["shim", "agent"])
def test_an_end_by_the_row_alone_spares_the_new_bearer_of_a_pid(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    """The directory is missing, so that the agent is known by its row, and its shim as its parent."""
    run = stage.prepared(stage.id)
    stage.directory(run).rename(stage.state / "executions" / "moved")
    row = {"agent": AgentIdentity(pid=AGENT, start_ticks=50, boot_id=boot_id(), started_at=AT)}
    run = stage.run(stage.id, directory=run.directory, **row)

    def play(table: ProcessTable, step: int) -> None:
        shim = table.start(SHIM, 40, name="shim")
        agent = table.start(AGENT, 50, parent=SHIM, marker=run.execution_id)
        table.at_step(step, lambda: strangers(table, shim if dies == "shim" else agent))
        _ = stage.runtime.force(run, StopHow.KILL, grace_s=None, signalled=False)
        assert table.reached() <= {shim, agent}

    assert every_step(monkeypatch, play) > 10


def test_a_run_whose_agents_pid_is_a_strangers_has_no_living_agent(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stage.prepared(stage.id)

    def play(table: ProcessTable, step: int) -> None:
        _, agent = _hung(stage, table, run)
        table.at_step(step, lambda: strangers(table, agent))
        found = stage.runtime.living_agent(run)
        assert (found is not None) is agent.alive

    assert every_step(monkeypatch, play) >= 2
