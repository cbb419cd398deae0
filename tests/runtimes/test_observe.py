"""Evidence is read in the order that makes it exact, and says unknown where it is."""

import os
import resource
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import pytest
from runtimes.stage import Child, Stage

from watchkeeper.domain.evidence import DecidedBy, DirectoryState, Evidence, LockState, VerdictKind, judge
from watchkeeper.domain.model import DirectoryIdentity, Run
from watchkeeper.runtimes import atomic, observation, proc
from watchkeeper.runtimes.boot import boot_id, pid_namespace
from watchkeeper.runtimes.executions import OpenExecution
from watchkeeper.runtimes.locks import HeldLock

T = TypeVar("T")


def seen(stage: Stage, run: Run, *, stop_asked: bool = False) -> Evidence:
    return stage.runtime.observe(run, stop_asked=stop_asked)


def got(value: T | None) -> T:
    """What must be there."""
    assert value is not None
    return value


def verdict(stage: Stage, run: Run) -> VerdictKind:
    return judge(seen(stage, run)).kind


def test_a_life_is_seen_step_by_step(stage: Stage) -> None:
    """From prepared to gone, with the facts of each record."""
    run = stage.prepared(shim_started_at=stage.clock.now())
    evidence = seen(stage, run, stop_asked=True)
    assert (evidence.directory, evidence.lock, evidence.decision) == (DirectoryState.INTACT, LockState.FREE, None)
    assert (evidence.boot_id, evidence.pid_namespace, evidence.stop_asked) == (boot_id(), pid_namespace(), True)
    assert verdict(stage, run) is VerdictKind.WAITING
    shim, agent = stage.start("cat"), stage.start("cat")
    lock = stage.hold(run)
    assert seen(stage, run).lock is LockState.HELD
    stage.decide(run, shim=shim)
    assert got(seen(stage, run).decision).by is DecidedBy.SHIM
    assert verdict(stage, run) is VerdictKind.WAITING
    stage.agent(run, agent=agent, shim=shim)
    assert got(seen(stage, run).agent).pid == agent.pid
    assert verdict(stage, run) is VerdictKind.ALIVE
    stage.exit(run)
    assert got(seen(stage, run).exit).exit_code == 1
    assert not judge(seen(stage, run)).final
    stage.gone(run)
    assert got(seen(stage, run).gone).leftovers[0].command == "sleep"
    assert judge(seen(stage, run)).final
    lock.close()
    shim.die()
    assert judge(seen(stage, run)).final


def test_a_killed_shim_is_seen(stage: Stage) -> None:
    """Before and after it let the agent start, on this boot and on another."""
    run = stage.prepared()
    (stage.directory(run) / "lock").touch()
    stage.decide(run)
    assert verdict(stage, run) is VerdictKind.NEVER_LAUNCHED
    stage.agent(run)
    assert verdict(stage, run) is VerdictKind.SHIM_DIED
    stage.decide(run, boot_id="before")
    stage.agent(run, boot_id="before")
    assert verdict(stage, run) is VerdictKind.LOST_TO_REBOOT
    (stage.directory(run) / "lock").unlink()
    assert verdict(stage, run) is VerdictKind.LOST_TO_REBOOT


def test_a_free_lock_does_not_outweigh_a_living_shim(stage: Stage) -> None:
    """The lock's file was deleted or replaced: whether the shim lives is unknown, and its agent is not ended."""
    run = stage.prepared()
    shim = stage.start("cat")
    stage.hold(run)
    stage.decide(run, shim=shim)
    stage.agent(run, shim=shim)
    lock = stage.directory(run) / "lock"
    lock.unlink()
    assert verdict(stage, run) is VerdictKind.UNKNOWN
    lock.touch()
    assert verdict(stage, run) is VerdictKind.UNKNOWN
    shim.die()
    assert verdict(stage, run) is VerdictKind.SHIM_DIED


