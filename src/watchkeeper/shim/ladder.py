"""How an execution ends: by itself or step by step, recorded before and after, until nothing is left of it.

    asked to end ─▶ stop.json ─▶ TERM ─▶ grace ─▶ KILL ─▶ the agent is reaped ─▶ exit.json ─▶ what it left: TERM ─▶ grace ─▶ KILL ─▶ ECHILD ─▶ gone.json

An agent that ends by itself enters at "reaped". The steps are driven by what is so at each turn of the loop, not by what was seen to happen: a child that is
forked while we look is met at the next turn.
"""

import errno
import os

from . import records, system, tree
from .child import Forked
from .crash import crashpoint
from .spec import Spec
from .timers import Timers

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from collections.abc import Callable

_AGAIN_S = 1.0
_SOON_S = 0.01
_SELDOM_S = 1.0
_BURST_S = 0.05
_MOST_LISTED = 100
_RESERVED = 16 * 1024


class Ladder:
    """Ends the agent and what it left, and writes down how."""

    def __init__(
        self,
        directory: int,
        spec: Spec,
        timers: Timers,
        complain: "Callable[[str], None]",
        told: "Callable[[], None]",
        flush: "Callable[..., bool]",
    ) -> None:
        """`told` is called after each record that others wait for, `flush` before each: it puts what was printed into the logs, and says whether it could."""
        self._directory = directory
        self._spec = spec
        self._timers = timers
        self._complain = complain
        self._told = told
        self._flush = flush
        self._forked: Forked | None = None
        self._began = 0.0
        self._proves = False
        self.how: str | None = None
        """Why the agent is being ended; None while it is not being ended, and for one that has ended by itself."""
        self.ended = False
        """Whether the agent itself has been reaped."""
        self._asked = False
        self._killing = False
        self._kill_pause_s = _SOON_S
        self._exit: dict[str, object] | None = None
        self._leftovers: dict[tuple[int, int], str] = {}
        self._listed = False
        self._signalled: set[tuple[int, int]] = set()
        self._children = tree.Children()
        self._lacks_space = False

    def watch(self, forked: Forked, *, began: float, proves: bool) -> None:
        """From now on this is the agent. `proves`: we are the subreaper, so that ECHILD means that nothing is left."""
        self._forked = forked
        self._began = began
        self._proves = proves

    @property
    def pid(self) -> int:
        """The agent's pid."""
        return self._forked.pid if self._forked is not None else 0

    # Asked to end

    def begin(self, how: str, grace_s: float) -> None:
        """Ask the agent to end, or what it left behind. The first reason is recorded before the first signal and stays."""
        self.reap()
        self._asked = True
        if self.how is None and not self.ended:
            self._record(how)
            # Writing the record takes time. A process that ended meanwhile did so by itself, not by our signal.
            self.reap()
            self.how = None if self.ended else how
        if how == "kill":
            self._timers.cancel("grace", "leftovers")
            self._start_killing()
        elif self._killing:
            return
        elif self.ended:
            self._end_leftovers(min(grace_s, self._spec.leftovers_grace_s))
        elif "grace" in self._timers:
            self._timers.no_later("grace", grace_s)
        else:
            tree.signal_agent(self.pid, system.SIGTERM)
            tree.signal_agent(self.pid, system.SIGCONT)  # one that was halted could not even hear it
            self._timers.start("grace", grace_s)

    def _record(self, how: str) -> None:
        try:
            records.write(self._directory, "stop.json", {"how": how, "at": system.now()})
        except OSError as problem:
            # A full disk must not keep an agent from being ended; the exit record, whose space is reserved, will name the reason.
            self._complain(f"the reason for ending cannot be recorded: {problem.strerror}")

    def _end_leftovers(self, grace_s: float) -> None:
        if "leftovers" in self._timers:
            self._timers.no_later("leftovers", grace_s)
            return
        self._timers.start("leftovers", grace_s)
        self._timers.cancel("grace")
        self._list_leftovers()
        self._signalled.update((pid, ticks) for pid, _, ticks in tree.signal_all(system.SIGTERM))

    # Killing

    def on_timer(self, name: str) -> None:
        """A grace is over, or it is time to kill once more."""
        if name in {"grace", "leftovers"}:
            self._start_killing()
        elif name == "kill":
            self._kill()

    def _start_killing(self) -> None:
        self._killing = True
        self._kill_pause_s = _SOON_S
        self._timers.start("kill", 0.0)

    def _kill(self) -> None:
        """One round: every process, then those that appear instead, until no more appear or the round has taken too long.

        A process that forks and exits without end is always gone by the time it was found. Its newest child is ours, and to be quick is to catch it.
        """
        if not self.ended:
            tree.signal_agent(self.pid, system.SIGKILL)
        reached = {(pid, ticks) for pid, _, ticks in tree.signal_all(system.SIGKILL)}
        if self.ended:
            self._list_leftovers()
            self._signalled |= reached
        until = system.boottime() + _BURST_S
        progress = False
        while system.boottime() < until:
            self._children.kill()
            was_ended = self.ended
            nothing_left, reaped = self._collect()
            progress = progress or reaped > 0
            if nothing_left or not reaped or was_ended is not self.ended:
                break
        # A process that cannot be killed, because it waits for a disk or belongs to another user, is tried again at growing intervals.
        self._kill_pause_s = _SOON_S if progress or not reached else min(self._kill_pause_s * 2, _SELDOM_S)
        self._timers.start("kill", self._kill_pause_s)

    # Ended

    def reap(self) -> bool:
        """Collect what has ended; True if nothing descends from us."""
        return self._collect()[0]

    def _collect(self) -> tuple[bool, int]:
        reaped = 0
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return True, reaped
            if pid == 0:
                return False, reaped
            reaped += 1
            if pid == self.pid:
                self._agent_ended(status, used)

    def _agent_ended(self, status: int, used: "resource.struct_rusage") -> None:
        """The agent itself is gone, and from here on its pid may belong to another process."""
        failure = self._forked.failure() if self._forked is not None else None
        step, number = failure if failure is not None else (None, None)
        self.ended = True
        self._exit = {
            "status": status if failure is None else None,
            "reason": (self.how or "exited") if failure is None else "spawn_failed",
            "errno": number,
            "step": step,
            "path": self._failed_at(step),
            "at": system.now(),
            "elapsed_s": round(system.boottime() - self._began, 6),
            "max_rss_kib": used.ru_maxrss,
            "user_s": used.ru_utime,
            "system_s": used.ru_stime,
        }
        self._timers.cancel("deadline", "silence")

    def _failed_at(self, step: str | None) -> str | None:
        """The directory or program without which the agent could not be started."""
        if step in {None, "prepare", "limits"}:
            return None
        path = self._spec.cwd if step in {"chdir", "directory", "branch"} else self._spec.argv[0] or b""
        return path.decode("utf-8", "replace") or None

    def _list_leftovers(self) -> None:
        self._listed = True
        for pid, _, ticks in tree.descendants():
            if len(self._leftovers) >= _MOST_LISTED:
                return
            if (pid, ticks) not in self._leftovers:
                self._leftovers[(pid, ticks)] = system.command(pid)

    def count_living(self) -> int:
        """How many the agent left that still live."""
        return len(tree.descendants()) if self.ended else 0

    # One turn

    def advance(self) -> bool:
        """Collect, do the next step, write what is to be written; True when all is done."""
        nothing_left, reaped = self._collect()
        if self._exit is not None and "again" not in self._timers:
            _ = self._flush(last=False)  # a log that takes nothing must not keep the end from being known
            if self._write_exit(self._exit):
                self._exit = None
        if not self.ended:
            return False
        if nothing_left:
            return self._exit is None and "again" not in self._timers and self._finish()
        if not self._listed:
            self._list_leftovers()
        if self._killing:
            if reaped:
                self._timers.no_later("kill", 0.0)  # the children of who has just died are ours now
        elif (self._spec.leftovers == "kill" or self._asked) and "leftovers" not in self._timers:
            rest = self._timers.remaining("grace")
            grace_s = self._spec.leftovers_grace_s
            self._end_leftovers(grace_s if rest is None else min(rest, grace_s))
        return False

    def _write_exit(self, record: dict[str, object]) -> bool:
        """Write the exit record, for as long as it takes; its space was reserved."""
        if self._try("exit.json", record):
            release_reserve(self._directory)
            self._told()
            return True
        if release_reserve(self._directory) and self._try("exit.json", record):
            self._told()
            return True
        if self._is_deleted():
            return True
        self._timers.no_later("again", _AGAIN_S)
        return False

    def _finish(self) -> bool:
        if not self._flush(last=True):
            self._timers.no_later("again", _AGAIN_S)
            return False
        return self._write_gone()

    def _write_gone(self) -> bool:
        record: dict[str, object] = {
            "proof": "proven" if self._proves else "unproven",
            "how": "echild",
            "at": system.now(),
            "leftovers": [
                {"pid": pid, "start_ticks": ticks, "command": command}
                for (pid, ticks), command in self._leftovers.items()
            ],
            "killed": len(self._signalled),
        }
        if not self._try("gone.json", record):
            if self._is_deleted():
                return True
            self._timers.no_later("again", _AGAIN_S)
            return False
        self._told()
        return True

    def _is_deleted(self) -> bool:
        """Whether the directory was deleted. Nothing can be written there again, and no daemon would find it: the shim ends with what it supervised."""
        try:
            return os.fstat(self._directory).st_nlink == 0
        except OSError:
            return False

    def _try(self, name: str, record: dict[str, object]) -> bool:
        try:
            records.write(self._directory, name, record)
        except OSError as problem:
            if not self._lacks_space:
                self._complain(f"{name} cannot be written yet: {problem.strerror}")
            self._lacks_space = True
            return False
        self._lacks_space = False
        return True


def reserve_space(directory: int) -> None:
    """Set space aside, so that a full disk does not keep the exit record from being written. Raises OSError."""
    fd = os.open(
        "exit.reserve", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, records.MODE, dir_fd=directory
    )
    try:
        crashpoint("shim.reserve.before")
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(fd, 0, _RESERVED)
            except OSError as problem:
                if problem.errno not in {errno.EOPNOTSUPP, errno.EINVAL}:
                    raise  # a disk that is full already; one that cannot reserve is asked when the time has come
        crashpoint("shim.reserve.after")
    finally:
        os.close(fd)


def release_reserve(directory: int) -> bool:
    """Give the space back; True if there was some."""
    try:
        os.unlink("exit.reserve", dir_fd=directory)
    except OSError:
        return False
    return True
