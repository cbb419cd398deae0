"""Survivors of a dead shim are found and ended, and no other process is."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from runtimes.stage import AT, Child, Stage, look

from watchkeeper.domain.evidence import DecidedBy
from watchkeeper.domain.model import AgentIdentity, Proof, Run
from watchkeeper.ports.runtime import SweepReport
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id
from watchkeeper.runtimes.proc import Stat
from watchkeeper.runtimes.sweep import Sweep

ESCAPEE = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(f"/proc/self/stat") as stat:
            ticks = stat.read().rpartition(")")[2].split()[19]
        print(os.getpid(), ticks, flush=True)
        while True:
            signal.pause()
    os._exit(0)
os.wait()
if len(sys.argv) > 1:
    signal.pause()
"""

QUIET_CHILD = """
import os, signal, subprocess, sys
setsid = sys.argv[1] == "setsid"
child = subprocess.Popen(["cat"], env={}, stdin=subprocess.PIPE, start_new_session=setsid)
print(child.pid, flush=True)
signal.pause()
"""


def sweep(execution_id: str, agent: AgentIdentity | None = None) -> SweepReport:
    return Sweep(execution_id, agent, grace_s=0.3).run()


def identity(child: Child, ticks: int = 0) -> AgentIdentity:
    return AgentIdentity(pid=child.pid, start_ticks=child.start_ticks + ticks, boot_id=boot_id(), started_at=AT)


def test_a_grandchild_that_left_and_ignores_term_is_ended(stage: Stage) -> None:
    """It has another parent, session and group, and no ear for TERM; its environment gives it away."""
    parent = stage.python(ESCAPEE, WATCHKEEPER_EXECUTION=stage.id)
    pid, ticks = (int(word) for word in parent.line().split())
    parent.process.wait()
    assert proc.identity(pid) == (pid, ticks)
    report = sweep(stage.id)
    assert report.proof is Proof.SWEPT
    assert proc.has_died(pid, ticks, boot_id(), within_s=0)
    assert [entry.split()[0] for entry in report.ended] == [str(pid)]
    assert report.spared == ()


def test_the_polite_get_a_chance(stage: Stage) -> None:
    """TERM comes first."""
    code = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(0))); print('ready', flush=True); signal.pause()"
    child = stage.python(code, WATCHKEEPER_EXECUTION=stage.id)
    assert child.line() == "ready"
    assert sweep(stage.id).proof is Proof.SWEPT
    assert child.line() == "saved"
    assert child.process.wait() == 0


def test_other_executions_are_left_alone(stage: Stage) -> None:
    """Even one that has a similar name, and even below our own."""
    similar = stage.start("cat", WATCHKEEPER_EXECUTION=stage.id + "2")
    nested = stage.python(
        "import os, signal, subprocess\n"
        "child = subprocess.Popen(['cat'], env={'WATCHKEEPER_EXECUTION': 'exec2'}, stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        "signal.pause()",
        WATCHKEEPER_EXECUTION=stage.id,
    )
    inner = int(nested.line())
    ticks = look(inner).start_ticks
    report = sweep(stage.id)
    assert report.proof is Proof.SWEPT
    assert not nested.running
    assert similar.running
    # Its input was our victim's, so it may end by itself; what counts is that it was not on our list.
    assert not any(entry.startswith(f"{inner} ") for entry in report.ended)
    proc.has_died(inner, ticks, boot_id(), within_s=10)


def test_a_stranger_under_the_recorded_pid_is_spared_and_named(stage: Stage) -> None:
    """The pid was given to another process: the record names no living process, so the sweep is complete all the same."""
    stranger = stage.start("cat")
    report = sweep(stage.id, identity(stranger, ticks=-1))
    assert report.proof is Proof.SWEPT
    assert report.ended == ()
    assert report.spared == (
        f"Process {stranger.pid} is not the recorded agent (it started at another time): it was not signalled.",
    )
    assert stranger.process.communicate("still here")[0] == "still here"


def test_the_strangers_session_is_spared_too(stage: Stage) -> None:
    """Nothing follows from a session or group whose number is a stranger's."""
    stranger = stage.start(sys.executable, "-c", f"import os; os.setsid()\n{QUIET_CHILD}", "stay")
    member = int(stranger.line())
    ticks = look(member).start_ticks
    report = sweep(stage.id, identity(stranger, ticks=-1))
    assert report.ended == ()
    assert stranger.running
    assert not proc.has_died(member, ticks, boot_id(), within_s=0)


