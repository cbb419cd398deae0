"""One execution from the fork to the proof that nothing is left of it: a single loop over descriptors and timers."""

import os
import select
import time

from . import child, records, system
from .control import Client, Control, Reply, hint
from .feed import Feed
from .ladder import Ladder
from .output import Output
from .quiet import Quiet
from .requests import Requests
from .spec import Spec
from .timers import Timers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_REBIND_S = 5.0
_LAST_ROUNDS = 20
_MOST_FAULTS = 100
_LONGEST_PAUSE_S = 0.2
_HELD_BACK_S = 0.25


class Supervisor:
    """Runs the agent once."""

    def __init__(self, directory: int, path: bytes, spec: Spec, token: bytes, wakeup: int) -> None:
        """`wakeup` is readable whenever a signal has come, and gives its number."""
        self._directory = directory
        self._path = path
        self._spec = spec
        self._wakeup = wakeup
        self._timers = Timers()
        self._poll = select.poll()
        self._ladder = Ladder(directory, spec, self._timers, complain, self._notify, self._flush)
        self._requests = Requests(spec, self._ladder)
        self._control = Control(spec.socket, token, self._poll, self._answer)
        self._output: Output | None = None
        self._feed: Feed | None = None
        self._quiet: Quiet | None = None
        self._printed = 0
        self._faults = 0

    def run(self, *, proves: bool) -> None:
        """Fork, record, release, and supervise to the end.

        `proves`: orphans below us become our children. Raises OSError if it cannot get as far as the release; then no agent ran.
        """
        argv = child.command_line(self._directory, self._path, self._spec)
        by_pipe = self._spec.input and self._spec.prompt_by == "stdin"
        prompt = records.read_bytes(self._directory, "prompt") if by_pipe else b""
        streams = child.open_streams(self._directory, self._spec)
        self._output = Output(self._directory, self._spec.log_limit, streams.ends, complain)
        if not streams.ends:
            complain("there can be no pipes here, so the agent writes its logs itself and can truncate them")
        complaint = self._control.open()
        if complaint is not None:
            complain(complaint)
        try:
            forked = child.fork(self._spec, argv, streams)
            streams.close_child_side()
            self._record_agent(forked.pid)
        except OSError:
            self._control.close()
            raise
        began = system.boottime()
        self._ladder.watch(forked, began=began, proves=proves)
        forked.release()
        self._hint()
        if streams.input_pipe is not None:
            self._feed = self._requests.feed = Feed(self._directory, streams.input_pipe, prompt, self._poll)
            self._feed.write()
        if self._spec.deadline_s is not None:
            self._timers.start("deadline", self._spec.deadline_s)
        if self._spec.silence_s is not None:
            self._quiet = Quiet(self._directory, self._spec.silence_s)
            self._timers.start("silence", self._quiet.pause_s)
        for fd in streams.ends.values():
            self._poll.register(fd, select.POLLIN)
        self._timers.start("logs", self._output.logs.pause_s)
        self._loop()

    def _record_agent(self, pid: int) -> None:
        record: dict[str, object] = {
            "pid": pid,
            "start_ticks": system.start_ticks(pid),
            "boot_id": system.boot_id(),
            "pid_namespace": system.pid_namespace(),
            "shim_pid": os.getpid(),
            "shim_start_ticks": system.start_ticks(os.getpid()),
            "hears_requests": True,
            "started_at": system.now(),
        }
        records.write(self._directory, "proc.json", record)

    def _loop(self) -> None:
        self._poll.register(self._wakeup, select.POLLIN)
        while not self._guarded(self._turn):
            pass
        self._answer_last()
        self._control.close()

    def _answer_last(self) -> None:
        """Requests that came while the end was being written get their answers too."""
        for _ in range(_LAST_ROUNDS):
            waiting = [(fd, events) for fd, events in self._poll.poll(0) if self._control.owns(fd)]
            if not waiting:
                return
            for fd, events in waiting:
                self._guarded(lambda fd=fd, events=events: self._serve(fd, events))

    def _turn(self) -> bool:
        """Do what is due, then wait for more; True when all is over."""
        if self._ladder.advance():
            return True
        if not self._control.listening and "rebind" not in self._timers:
            self._timers.start("rebind", _REBIND_S)
        for fd, events in self._poll.poll(self._timers.wait_ms()):
            self._guarded(lambda fd=fd, events=events: self._serve(fd, events))
        while (name := self._timers.next_due()) is not None:
            self._guarded(lambda name=name: self._on_timer(name))
        self._control.answer_later_requests()
        return False

    def _guarded(self, work: "Callable[[], bool | None]") -> bool:
        """A bug in one request must not cost the agent its work. A shim that only meets errors gives up once the agent has ended."""
        try:
            return bool(work())
        except Exception as problem:
            self._complain_of(problem)
            if self._faults > _MOST_FAULTS and self._ladder.ended:
                raise
            # What goes wrong at every turn must not keep a processor busy.
            time.sleep(min(self._faults * 0.001, _LONGEST_PAUSE_S))
            return False

    def _complain_of(self, problem: Exception) -> None:
        self._faults += 1
        if self._faults <= _MOST_FAULTS:
            complain(f"a fault of the shim's own: {system.describe(problem)}")

    def _serve(self, fd: int, events: int) -> None:
        if fd == self._wakeup:
            numbers = os.read(fd, 65536)
            if system.SIGUSR1 in numbers:
                self._obey_record()
            if system.SIGTERM in numbers:
                # The signal does not come from Watchkeeper: the system is shut down, or it was an accident. In both cases the agent was not meant.
                self._ladder.begin("interrupted", self._spec.grace_s)
        elif self._output is not None and self._output.owns(fd):
            if not self._output.take(fd):
                self._hold_back()
            elif (rest_s := self._output.rest_s(fd)) > 0:
                self._poll.modify(fd, 0)
                self._timers.no_later("held back", rest_s)
        elif self._feed is not None and self._feed.owns(fd):
            self._feed.write()
        elif self._control.owns(fd):
            self._control.serve(fd, events)

    def _obey_record(self) -> None:
        complaint = self._requests.obey_record(self._directory)
        if complaint is not None:
            complain(complaint)

    def _answer(self, request: Reply, client: Client) -> Reply | None:
        try:
            return self._requests.answer(request, client)
        except OSError as problem:
            return {"ok": False, "error": f"that did not work: {problem.strerror}"}
        except Exception as problem:  # noqa: BLE001 - the client gets an answer
            self._complain_of(problem)
            return {"ok": False, "error": "a fault of the shim's own; shim.err has more"}

    def _on_timer(self, name: str) -> None:
        match name:
            case "deadline":
                self._ladder.begin("deadline", self._spec.grace_s)
            case "silence":
                self._look_for_silence()
            case "logs":
                self._obey_record()
                self._timers.start("logs", self._bound_logs())
            case "held back":
                self._take_again()
            case "rebind":
                self._control.open()  # it has complained once
            case _:
                self._ladder.on_timer(name)

    def _look_for_silence(self) -> None:
        if self._quiet is None or self._ladder.ended or self._ladder.how is not None:
            return
        if self._output is not None and (self._output.is_held_back or self._output.size != self._printed):
            self._quiet.excuse()
            self._printed = self._output.size
        if self._quiet.is_over():
            self._ladder.begin("silence", self._spec.grace_s)
        else:
            self._timers.start("silence", self._quiet.pause_s)

    def _bound_logs(self) -> float:
        """Keep the logs small; returns when to look again."""
        if self._output is None:
            return _HELD_BACK_S
        self._output.bound()
        return self._output.logs.pause_s

    def _hold_back(self) -> None:
        """A log takes nothing. Its pipe is not looked at for a while, which would only keep a processor busy."""
        for stream in self._output.streams if self._output is not None else ():
            if stream.problem is not None:
                self._poll.modify(stream.pipe, 0)
        self._timers.no_later("held back", _HELD_BACK_S)

    def _take_again(self) -> None:
        for stream in self._output.streams if self._output is not None else ():
            self._poll.modify(stream.pipe, select.POLLIN)

    def _flush(self, *, last: bool) -> bool:
        """Move what the agent wrote into its logs, as far as they take it; `last`: no writer is left."""
        if self._output is None:
            return True
        flushed = self._output.flush()
        self._output.bound()
        if last and flushed:
            self._output.forget_pipes()
        return flushed

    def _notify(self) -> None:
        """The agent's end is on record. Its input has no reader any more."""
        self._hint()
        if self._feed is not None:
            self._feed.shut()

    def _hint(self) -> None:
        hint(self._spec.wake, self._spec.execution)


def complain(sentence: str) -> None:
    """Standard error is `shim.err`."""
    try:  # noqa: SIM105 - contextlib would cost start-up time
        os.write(2, f"{system.now()} {sentence}\n".encode("utf-8", "replace"))
    except OSError:
        pass
