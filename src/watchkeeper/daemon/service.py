"""The daemon itself: be the only one, say what was found, run the loops, end when told."""

import contextlib
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import cast

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from watchkeeper import __version__
from watchkeeper.app.interrupt import interrupt_all
from watchkeeper.app.lease import Lease, Me, begin
from watchkeeper.app.observe import RestartWord
from watchkeeper.app.off_record import put_on_record
from watchkeeper.compose import Watchkeeper
from watchkeeper.compose.databases import listen
from watchkeeper.compose.housekeeping import ages_of
from watchkeeper.crash import crashpoint
from watchkeeper.daemon.guard import GuardLoop
from watchkeeper.daemon.lease import LeaseLoop
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.observe import say
from watchkeeper.daemon.own_process import end_within, heeded, take_short_turns, take_title
from watchkeeper.daemon.steady import steadily
from watchkeeper.daemon.wiring import Loops, wire
from watchkeeper.domain.lease import Holder
from watchkeeper.domain.model import Run, RunState
from watchkeeper.errors import (
    DaemonError,
    DatabaseNewer,
    InsideAgent,
    RecordTorn,
    Refused,
    StateError,
    WatchkeeperError,
)
from watchkeeper.ports.service import DaemonInfo, DaemonRequest, Inbox, LastWords, inside_agent
from watchkeeper.ports.store import MachineRecord, Tx

LEAVE_S = 8.0
"""How long a daemon that leaves waits for what its loops are at."""

_RETIRE_POLL_S = 0.2
_BETWEEN_HINTS_S = 0.1
"""A fleet that works commits all the time, and so do we."""
_LAST_EFFECTS_S = 5.0
"""How long a daemon that retires waits for effects when nothing else is left."""


def run(parts: Watchkeeper, log: Log) -> None:
    """Be the daemon until told to end.

    Raises:
        InsideAgent: a daemon is never born inside an agent.
        DaemonError: there is one already.
        StateError: the state directory or the database cannot be used.
    """
    try:
        if inside_agent(parts.environ):
            raise InsideAgent(hint="Ask a person to start it.")
        host = parts.daemon_host
        _ = os.umask(0o077)
        kept = parts.put_off_limits()
        if kept:
            log.info("limited", by=", ".join(kept))
        # A daemon that is suspended while it holds the database's write lock would make every other process wait.
        _ = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        take_title(parts.state.path)
        take_short_turns()
        with host.hold(_describe(parts, 0)), _last_words(parts):
            machine = _begin(parts)
            host.describe(_describe(parts, machine.incarnation))
            parts.fence = machine
            service = _Service(parts, log, machine)
            _serve(service, log)
            service.let_go()
    except WatchkeeperError as problem:
        parts.notify_parent(f"{problem} {problem.hint}".strip())
        raise


@contextmanager
def _last_words(parts: Watchkeeper) -> Generator[None]:
    """Keep the reason of an end without an order for `wk daemon status`."""
    try:
        yield
    except WatchkeeperError as problem:
        words = LastWords(pid=os.getpid(), at=parts.system_clock.now(), detail=f"{problem} {problem.hint}".strip())
        with contextlib.suppress(OSError):  # it is in the log, and on stderr
            parts.daemon_host.leave_words(words)
        raise


def _serve(service: "_Service", log: Log) -> None:
    """Run until the end. Raises DatabaseNewer if a newer version takes the database over meanwhile: every further attempt would fail."""
    try:
        anyio.run(service.main, backend="asyncio")
    except BaseExceptionGroup as problems:
        newer = _first_newer(problems)
        if newer is None:
            raise
        log.problem("outgrown", newer)
        raise newer from None


def _first_newer(problem: BaseException) -> DatabaseNewer | None:
    if isinstance(problem, DatabaseNewer):
        return problem
    inner = cast("tuple[BaseException, ...]", getattr(problem, "exceptions", ()))
    return next((found for each in inner if (found := _first_newer(each)) is not None), None)