def test_the_recorded_agent_and_its_quiet_children_are_ended(stage: Stage) -> None:
    """No marker anywhere: the agent is known by its record and the others by descent."""
    for how in ("stay", "setsid"):
        agent = stage.start(sys.executable, "-c", QUIET_CHILD, how)
        child = int(agent.line())
        ticks = look(child).start_ticks
        report = sweep(stage.id, identity(agent))
        assert report.proof is Proof.SWEPT
        assert not agent.running
        assert proc.has_died(child, ticks, boot_id(), within_s=0)


def test_members_of_the_agents_session_are_ended(stage: Stage) -> None:
    """An orphan without a marker is known by the session that the agent leads."""
    code = """
import os, signal
os.setsid()
reading, writing = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.setpgid(0, 0)
        os.write(writing, str(os.getpid()).encode())
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
os.wait()
print(os.read(reading, 20).decode(), flush=True)
signal.pause()
"""
    agent = stage.python(code)
    orphan = int(agent.line())
    stat = look(orphan)
    assert (stat.session, stat.parent == agent.pid) == (agent.pid, False)
    report = sweep(stage.id, identity(agent))
    assert report.proof is Proof.SWEPT
    assert proc.has_died(orphan, stat.start_ticks, boot_id(), within_s=0)


def test_what_may_be_the_agents_is_named_and_nothing_is_claimed(stage: Stage) -> None:
    """The leader is gone, so its session's number proves nothing: the orphan lives, and the sweep is not complete."""
    code = """
import os, signal
os.setsid()
if os.fork() == 0:
    print(os.getpid(), flush=True)
    os.execve("/bin/sleep", ["sleep", "600"], {})
signal.pause()
"""
    agent = stage.python(code)
    orphan = int(agent.line())
    ticks = look(orphan).start_ticks
    agent.die()
    report = sweep(stage.id, identity(agent))
    assert report.proof is Proof.UNPROVEN
    assert report.ended == ()
    assert len(report.spared) == 1
    assert f"Process {orphan} " in report.spared[0]
    assert not proc.has_died(orphan, ticks, boot_id(), within_s=0)
    assert sweep(stage.id + "other", identity(agent)).proof is Proof.UNPROVEN
    proc.signal_checked(orphan, ticks, boot_id(), signal.SIGKILL)


def test_what_started_before_the_agent_is_not_its(stage: Stage) -> None:
    """A marker in an older process was not put there by the agent."""
    older = stage.start("cat", WATCHKEEPER_EXECUTION=stage.id)
    report = sweep(stage.id, identity(older, ticks=+1))
    assert report.ended == ()
    assert older.running


def test_we_survive_our_own_sweep(stage: Stage) -> None:
    """Neither the sweeping process nor its parents are signalled, whatever they carry; everything else is, and the sweep says that it is not complete."""
    code = """
import json, os, subprocess
from watchkeeper.runtimes.proc import Stat
from watchkeeper.runtimes.sweep import Sweep
other = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
report = Sweep(os.environ["WATCHKEEPER_EXECUTION"], None, grace_s=1).run()
print(json.dumps([os.getpid(), os.getppid(), other.wait(), report.proof.value, list(report.spared)]), flush=True)
"""
    shell = stage.start("sh", "-c", '"$0" -c "$1"; echo after', sys.executable, code, WATCHKEEPER_EXECUTION=stage.id)
    me, parent, other, proof, spared = json.loads(shell.line())
    assert shell.line() == "after"
    assert (parent, other, proof) == (shell.pid, -15, "unproven")
    assert sorted(int(sentence.split()[1]) for sentence in spared) == sorted([me, parent])