def test_a_dead_shim_whose_lock_was_deleted_is_dead(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its identity says so; and what it wrote between our reading and its death is read."""
    run = stage.prepared(shim_started_at=stage.clock.now())
    shim = stage.python("import time; print(flush=True); time.sleep(600)")
    shim.line()
    stage.decide(run, shim=shim)
    stage.agent(run, shim=shim)
    has_died = proc.has_died

    def dies_now(pid: int, start_ticks: int, boot_id: str, *, within_s: float) -> bool:
        if shim.running:
            stage.exit(run)
            shim.die()
        return has_died(pid, start_ticks, boot_id, within_s=within_s)

    monkeypatch.setattr(proc, "has_died", dies_now)
    evidence = seen(stage, run)
    assert evidence.lock is LockState.FREE
    assert evidence.exit is not None


def test_a_directory_is_known_by_device_and_inode(stage: Stage) -> None:
    """A missing one is absent, any other one is foreign, whatever is in it."""
    run = stage.prepared()
    path, aside = stage.directory(run), stage.state / "aside"
    path.rename(aside)
    assert seen(stage, run).directory is DirectoryState.ABSENT
    shutil.copytree(aside, path)
    assert seen(stage, run).directory is DirectoryState.FOREIGN
    shutil.rmtree(path)
    path.symlink_to(aside)
    assert seen(stage, run).directory is DirectoryState.FOREIGN
    path.unlink()
    path.write_text("a file")
    assert seen(stage, run).directory is DirectoryState.FOREIGN
    path.unlink()
    aside.rename(path)
    assert seen(stage, run).directory is DirectoryState.INTACT
    assert seen(stage, replace(run, directory=None)).directory is DirectoryState.FOREIGN
    known = got(run.directory)
    device = known.device + 1
    assert (
        seen(stage, replace(run, directory=DirectoryIdentity(device=device, inode=known.inode))).directory
        is DirectoryState.FOREIGN
    )


def test_a_closed_directory_is_unreadable(stage: Stage) -> None:
    """It may be ours, but nothing can be said."""
    run = stage.prepared()
    assert seen(stage, run).directory is DirectoryState.INTACT
    stage.directory(run).chmod(0)
    nobody = 65534
    if os.geteuid() == 0:
        os.seteuid(nobody)  # root reads everything; another user does not
    try:
        assert seen(stage, run).directory is DirectoryState.UNREADABLE
    finally:
        if os.getuid() == 0:
            os.seteuid(0)


@pytest.mark.parametrize("change", [{"task_id": "x"}, {"id": "x"}, {"fence": 8}])
def test_a_directory_of_another_run_is_foreign(stage: Stage, change: dict[str, object]) -> None:
    """The spec must name this task, run and fence."""
    run = stage.prepared()
    assert seen(stage, replace(run, **change)).directory is DirectoryState.FOREIGN


def test_a_directory_of_another_database_is_foreign(stage: Stage) -> None:
    """A restored copy does not take over what belongs to the original."""
    run = stage.run()
    run = replace(run, directory=stage.runtime.prepare(stage.request(run, database_id="db2")))
    assert seen(stage, run).directory is DirectoryState.FOREIGN


@pytest.mark.parametrize("name", ["decide", "proc.json", "exit.json", "gone.json", "spec.json"])
@pytest.mark.parametrize("damage", ["torn", "empty", "fifo", "directory", "symlink", "huge"])
def test_a_damaged_record_is_named(stage: Stage, name: str, damage: str) -> None:
    """It is there and says nothing: the verdict is unknown, never a guess, and no look waits for a fifo."""
    run = stage.prepared()
    shim = stage.start("cat")
    stage.hold(run)
    stage.decide(run, shim=shim)
    stage.agent(run, shim=shim)
    stage.exit(run)
    stage.gone(run)
    path = stage.directory(run) / name
    whole = path.read_bytes()
    path.unlink()
    match damage:
        case "torn":
            path.write_bytes(whole[: len(whole) // 2])
        case "empty":
            path.touch()
        case "fifo":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "symlink":
            (stage.state / "elsewhere").write_bytes(whole)
            path.symlink_to(stage.state / "elsewhere")
        case _:
            path.write_bytes(whole[:-1] + b" " * 5_000_000 + b"}")
    evidence = seen(stage, run)
    assert name in evidence.unreadable
    assert judge(evidence).kind is VerdictKind.UNKNOWN
    assert name in judge(evidence).reason


@pytest.mark.parametrize("name", ["decide", "proc.json", "exit.json", "spec.json"])
def test_a_record_that_was_taken_away_is_missed(stage: Stage, name: str) -> None:
    """The records after it prove that it was there once; without them it would read as 'never happened'."""
    run = stage.prepared()
    (stage.directory(run) / "lock").touch()
    stage.decide(run)
    stage.agent(run)
    stage.exit(run)
    stage.gone(run)
    (stage.directory(run) / name).unlink()
    evidence = seen(stage, run)
    assert evidence.unreadable == (name,)
    assert judge(evidence).kind is VerdictKind.UNKNOWN


def test_records_that_contradict_the_decision_are_named(stage: Stage) -> None:
    """An agent of another shim, or one where no agent was launched."""
    run = stage.prepared()
    (stage.directory(run) / "lock").touch()
    stage.decide(run)
    stage.agent(run, shim_start_ticks=99)
    assert seen(stage, run).unreadable == ("proc.json",)
    stage.agent(run)
    stage.decide(run, DecidedBy.STOP)
    assert seen(stage, run).unreadable == ("proc.json",)
    (stage.directory(run) / "proc.json").unlink()
    assert verdict(stage, run) is VerdictKind.NEVER_LAUNCHED


def test_a_spawn_that_failed_needs_no_agent(stage: Stage) -> None:
    """If the fork itself fails there is no process to record."""
    run = stage.prepared()
    stage.hold(run)
    stage.decide(run)
    stage.exit(run, status=None, reason="spawn_failed", errno=11)
    assert verdict(stage, run) is VerdictKind.ENDED


def test_a_system_in_trouble_is_no_evidence(stage: Stage) -> None:
    """Without a free descriptor nothing can be said about the run, so nothing is."""
    run = stage.prepared()
    seen(stage, run)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are what is wanted
    fillers = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 2, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):  # noqa: PT012 - filling up may raise as well as looking
            while len(fillers) < 100_000:
                fillers.append(os.dup(0))
        for left in range(2):
            # With none, then one descriptor left: the directory opens, and its records do not.
            with pytest.raises(OSError, match="Too many open files"):
                seen(stage, run)
            if left == 0:
                os.close(fillers.pop())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in fillers:
            os.close(fd)


class Interrupted(OpenExecution):
    """Lets the world move on before the n-th access."""

    def __init__(self, fd: int, when: int, happen: Callable[[], None]) -> None:
        super().__init__(fd)
        self.when, self.happen, self.accesses = when, happen, 0

    def _step(self) -> None:
        if self.accesses == self.when:
            self.happen()
        self.accesses += 1

    def read(self, name: str) -> bytes | None:
        """Read a record."""
        self._step()
        return super().read(name)

    def exists(self, name: str) -> bool:
        """Look for a name."""
        self._step()
        return super().exists(name)

    def lock(self) -> LockState:
        """Look at the lock."""
        self._step()
        return super().lock()


def interrupted(stage: Stage, run: Run, when: int, happen: Callable[[], None]) -> tuple[VerdictKind, bool]:
    """The verdict if `happen` comes before the access `when`, and whether it came at all."""
    with atomic.directory(stage.directory(run)) as fd:
        files = Interrupted(fd, when, happen)
        found = observation.gather(files, boot_id=boot_id(), pid_namespace=pid_namespace())
    evidence = Evidence(
        directory=DirectoryState.INTACT,
        lock=found.lock,
        decision=found.decision and found.decision.record,
        agent=found.agent and found.agent.agent,
        exit=found.exit,
        gone=found.gone,
        unreadable=tuple(found.unreadable),
        boot_id=boot_id(),
        pid_namespace=pid_namespace(),
        since_spawn_s=100.0,
    )
    return judge(evidence).kind, files.accesses > when


def test_a_shim_that_starts_while_we_look_is_never_taken_for_dead(stage: Stage) -> None:
    """Between any two reads: it has decided, and perhaps its agent runs already. Read the other way round, lock first, this fails."""
    verdicts = []
    for when in range(100):
        run = stage.prepared(f"start{when}")
        shim, agent = stage.start("cat"), stage.start("cat")

        def happen(run: Run = run, shim: Child = shim, agent: Child = agent) -> None:
            stage.hold(run)
            stage.decide(run, shim=shim)
            stage.agent(run, agent=agent, shim=shim)

        kind, happened = interrupted(stage, run, when, happen)
        if not happened:
            break
        verdicts.append(kind)
    assert len(verdicts) >= 6
    # TAKE_DECISION is harmless: the shim has published already, so any other process that tries is second.
    assert set(verdicts) == {VerdictKind.ALIVE, VerdictKind.TAKE_DECISION}


@pytest.mark.parametrize("killed", [False, True])
def test_a_shim_that_ends_while_we_look_is_seen_alive_or_ended(stage: Stage, killed: bool) -> None:
    """Between any two reads: never as not launched, and as killed only if it was."""
    verdicts = []
    for when in range(100):
        run = stage.prepared(f"end{when}")
        shim, agent = stage.start("cat"), stage.start("cat")
        lock = stage.hold(run)
        stage.decide(run, shim=shim)
        stage.agent(run, agent=agent, shim=shim)

        def happen(run: Run = run, shim: Child = shim, lock: HeldLock = lock) -> None:
            if not killed:
                stage.exit(run)
                stage.gone(run)
            lock.close()
            shim.die()

        kind, happened = interrupted(stage, run, when, happen)
        if not happened:
            break
        verdicts.append(kind)
    assert len(verdicts) >= 6
    assert set(verdicts) == {VerdictKind.ALIVE, VerdictKind.SHIM_DIED if killed else VerdictKind.ENDED}


def test_a_directory_that_is_swapped_while_we_look_is_foreign(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read is not what is there now."""
    run = stage.prepared()
    real = observation.gather

    def swap(files: OpenExecution, *, boot_id: str, pid_namespace: str) -> observation.Gathered:
        found = real(files, boot_id=boot_id, pid_namespace=pid_namespace)
        stage.directory(run).rename(stage.state / "aside")
        shutil.copytree(stage.state / "aside", stage.directory(run))
        return found

    monkeypatch.setattr(observation, "gather", swap)
    assert seen(stage, run).directory is DirectoryState.FOREIGN


def test_patience_is_measured_on_a_clock_that_does_not_jump(stage: Stage) -> None:
    """Setting the time of day neither gives a launch up nor keeps it forever."""
    run = stage.prepared(shim_started_at=stage.clock.now())
    assert seen(stage, run).since_spawn_s == 0.0
    stage.clock.wall += timedelta(hours=3)
    assert seen(stage, run).since_spawn_s == 0.0
    stage.clock.wall -= timedelta(hours=9)
    stage.clock.boottime += 6.0
    assert seen(stage, run).since_spawn_s == 6.0
    assert verdict(stage, run) is VerdictKind.TAKE_DECISION


def test_a_shim_from_before_us_has_waited_already(stage: Stage) -> None:
    """A new daemon takes the recorded start for what it is, unless it lies in the future."""
    run = stage.prepared(shim_started_at=stage.clock.now() - timedelta(seconds=4))
    assert seen(stage, run).since_spawn_s == 4.0
    stage.clock.step(2.0)
    assert seen(stage, run).since_spawn_s == 6.0
    ahead = stage.prepared("ahead", shim_started_at=stage.clock.now() + timedelta(hours=1))
    assert seen(stage, ahead).since_spawn_s == 0.0
    stage.clock.step(7.0)
    assert seen(stage, ahead).since_spawn_s == 7.0
    assert seen(stage, stage.prepared("none")).since_spawn_s is None


def test_later_runs_get_more_time_to_start(stage: Stage) -> None:
    """So a slow machine does not give up every launch forever."""
    run = stage.prepared()
    graces = [seen(stage, replace(run, number=number)).start_grace_s for number in (1, 2, 6, 50)]
    assert graces == [5.0, 10.0, 30.0, 30.0]
