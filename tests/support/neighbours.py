"""Bad neighbours: ten kinds of run that are in trouble, beside a stream of small ones whose way from hand-over to outcome is timed.

Each kind is the real thing as far as an ordinary user can make it: a log of sixty gigabytes without data, a pipe in place of a log, a git that hangs for its
directory alone. Two kinds need root and a mount namespace: a directory on a dead mount and a full disk. Without them a git that stops the look itself, which
then answers nothing at all, stands for the dead mount, and a limit on the size of files for the full disk.
"""

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from support.mounts import DyingMount, small_disk, unmount
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import FINAL_TASK_STATES, Run, RunState
from watchkeeper.runtimes import proc, records
from watchkeeper.runtimes.boot import boot_id

HUGE = 60 * 1024**3
SECRET_BYTES = 120_000
"""Of each of sixteen secrets."""

GIT = """#!/bin/sh
case "$PWD $(tr '\\0' ' ' < /proc/$PPID/cmdline)" in
*/hung-git*workspaces.looker*) sleep 1000 & sleep 1000;;
*/dead-mount*workspaces.looker*) kill -STOP $PPID; sleep 1000;;
esac # a command that hands a task over waits for its caller's own directory, and gets an answer
exec "{real}" "$@"
"""


@dataclass
class Neighbourhood:
    """One installation with room for everybody."""

    rig: Rig
    mib: int = 4
    """How much the run with one endless line writes."""
    forks: int = 300
    """How many processes the run that forks starts."""
    bad: dict[str, str] = field(default_factory=dict)
    """By kind, the task."""
    with_mounts: bool = False
    """The dead mount and the full disk are real ones."""
    dying: DyingMount | None = None

    @classmethod
    def at(cls, root: Path, mib: int = 4, forks: int = 300, *, with_mounts: bool = False) -> "Neighbourhood":
        """A fresh one, whose git hangs in some directories. `with_mounts` needs a mount namespace of our own."""
        real = next(
            str(Path(each) / "git") for each in os.environ["PATH"].split(os.pathsep) if (Path(each) / "git").exists()
        )
        bin_ = root / "bin"
        bin_.mkdir(parents=True)
        (bin_ / "git").write_text(GIT.format(real=real), encoding="utf-8")
        (bin_ / "git").chmod(0o755)
        settings = {
            "PATH": f"{bin_}:{os.environ['PATH']}",
            "WATCHKEEPER_QUEUE_LIMIT": "40",
            "WATCHKEEPER_DAEMON_LOOK_LIMIT": "600",
            "WATCHKEEPER_DAEMON_START_GRACE": "30",
        }
        return cls(Rig(root / "rig", settings=settings), mib, forks, with_mounts=with_mounts)

    def stream(self, many: int) -> list[float]:
        """Seconds from hand-over to outcome of so many runs of `true`, one after the other."""
        took: list[float] = []
        for _ in range(many):
            began = time.monotonic()
            done = self.rig.wk("run", "--json", "--shared", "--wait", "--", "true")
            took.append(time.monotonic() - began)
            assert json.loads(done.stdout.splitlines()[-1])["state"] == "done"
        return took

    def begin(self) -> None:
        """All ten kinds, each brought into its trouble."""
        root = self.rig.root
        for name in ("hung-git", "deleted"):
            (root / name).mkdir()
        (root / "hung-git" / ".git").mkdir()
        for number in range(16):
            (root / f"key{number}").write_bytes(os.urandom(SECRET_BYTES // 2).hex().encode())
        gate = root / "gate"
        wait = f'while ! [ -e "{gate}" ]; do sleep 0.05; done'
        self._hand_over("sparse log", f"echo begin; {wait}; echo end")
        self._hand_over("pipe for a log", f"echo begin; {wait}")
        self._hand_over("secrets", f"{wait}; seq 1000", secrets=True)
        self._hand_over("forks", f"i=0; while [ $i -lt {self.forks} ]; do (sleep 0.01 &); i=$((i+1)); done")
        self._hand_over("stopped shim", "sleep 1000")
        self._hand_over("deleted directory", wait, cwd=root / "deleted")
        self._fill_a_disk(wait)
        self._hand_over("hung git", "true", cwd=root / "hung-git")
        self._hand_over("one line", f"head -c {self.mib * 1024 * 1024} /dev/zero | tr '\\0' x; {wait}")
        for kind in ("sparse log", "pipe for a log", "stopped shim", "deleted directory", "secrets"):
            wait_until(lambda kind=kind: self._works(kind), within_s=60, what=f"{kind} works")
        self._enter_a_dead_mount()
        self._spoil()
        gate.touch()

    def stop_daemon(self) -> float:
        """Seconds that `wk daemon stop` takes."""
        began = time.monotonic()
        self.rig.wk("daemon", "stop")
        return time.monotonic() - began

    def detail(self, kind: str, command: str) -> str:
        """What a command says of one of the bad ones."""
        return self.rig.wk(command, self.bad[kind]).stdout.decode()

    def state(self, kind: str) -> str:
        """The state of one of the bad ones and of its run, and why."""
        task, run = self.rig.task(self.bad[kind]), self._run(kind)
        return f"{task.state.value}, run {run.state.value if run else 'none'}; {task.reason}"

    def settled(self, kind: str) -> bool:
        """Whether the outcome of one is decided."""
        return self.rig.task(self.bad[kind]).state in FINAL_TASK_STATES

    def close(self) -> None:
        """End everything, the stopped shim too."""
        if self.dying is not None:
            self.dying.close()
        self.rig.close()
        small = self.rig.root / "small"
        if small.is_mount():
            unmount(small)

    def _fill_a_disk(self, wait: str) -> None:
        if not self.with_mounts:
            self._hand_over("full disk", "ulimit -f 64; yes | head -c 10000000 > big; " + wait, cwd=self.rig.repo)
            return
        small = self.rig.root / "small"
        small.mkdir()
        small_disk(small, 64)
        self._hand_over("full disk", "yes > big; " + wait, cwd=small)

    def _enter_a_dead_mount(self) -> None:
        """A mount answers while the task is handed over, and is dead when its launch looks at it."""
        if not self.with_mounts:
            (self.rig.root / "dead-mount" / ".git").mkdir(parents=True)
            self._hand_over("dead mount", "true", cwd=self.rig.root / "dead-mount")
            return
        place = self.rig.root / "mount"
        place.mkdir()
        self.dying = DyingMount(place)
        self.rig.wk("queue", "pause")
        self._hand_over("dead mount", "true", cwd=place)
        self.dying.die()
        self.rig.wk("queue", "resume")

    def _hand_over(self, kind: str, script: str, *, cwd: Path | None = None, secrets: bool = False) -> None:
        where = ["--cwd", str(cwd)] if cwd is not None else []
        names = [f"BIG_SECRET_KEY{number}" for number in range(16)] if secrets else []
        asked = [word for name in names for word in ("--env", name)]
        argv = ["run", "--json", "--shared", *where, *asked, "--", "sh", "-c", script]
        held = {name: (self.rig.root / f"key{number}").read_text() for number, name in enumerate(names)}
        before = self.rig.settings
        self.rig.settings = {**before, **held}
        try:
            self.bad[kind] = str(json.loads(self.rig.wk(*argv).stdout)["id"])
        finally:
            self.rig.settings = before

    def _run(self, kind: str) -> Run | None:
        runs = self.rig.runs(self.bad[kind])
        return runs[-1] if runs else None

    def _works(self, kind: str) -> bool:
        run = self._run(kind)
        return run is not None and run.state is RunState.RUNNING

    def _spoil(self) -> None:
        def log(kind: str) -> Path:
            run = self._run(kind)
            assert run is not None
            return self.rig.state / "executions" / run.execution_id / "stdout.log"

        os.truncate(log("sparse log"), HUGE)
        pipe = log("pipe for a log")
        pipe.unlink()
        os.mkfifo(pipe)
        (self.rig.root / "deleted").rmdir()
        shim = records.parse_agent((log("stopped shim").parent / records.AGENT).read_bytes())
        import signal

        _ = proc.signal_checked(shim.shim_pid, shim.shim_start_ticks, boot_id(), signal.SIGSTOP)


def p99(values: list[float]) -> float:
    """The value that 99 of 100 do not exceed; of fewer than a hundred, the last but one."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 2, int(len(ordered) * 0.99))]
