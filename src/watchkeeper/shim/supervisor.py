"""One execution from the fork to the proof that nothing is left of it: a single loop over descriptors and timers."""

import os
import select
import signal

from . import child, records, system, tree
from .control import Control, hint
from .crash import crashpoint
from .feed import Feed
from .logs import BoundedLogs
from .spec import Spec

_LOGS_EVERY_S = 1.0
_AGAIN_S = 1.0
_REBIND_S = 5.0
_KILL_EVERY_S = 0.02


class Supervisor:
    """Runs the agent once."""

    def __init__(self, directory: int, path: str, spec: Spec, token: bytes, wakeup: int) -> None:
        """`wakeup` is readable whenever a signal has come."""
        self._directory = directory
        self._path = path
        self._spec = spec
        self._wakeup = wakeup
        self._control = Control(spec.socket, token, self._answer)
        self._logs = BoundedLogs(directory, spec.log_limit)
        self._poll = select.poll()
        self._timers: dict[str, float] = {}
        self._how: str | None = None
        self._killing = False
        self._ended = False
        self._exit: dict[str, object] | None = None
        self._spawn_errno: int | None = None
        self._leftovers: list[dict[str, object]] = []
        self._killed: set[int] = set()
        self._feed: Feed | None = None
        self._said = -1
        self._pid = 0
        self._began = 0.0

    # The beginning

    def run(self) -> None:
        """Fork, record, release, and supervise to the end. Raises OSError if it cannot even fork; then no agent ran."""
        argv = child.command_line(self._directory, self._path, self._spec)
        streams = child.open_streams(self._directory, self._spec)
        self._complain(self._control.open())
        forked = child.fork(self._spec, argv, streams)
        self._pid, self._said = forked.pid, forked.said
        streams.close_child_side()
        self._record_agent(forked.pid)
        self._began = system.boottime()
        forked.release()
        if streams.input_pipe is not None:
            first = records.read_bytes(self._directory, "prompt") if self._spec.prompt_by == "stdin" else b""
            self._feed = Feed(self._directory, streams.input_pipe, first)
            self._feed.write()
        hint(self._spec.wake, self._spec.execution)
        if self._spec.deadline_s is not None:
            self._timers["deadline"] = self._began + self._spec.deadline_s
        self._timers["logs"] = self._began + _LOGS_EVERY_S
        if self._control.fileno() < 0:
            self._timers["rebind"] = self._began + _REBIND_S
        self._loop()

    def _record_agent(self, pid: int) -> None:
        record: dict[str, object] = {
            "pid": pid,
            "start_ticks": system.start_ticks(pid),
            "boot_id": system.boot_id(),
            "pid_namespace": system.pid_namespace(),
            "shim_pid": os.getpid(),
            "shim_start_ticks": system.start_ticks(os.getpid()),
            "started_at": system.now(),
        }
        records.write(self._directory, "proc.json", record)

    # The loop

    def _loop(self) -> None:
        self._poll.register(self._wakeup, select.POLLIN)
        self._poll.register(self._said, select.POLLIN)
        if self._control.fileno() >= 0:
            self._poll.register(self._control.fileno(), select.POLLIN)
        watching_feed = -1
        while not self._advance():
            watching_feed = self._watch_feed(watching_feed)
            for fd, _ in self._poll.poll(self._timeout_ms()):
                self._serve(fd)
            for name in [name for name, at in self._timers.items() if at <= system.boottime()]:
                del self._timers[name]
                self._on_timer(name)
        self._control.close()

    def _watch_feed(self, watching: int) -> int:
        """Wait for room in the agent's input only while there is something to write."""
        wanted = self._feed.fileno() if self._feed is not None and self._feed.wants_room else -1
        if wanted != watching:
            if watching >= 0:
                self._poll.unregister(watching)
            if wanted >= 0:
                self._poll.register(wanted, select.POLLOUT)
        return wanted

    def _timeout_ms(self) -> float | None:
        if not self._timers:
            return None
        return max(0.0, min(self._timers.values()) - system.boottime()) * 1000 + 1

    def _serve(self, fd: int) -> None:
        if fd == self._wakeup:
            self._on_signals(os.read(fd, 512))
        elif fd == self._said:
            self._on_said()
        elif fd == self._control.fileno():
            accepted = self._control.accept()
            if accepted is not None:
                self._poll.register(accepted, select.POLLIN)
        elif fd in self._control.clients:
            client = self._control.clients[fd]
            alive = self._control.flush(fd) if client.pending else self._control.serve(fd)
            if alive:
                self._poll.modify(fd, select.POLLOUT if client.pending else select.POLLIN)
            else:
                self._poll.unregister(fd)
        elif self._feed is not None:
            self._feed.write()

    def _on_signals(self, numbers: bytes) -> None:
        if any(number in {signal.SIGTERM, signal.SIGINT, signal.SIGHUP} for number in numbers):
            self._begin_end("interrupted", self._spec.grace_s)

    def _on_said(self) -> None:
        """The child became the agent (end of file), or says by which error it could not."""
        said = os.read(self._said, 32)
        self._poll.unregister(self._said)
        os.close(self._said)
        self._said = -1
        if said:
            self._spawn_errno = int(said)

    def _on_timer(self, name: str) -> None:
        now = system.boottime()
        match name:
            case "deadline":
                self._begin_end("deadline", self._spec.grace_s)
            case "grace" | "leftovers":
                self._killing = True
                self._timers["kill"] = now
            case "kill":
                self._killed |= tree.signal_all(signal.SIGKILL)
                self._timers["kill"] = now + _KILL_EVERY_S
            case "logs":
                self._complain(self._logs.bound())
                if not self._ended:
                    self._timers["logs"] = now + _LOGS_EVERY_S
            case "rebind":
                if self._control.open() is None:
                    self._poll.register(self._control.fileno(), select.POLLIN)
                else:
                    self._timers["rebind"] = now + _REBIND_S
            case _:
                pass  # "again": the records are tried again by every turn of the loop

    # The end

    def _begin_end(self, how: str, grace_s: float) -> None:
        """Ask the agent to end, or what it left behind. The first reason is recorded before the first signal and stays."""
        self._reap()
        if how == "kill":
            self._record_how(how)
            self._timers.pop("grace", None)
            self._killing = True
            self._timers["kill"] = system.boottime()
            return
        if self._killing or "grace" in self._timers:
            return
        self._record_how(how)
        if self._ended:
            self._end_leftovers()
        else:
            tree.signal_agent(self._pid, signal.SIGTERM)
            self._timers["grace"] = system.boottime() + grace_s

    def _record_how(self, how: str) -> None:
        """Before the first signal. An agent that has ended by itself keeps its own reason."""
        if self._how is not None or self._ended:
            return
        try:
            records.write(self._directory, "stop.json", {"how": how, "at": system.now()})
        except OSError as problem:
            # A full disk must not keep an agent from being ended; the exit record, whose space is reserved, will name the reason.
            self._complain(f"the reason for ending cannot be recorded: {problem.strerror}")
        self._how = how

    def _reap(self) -> bool:
        """Collect what has ended; True if nothing descends from us."""
        while True:
            pid = tree.next_ended()
            if pid is None:
                return True
            if pid == 0:
                return False
            if pid == self._pid:
                self._agent_ended()
            else:
                os.waitpid(pid, 0)

    def _agent_ended(self) -> None:
        """The agent itself is gone: its status, at once; then what it left behind."""
        _, status, used = os.wait4(self._pid, 0)
        self._ended = True
        if self._said >= 0:
            self._on_said()
        failed = self._spawn_errno is not None
        reason = "spawn_failed" if failed else self._how or "exited"
        self._exit = {
            "status": None if failed else status,
            "reason": reason,
            "errno": self._spawn_errno,
            "at": system.now(),
            "elapsed_s": round(system.boottime() - self._began, 6),
            "max_rss_kib": used.ru_maxrss,
            "user_s": used.ru_utime,
            "system_s": used.ru_stime,
        }
        self._timers.pop("deadline", None)
        self._leftovers = tree.listed()
        if self._leftovers and (self._spec.leftovers == "kill" or self._how is not None):
            self._end_leftovers()

    def _end_leftovers(self) -> None:
        if self._killing:
            return
        _ = tree.signal_all(signal.SIGTERM)
        due = system.boottime() + self._spec.leftovers_grace_s
        self._timers["leftovers"] = min(due, self._timers.pop("grace", due))

    def _advance(self) -> bool:
        """Collect, write what is to be written, and say whether all is done."""
        nothing_left = self._reap()
        if self._exit is not None:
            if not self._write_exit(self._exit):
                return False
            self._exit = None
            hint(self._spec.wake, self._spec.execution)
        return self._ended and nothing_left and self._write_gone()

    def _write_exit(self, record: dict[str, object]) -> bool:
        """Write the exit record, for as long as it takes; its space was reserved."""
        try:
            records.write(self._directory, "exit.json", record)
        except OSError as problem:
            self._complain(f"the exit record cannot be written yet: {problem.strerror}")
            self._timers["again"] = system.boottime() + _AGAIN_S
            release_reserve(self._directory)
            return False
        release_reserve(self._directory)
        return True

    def _write_gone(self) -> bool:
        record: dict[str, object] = {
            "proof": "proven" if system.IS_LINUX else "unproven",
            "how": "echild",
            "at": system.now(),
            "leftovers": self._leftovers,
            "killed": len(self._killed - {self._pid}),
        }
        try:
            records.write(self._directory, "gone.json", record)
        except OSError as problem:
            self._complain(f"the proof cannot be written yet: {problem.strerror}")
            self._timers["again"] = system.boottime() + _AGAIN_S
            return False
        hint(self._spec.wake, self._spec.execution)
        return True

    # What people ask

    def _answer(self, request: dict[str, object]) -> dict[str, object]:
        match request.get("do"):
            case "status":
                state = "ended" if self._ended else "running"
                return {
                    "ok": True,
                    "state": state,
                    "pid": self._pid,
                    "run": self._spec.run,
                    "leftovers": len(tree.descendants()) if self._ended else 0,
                    "how": self._how,
                }
            case "stop":
                return self._answer_stop(request)
            case "kill":
                self._begin_end("kill", 0.0)
                return {"ok": True}
            case "signal":
                return self._answer_signal(request)
            case "input":
                return self._answer_input(request)
            case "close_input":
                if self._feed is not None:
                    self._feed.close()
                return {"ok": True}
            case other:
                return {"ok": False, "error": f"there is no '{other}'"}

    def _answer_stop(self, request: dict[str, object]) -> dict[str, object]:
        how, grace = request.get("how", "stop"), request.get("grace_s")
        if how not in {"stop", "condemned", "interrupted"}:
            return {"ok": False, "error": f"'{how}' is no reason to stop"}
        if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int | float) or grace < 0):
            return {"ok": False, "error": "grace_s is no duration"}
        self._begin_end(str(how), self._spec.grace_s if grace is None else float(grace))
        return {"ok": True}

    def _answer_signal(self, request: dict[str, object]) -> dict[str, object]:
        number = getattr(signal, f"SIG{request.get('signal')}", None)
        if not isinstance(number, signal.Signals):
            return {"ok": False, "error": f"there is no signal {request.get('signal')!r}"}
        self._reap()
        if self._ended:
            return {"ok": False, "error": "the agent has ended"}
        tree.signal_agent(self._pid, number)
        return {"ok": True}

    def _answer_input(self, request: dict[str, object]) -> dict[str, object]:
        data, message_id = request.get("data"), request.get("id")
        if not isinstance(data, str) or not isinstance(message_id, str):
            return {"ok": False, "error": "input needs data and an id"}
        if self._feed is None:
            return {"ok": False, "error": "this agent's input is not open"}
        error = self._feed.add(message_id, data.encode("utf-8", "surrogateescape"))
        return {"ok": True} if error is None else {"ok": False, "error": error}

    def _complain(self, sentence: str | None) -> None:
        """Standard error is `shim.err`."""
        if sentence:
            try:
                os.write(2, f"{system.now()} {sentence}\n".encode("utf-8", "replace"))
            except OSError:
                pass


def reserve_space(directory: int) -> None:
    """Set space aside, so that a full disk does not keep the exit record from being written. Raises OSError."""
    fd = os.open("exit.reserve", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, records.MODE, dir_fd=directory)
    try:
        crashpoint("shim.reserve.before")
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, 16 * 1024)
        crashpoint("shim.reserve.after")
    finally:
        os.close(fd)


def release_reserve(directory: int) -> None:
    """Give the space back."""
    try:
        os.unlink("exit.reserve", dir_fd=directory)
    except OSError:
        pass