def test_what_moves_on_after_each_listing_is_caught(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that was listed has gone when it is to be read, and its child was not listed: one listing, or two, show nothing."""
    real, chain = os.listdir, [stage.start("cat", WATCHKEEPER_EXECUTION=stage.id)]

    def listing(path: str) -> list[str]:
        names = real(path)
        if path == "/proc" and len(chain) < 8:
            chain.append(stage.start("cat", WATCHKEEPER_EXECUTION=stage.id))
            chain[-2].die()
        return names

    monkeypatch.setattr(os, "listdir", listing)
    report = sweep(stage.id)
    assert report.proof is Proof.SWEPT
    assert report.ended == (f"{chain[-1].pid} cat",)
    assert not chain[-1].running


def test_a_session_is_the_agents_only_while_its_number_is() -> None:
    """After the leader's end its pid keeps meaning the session, until another process has it."""
    stat = Stat(pid=101, command="x", state="S", parent=1, group=101, session=100, threads=1, start_ticks=9)
    stranger = Stat(pid=100, command="y", state="S", parent=1, group=100, session=100, threads=1, start_ticks=8)
    for all_, expected in (({101: stat}, {101}), ({100: stranger, 101: stat}, set[int]())):
        it = Sweep("exec1", None)
        it._leaders.add((100, 5))
        ours: dict[int, Stat] = {}
        it._add_theirs(ours, list(all_.values()), all_)
        assert set(ours) == expected


def test_a_pid_that_was_given_anew_is_read_anew(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two listings of one look a pid goes from a stranger to the agent's child: it was listed before, and is another process."""
    child = stage.start("cat", WATCHKEEPER_EXECUTION=stage.id)
    real, looks = proc.stat_of, [0]

    def stat_of(pid: int) -> Stat | None:
        found = real(pid)
        if pid == child.pid and found is not None:
            looks[0] += 1
            return found._replace(state="Z", start_ticks=found.start_ticks - 1) if looks[0] == 1 else found
        return found

    monkeypatch.setattr(proc, "stat_of", stat_of)
    it = Sweep(stage.id, None)
    all_, marks, settled = it._scan()
    assert settled and all_[child.pid].start_ticks == child.start_ticks
    assert marks[child.pid].value == "ours"


@pytest.mark.parametrize("mode", ["ab", "rb"])
def test_whoever_can_write_to_the_runs_files_is_doubted(stage: Stage, tmp_path: Path, mode: str) -> None:
    """It shed marker, parent and session, and kept a descriptor: it is named, and nothing is claimed. A reader, such as `tail -f`, does not count."""
    directory = tmp_path / stage.id
    directory.mkdir()
    (directory / "stdout.log").touch()
    with (directory / "stdout.log").open(mode) as log:
        holder = stage.start_with(log, "sleep", "600")
    report = sweep(stage.id)
    assert holder.running and report.ended == ()
    if mode == "ab":
        assert report.proof is Proof.UNPROVEN
        (said,) = report.spared
        assert (
            said
            == f"Process {holder.pid} (sleep) has the run's files open for writing, so it may be the agent's: it was not signalled."
        )
    else:
        assert (report.proof, report.spared) == (Proof.SWEPT, ())
    (directory / "stdout.log").unlink()
    directory.rmdir()
    assert (sweep(stage.id).proof is Proof.UNPROVEN) is (mode == "ab"), "a deleted file is still the run's"


@pytest.mark.parametrize("pause_s", [0.02, 0.001])
def test_a_fork_chain_is_caught_or_nothing_is_claimed(stage: Stage, pause_s: float) -> None:
    """Whatever forks and exits all the time slips through single listings, but not through a claim that nothing is left."""
    code = f"""
import os, time
print("ready", flush=True)
os.close(1)
end = time.monotonic() + 10
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep({pause_s})
"""
    chain = stage.python(code, WATCHKEEPER_EXECUTION=stage.id)
    assert chain.line() == "ready"
    report = sweep(stage.id)
    again = sweep(stage.id)
    assert report.proof is not Proof.SWEPT or again.ended == ()
    assert again.proof is Proof.SWEPT or pause_s < 0.01


@pytest.fixture
def killed_shim(stage: Stage) -> tuple[Run, Child, Child]:
    """A run whose shim was killed while its agent worked on."""
    run = stage.prepared(stage.id)
    agent = stage.start("cat", WATCHKEEPER_EXECUTION=run.execution_id)
    shim = stage.start("cat")
    stage.hold(run)
    stage.decide(run, shim=shim)
    stage.agent(run, agent=agent, shim=shim)
    return run, agent, shim


def test_the_runtime_sweeps_after_a_killed_shim(stage: Stage, killed_shim: tuple[Run, Child, Child]) -> None:
    """Everything is read from the directory."""
    run, agent, shim = killed_shim
    stage.locks[0].close()
    shim.die()
    report = stage.runtime.sweep(run)
    assert report.proof is Proof.SWEPT
    assert report.ended == (f"{agent.pid} cat",)
    assert not agent.running


def test_nothing_is_signalled_while_the_shim_may_live(stage: Stage, killed_shim: tuple[Run, Child, Child]) -> None:
    """The lock is held; or it was taken away under a shim that lives; or the directory is not the one; or a record is torn; or nothing was launched."""
    run, agent, shim = killed_shim

    def refused() -> bool:
        report = stage.runtime.sweep(run)
        return report.proof is Proof.UNPROVEN and report.ended == () and len(report.spared) == 1 and agent.running

    assert refused()
    (stage.directory(run) / "lock").unlink()
    assert refused()
    stage.locks[0].close()
    (stage.directory(run) / "lock").touch()
    assert refused()
    shim.die()
    stage.decide(run, shim=shim, boot_id="another")
    assert refused()
    stage.decide(run, shim=shim, pid_namespace="pid:[1]")
    assert refused()
    stage.write(run, "decide", b"{")
    assert refused()
    stage.decide(run, DecidedBy.RECOVERY)
    assert refused()
    stage.directory(run).rename(stage.state / "executions" / "moved")
    assert refused()