def _describe(parts: Watchkeeper, incarnation: int, ending: str = "", trouble: str = "") -> DaemonInfo:
    me = parts.own_identity
    return DaemonInfo(
        pid=me.pid,
        start_ticks=me.start_ticks,
        boot_id=me.boot_id,
        started_at=me.started_at,
        incarnation=incarnation,
        version=__version__,
        wake=str(parts.wake_address),
        ending=ending,
        store=parts.store_name,
        trouble=trouble,
    )


def _begin(parts: Watchkeeper) -> MachineRecord:
    """From here on every claim of an earlier daemon is refused. Raises DaemonError if another directory acts under our id."""
    word = f"{parts.ids.operation()}.{parts.state.identity()}"
    me = Me(
        id=parts.state.node(),
        holder=Holder(word=word, name=parts.host_name, boot_id=parts.own_identity.boot_id),
        version=__version__,
        directory=str(parts.state.path),
    )
    return begin(parts.store, parts.clock, me)


class _Service:
    """One life of the daemon."""

    def __init__(self, parts: Watchkeeper, log: Log, machine: MachineRecord) -> None:
        self._parts = parts
        self._log = log
        self._machine = machine
        self._retiring = self._interrupt_wanted = False
        self._retiring_parts = parts.sibling()
        """What an order is obeyed with, on a thread of its own; opened while that is sure to be possible."""
        self._order = DaemonRequest.LEAVE
        """The last order that it ends under."""
        self._inbox: Inbox | None = None
        self._lost: DaemonError | None = None
        """Why it ends without having been told to."""

    def let_go(self) -> None:
        """After the end: record that no daemon acts for this machine any more.

        Raises:
            DaemonError: it ended because the state directory, or the machine's id, is not its own any more.
        """
        if self._lost is not None:
            raise self._lost
        if self._parts.store.is_shared:
            with contextlib.suppress(StateError):  # it ends by itself within a minute
                self._lease(self._parts).give_back()

    def _lease(self, parts: Watchkeeper) -> Lease:
        return Lease(store=parts.store, clock=parts.clock, machine=self._machine)

    async def main(self) -> None:
        """Look at what is there, run the loops, obey orders."""
        parts = self._parts
        self._inbox = parts.daemon_host.listen()
        try:
            await to_thread.run_sync(self._take_stock)
            async with anyio.create_task_group() as tasks:
                loops = wire(parts, self._log, self._machine, tasks)
                if parts.store.is_shared:
                    self._keep_lease(tasks, loops)
                for loop in (*loops.all(), self._guard(tasks, loops)):
                    await tasks.start(loop.run)
                tasks.start_soon(steadily, self._log, "signals", partial(self._obey_signals, tasks, loops))
                tasks.start_soon(steadily, self._log, "inbox", partial(self._obey_inbox, tasks, loops))
                tasks.start_soon(steadily, self._log, "commits", partial(self._hear_commits, loops))
                self._log.info("started", pid=os.getpid(), incarnation=self._machine.incarnation, version=__version__)
                parts.notify_parent("ready")
        finally:
            self._drop_inbox()
            self._log.info("stopped", pid=os.getpid())

    def _take_stock(self) -> None:
        """Say of every run that is there what became of it, one word each, before anything new begins."""
        parts = self._parts
        try:
            # Before we write to the journal, whose newest entry tells where no earlier look does.
            _ = ages_of(parts).check()
        except OSError as problem:
            self._log.problem("tick failed", problem, loop="stock")
        _ = put_on_record(parts.store, parts.clock, parts.runtime)
        live = parts.store.read(lambda tx: tx.runs.live(self._machine.id))
        words: dict[str, str] = {}
        for was in live:
            try:
                found = None if was.state is RunState.RESERVED else parts.observer.observe(was.id)
            except RecordTorn as problem:
                self._log.problem("record torn", problem, run=was.id)
                words[was.id] = RestartWord.UNREACHABLE.value
                continue
            except (OSError, Refused) as problem:
                # One directory that the system cannot read keeps no other run from being taken care of; the loops try it again.
                self._log.problem("tick failed", problem, loop="stock", run=was.id)
                words[was.id] = RestartWord.UNREACHABLE.value
                continue
            word = _word(was) if found is None else found.word.value
            words[was.id] = word
            self._log.info("run found", run=was.id, word=word)
            if found is not None:
                say(was, found, self._log)

        def journal(tx: Tx) -> None:
            data = {
                "machine": self._machine.id,
                "incarnation": self._machine.incarnation,
                "pid": os.getpid(),
                "found": words,
            }
            _ = tx.journal.append("daemon.started", parts.clock.now(), data=data)

        parts.store.transact("stock", journal)

    def _guard(self, tasks: TaskGroup, loops: Loops) -> GuardLoop:
        """Look at every poll whether lock file, state directory and incarnation are still ours."""

        def end(reason: str) -> None:
            self._log.info("lost", detail=reason)
            self._give_up(
                tasks, loops, reason, "Look at the directory and the lock file that it names, then: wk daemon start"
            )

        parts = self._parts.sibling(apart=True)
        lost = partial(anyio.from_thread.run_sync, end)
        return GuardLoop(
            self._log, parts.settings.daemon_poll_s, self._parts.daemon_host, parts.store, self._machine, lost
        )

    def _keep_lease(self, tasks: TaskGroup, loops: Loops) -> None:
        def end(other: MachineRecord) -> None:
            self._log.info("taken over", by=other.name or other.id, incarnation=other.incarnation)
            reason = f"A daemon on {other.name or other.id} has taken over the id of this machine."
            hint = (
                "Find out which of the two state directories is the copy of the other, and delete its file 'node'. "
                f"This one is {self._parts.state.path}."
            )
            self._give_up(tasks, loops, reason, hint)

        def lost(other: MachineRecord) -> None:
            anyio.from_thread.run_sync(end, other)

        loops.lease = LeaseLoop(self._log, self._lease(self._parts.sibling(apart=True)), lost)
        loops.lease.wakes = (loops.claim,)
        loops.reconcile.wakes = (loops.lease, *loops.reconcile.wakes)  # it notices that the machine slept

    def _give_up(self, tasks: TaskGroup, loops: Loops, reason: str, hint: str) -> None:
        """End, because a resource does not belong to this daemon any more. The first reason is the one that is reported."""
        if self._lost is None:
            self._lost = DaemonError(f"{reason} So this daemon has ended itself; its agents continue.", hint=hint)
        loops.claim.closed = True
        self._leave(tasks)

    async def _obey_signals(self, tasks: TaskGroup, loops: Loops) -> None:
        with anyio.open_signal_receiver(*heeded()) as signals:
            async for received in signals:
                await self._obey(DaemonRequest.LEAVE, tasks, loops, by=signal.Signals(received).name)

    async def _obey_inbox(self, tasks: TaskGroup, loops: Loops) -> None:
        poll_s = self._parts.settings.daemon_poll_s
        while True:
            if self._inbox is None:
                await anyio.sleep(poll_s)
            else:
                for word in await self._read_inbox(self._inbox, poll_s):
                    await self._heard(word, tasks, loops)
            if self._inbox is None or not self._inbox.is_reachable():
                self._listen_anew()
                loops.nudge()  # what was said meanwhile was not heard

    async def _read_inbox(self, inbox: Inbox, within_s: float) -> list[str]:
        """What was said, waiting for it. A socket that fails is given up, and bound anew by and by: meanwhile the polls must do."""
        try:
            with anyio.move_on_after(within_s):
                await anyio.wait_readable(inbox.fileno())
            return inbox.read()
        except OSError:
            self._drop_inbox()
            raise

    async def _heard(self, word: str, tasks: TaskGroup, loops: Loops) -> None:
        if word in {DaemonRequest.LEAVE, DaemonRequest.DRAIN, DaemonRequest.INTERRUPT}:
            await self._obey(DaemonRequest(word), tasks, loops, by="wk")
        else:
            loops.observe.hint(word)
        loops.nudge()

    async def _hear_commits(self, loops: Loops) -> None:
        """What others commit is looked at soon; that every loop looks by itself is what it rests on."""
        wake = listen(self._parts.settings.store_url, host=self._parts.host_name)
        if wake is None:
            return
        try:
            while True:
                await anyio.wait_readable(wake.fileno())
                if wake.clear():
                    loops.nudge()
                await anyio.sleep(_BETWEEN_HINTS_S)
        finally:
            wake.close()

    def _drop_inbox(self) -> None:
        if self._inbox is not None:
            self._inbox.close()
            self._inbox = None

    def _listen_anew(self) -> None:
        """Something cleared our address away, or another daemon has it. What cannot be now is tried again at the next look."""
        self._drop_inbox()
        with contextlib.suppress(OSError, StateError):
            if not self._parts.daemon_host.lost():  # or the address is rightly another daemon's
                self._inbox = self._parts.daemon_host.listen()

    async def _obey(self, request: DaemonRequest, tasks: TaskGroup, loops: Loops, *, by: str) -> None:
        self._log.info("order", order=request.value, by=by)
        crashpoint(f"daemon.{request.value}.before")
        if request is DaemonRequest.LEAVE:
            self._leave(tasks)
            return
        # Announce first, then end: a caller that hands work over after the announcement knows of it, and one that did so before is served or counted.
        self._order = request
        self._say_ending(request)
        loops.claim.closed = True
        self._interrupt_wanted = self._interrupt_wanted or request is DaemonRequest.INTERRUPT
        if not self._retiring:
            self._retiring = True
            work = partial(self._retire, tasks, loops)
            tasks.start_soon(steadily, self._log, "retire", work, self._say_trouble)

    def _leave(self, tasks: TaskGroup) -> None:
        """From here on a command that needs a daemon sees that none listens, and starts a successor when this one has ended."""
        end_within(LEAVE_S, lambda: self._log.info("gave up", pid=os.getpid()))
        self._say_ending(DaemonRequest.LEAVE)
        self._drop_inbox()
        tasks.cancel_scope.cancel()

    def _say_trouble(self, detail: str) -> None:
        self._say_ending(self._order, detail)

    def _say_ending(self, request: DaemonRequest, trouble: str = "") -> None:
        # The daemon ends even if the record cannot be written: the caller learns what waits.
        with contextlib.suppress(OSError):
            self._parts.daemon_host.describe(_describe(self._parts, self._machine.incarnation, request.value, trouble))

    async def _retire(self, tasks: TaskGroup, loops: Loops) -> None:
        """End when no run is live but those that wait for a person, and what was asked for meanwhile is done, if that does not take long."""
        parts, here, idle_since = self._retiring_parts, self._machine.id, None
        while True:
            if self._interrupt_wanted:
                _ = await to_thread.run_sync(interrupt_all, parts.store, parts.clock, here)
                self._interrupt_wanted = False
                loops.outbox.nudge()
            live, due = await to_thread.run_sync(
                lambda: parts.store.read(lambda tx: (tx.runs.live(here), tx.outbox.next_due(here)))
            )
            if any(run.state is not RunState.HELD for run in live):
                idle_since = None
            else:
                now = anyio.current_time()
                idle_since = now if idle_since is None else idle_since
                if due is None or now - idle_since > _LAST_EFFECTS_S:
                    self._leave(tasks)
                    return
            await anyio.sleep(_RETIRE_POLL_S)


def _word(run: Run) -> str:
    """The word for a run that there is nothing to look at for."""
    match run.state:
        case RunState.HELD:
            return "held"
        case RunState.ENDED:
            return "ended meanwhile"
        case _:
            return "starting"
