"""The runtime that hosts agents as plain processes, each under a shim (see `docs/execution-directory.md`).

It holds nothing that matters: whatever it knows is in the directories. What it does remember (shims it started, to reap them; when it first saw one, to be
patient) may be lost with it at any time.
"""

import contextlib
import errno
import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.domain import former_names
from watchkeeper.domain.evidence import DecidedBy, DirectoryState, Evidence, LockState
from watchkeeper.domain.model import AgentIdentity, DirectoryIdentity, EndReason, Run, StopHow
from watchkeeper.errors import Refused, StateDirectoryUnusable
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.runtime import ExecutionRequest, Forced, ShimUnreachable, SweepReport
from watchkeeper.runtimes import atomic, control, observation, proc, records, request_record, sockets, spec_parts
from watchkeeper.runtimes.boot import boot_id, pid_namespace
from watchkeeper.runtimes.executions import (
    RECORD_LIMIT,
    ExecutionDirectories,
    OpenExecution,
    Unreadable,
    delete,
    identity_of,
)
from watchkeeper.runtimes.force import Force
from watchkeeper.runtimes.log_pipes import LogPipes
from watchkeeper.runtimes.off_record import DirectoryOffRecord
from watchkeeper.runtimes.records import BadRecord, SpecExcerpt, SpecIdentity
from watchkeeper.runtimes.shim_image import shim_command
from watchkeeper.runtimes.state_directory import HOME
from watchkeeper.runtimes.sweep import MARKER

RUN_MARKER = "WATCHKEEPER_RUN"
"""The variable that tells an agent, and `wk` inside it, which run it is."""

_MOST_PATIENT = 6
_LEFTOVERS_GRACE_S = 5.0


class ProcessRuntime:
    """Hosts agents as plain processes, each under a shim. Safe to use from several threads."""

    def __init__(
        self,
        state_dir: Path,
        sockets: Path,
        wake: Path | None,
        image: Callable[[], Path],
        clock: Clock,
        *,
        start_grace_s: float = 5.0,
        database_id: str | None = None,
        nofile: int | None = None,
    ) -> None:
        """Work in a state directory.

        Args:
            state_dir: the state directory.
            sockets: the directory for control sockets, made when it is needed.
            wake: the daemon's datagram socket, told to shims.
            image: installs the shim's program and returns where it is; called before each start.
            clock: the time.
            start_grace_s: how long a shim may take to decide, times the number of the run up to six: on a machine so slow that launches are given up, the
                next ones get more time.
            database_id: directories that were written for another database are foreign; None does not look.
            nofile: the soft limit of descriptors that agents get; None leaves them ours.
        """
        self._directories = ExecutionDirectories(state_dir / "executions")
        self._sockets = sockets
        self._wake = wake
        self._image = image
        self._clock = clock
        self._start_grace_s = start_grace_s
        self._database_id = database_id
        self._nofile = nofile
        self._holds = False
        self._pipes = LogPipes(lingers=False)
        self.machine = ""
        """The id of this machine, where several share a database; the composition root sets it."""
        self.off_record = DirectoryOffRecord(state_dir, self._directories)
        self._force = Force(self._directories, self._pipes, self._is_for)
        self._guard = threading.Lock()
        self._shims: list[subprocess.Popen[bytes]] = []
        self._since: dict[str, float] = {}
        """When, in seconds since boot, this process started or first saw the shim of an execution that has not decided yet."""

    def executions(self) -> ExecutionDirectories:
        """The directories themselves."""
        return self._directories

    def hold_pipes(self, pipes: LogPipes) -> None:
        """Hold the pipes of agents that live, on behalf of one daemon. A command does not: it ends in a moment."""
        self._holds, self._pipes = True, pipes
        self._force = Force(self._directories, pipes, self._is_for)

    def prepare(self, request: ExecutionRequest) -> DirectoryIdentity:
        """Write the execution directory, synced, under its final name. Done twice it finds its own earlier work and completes it.

        Raises:
            Refused: something that is not this run's directory has the name; it is left alone.
            OSError: the disk did not take it; nothing is under the final name unless it is whole.
        """
        run = request.run
        final, root = self._directories.path(run), self._directories.root
        root.mkdir(mode=atomic.DIRECTORY_MODE, exist_ok=True)
        earlier = _prepared_earlier(final, SpecIdentity.for_run(request.database_id, run))
        if earlier is not None:
            # Its rename may not have reached the disk when we crashed.
            atomic.sync_directory(root)
            return earlier
        new = root / f".{run.execution_id}.new"
        try:
            return self._write(request, new, final)
        except OSError:
            with contextlib.suppress(OSError):
                delete(new)
            raise

    def _write(self, request: ExecutionRequest, new: Path, final: Path) -> DirectoryIdentity:
        delete(new)
        crashpoint("prepare.mkdir.before")
        new.mkdir(mode=atomic.DIRECTORY_MODE)
        crashpoint("prepare.mkdir.after")
        files = {
            records.PROMPT: request.prompt,
            records.TOKEN: os.urandom(16).hex().encode(),
            records.SPEC: atomic.encode(self._spec(request)),
        }
        if request.before is not None:
            files[records.BEFORE] = atomic.encode(request.before)
        with atomic.directory(new) as fd:
            for name, data in files.items():
                atomic.write_new(fd, name, data, point=f"prepare.{name}")
            os.fsync(fd)
            crashpoint("prepare.sync.after")
            identity = identity_of(fd)
        crashpoint("prepare.rename.before")
        new.rename(final)
        crashpoint("prepare.rename.after")
        atomic.sync_directory(final.parent)
        crashpoint("prepare.parent.after")
        return identity

    def _spec(self, request: ExecutionRequest) -> dict[str, object]:
        run = request.run
        ours = {RUN_MARKER: run.id, MARKER: run.execution_id, HOME: str(self._directories.root.parent.absolute())}
        return {
            "format": records.FORMAT,
            "database": request.database_id,
            "task": run.task_id,
            "run": run.id,
            "fence": run.fence,
            "execution": run.execution_id,
            "argv": list(request.argv),
            "cwd": request.cwd,
            "environment": {**request.environment, **ours},
            "asked": list(request.asked),
            "prompt_by": request.prompt_by,
            "input": request.keep_input,
            "deadline_s": request.deadline_s,
            "silence_s": request.silence_s,
            "grace_s": request.grace_s,
            "leftovers": request.leftovers,
            "leftovers_grace_s": _LEFTOVERS_GRACE_S,
            "log_limit_bytes": request.log_limit_bytes,
            "socket": str(sockets.control_socket(self._sockets, run.execution_id)),
            "wake": None if self._wake is None else str(self._wake),
            "nofile": self._nofile if request.inherits is None else None,
            **spec_parts.inherited(request.inherits),
            **spec_parts.working_directory(request.place),
        }

    def start_shim(self, run: Run) -> None:
        """Start a shim for a prepared execution, detached: in a session of its own, without inherited descriptors. Never waits.

        Harmless twice: the second shim finds the lock held or the decision taken. The shim stays our child until it ends; `reap` collects it, and if we
        die first the system's first process does.

        Raises:
            OSError: it could not be started, or the prepared directory is not there (ESTALE).
        """
        self.reap()
        image = self._image()
        try:
            # Directories below /tmp are cleared away when nothing in them has been used for long.
            sockets.ensure_socket_directory(self._sockets)
        except StateDirectoryUnusable as error:
            raise OSError(errno.EACCES, str(error), str(self._sockets)) from error
        with self._directories.intact(run) as files:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            errors = os.open(records.SHIM_ERRORS, flags, atomic.FILE_MODE, dir_fd=files.fd)
        try:
            crashpoint("shim.spawn.before")
            shim = subprocess.Popen(
                shim_command(image, self._directories.path(run)),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                close_fds=True,
                start_new_session=True,
                cwd="/",
                env=_shim_environment(os.environ),
            )
        finally:
            os.close(errors)
        crashpoint("shim.spawn.after")
        with self._guard:
            self._shims.append(shim)
            self._since[run.execution_id] = self._clock.boottime_s()

    def reap(self) -> None:
        """Reap shims that have ended, so that none stays a zombie. Called by every start and look; never waits."""
        with self._guard:
            self._shims = [shim for shim in self._shims if shim.poll() is None]

    def observe(self, run: Run, *, stop_asked: bool) -> Evidence:
        """Read the evidence, in the order that `domain.evidence` demands.

        Raises:
            OSError: the system itself fails (no descriptors, input/output error), which says nothing about the run.
        """
        self.reap()
        here, namespace = boot_id(), pid_namespace()
        with self._directories.open(run) as files:
            if isinstance(files, DirectoryState):
                return Evidence(directory=files, boot_id=here, pid_namespace=namespace, stop_asked=stop_asked)
            found = observation.gather(files, boot_id=here, pid_namespace=namespace)
            self._hold_pipes(run, files, found)
        # The name may have been given to another directory while we read; then what we read is no longer what is there.
        directory = self._directories.still_named(run)
        if found.identity is not None and not self._is_for(found.identity, run):
            directory = DirectoryState.FOREIGN
        return Evidence(
            directory=directory,
            lock=found.lock,
            decision=None if found.decision is None else found.decision.record,
            agent=None if found.agent is None else found.agent.agent,
            exit=found.exit,
            gone=found.gone,
            unreadable=tuple(found.unreadable),
            refused=found.refused,
            no_room=found.no_room,
            boot_id=here,
            pid_namespace=namespace,
            since_spawn_s=self._since_spawn_s(run, decided=found.decision is not None),
            start_grace_s=self._start_grace_s * min(max(run.number, 1), _MOST_PATIENT),
            stop_asked=stop_asked,
        )

    def _hold_pipes(self, run: Run, files: OpenExecution, found: observation.Gathered) -> None:
        """Have what an agent prints outlive its shim."""
        if found.gone is not None:
            self._pipes.release(run.execution_id)
        elif self._holds and found.agent is not None and found.lock is LockState.HELD:
            self._pipes.hold(run.execution_id, files.fd)

    def take_decision(self, run: Run, by: DecidedBy, *, refused: int | None = None) -> bool:
        """Publish the write-once decision; False if another process was first, whose decision the next look reads.

        `refused`: the error with which the system refused to start a shim, for people.

        Raises:
            OSError: it could not be published; ESTALE if the prepared directory is not there.
        """
        me = proc.stat_of(os.getpid())
        record: dict[str, object] = {
            "by": by.value,
            "boot_id": boot_id(),
            "pid_namespace": pid_namespace(),
            "pid": os.getpid(),
            "start_ticks": me.start_ticks if me is not None else 0,
            "at": self._clock.now().isoformat(),
            **({} if refused is None else {"errno": refused}),
        }
        with self._directories.intact(run) as files:
            return atomic.publish(files.fd, records.DECISION, atomic.encode(record), point="decide")

    def end(self, run: Run, how: StopHow, *, grace_s: float | None, why: EndReason) -> bool:
        """Tell the shim to end its agent; takes two seconds at most, ten if it waits to run. True: it has acknowledged. False: it was only signalled.

        A shim whose address was removed gets the request by a record in its directory.

        Raises:
            ShimUnreachable: it was not told.
        """
        try:
            with self._directories.intact(run) as files:
                spec, token = _spec_and_token(files)
                found = observation.gather(files, boot_id=boot_id(), pid_namespace=pid_namespace())
        except (OSError, Unreadable, BadRecord) as error:
            raise ShimUnreachable(f"The shim's address cannot be read: {error}") from error
        if how is StopHow.KILL:
            request: dict[str, object] = {"do": "kill"}
        else:
            request = {"do": "stop", "grace_s": grace_s, "how": why.value}
        crashpoint("control.end.before")
        with contextlib.suppress(OSError):
            self._force.wake_shim(run, found)  # where that cannot be, it does not answer
        # The spec's address and not the one we would choose today: the daemon that started this shim may have had another environment.
        try:
            control.ask(spec.socket, token, request)
        except ShimUnreachable as problem:
            if "is no reason" in str(problem):  # a shim of an earlier version
                control.ask(spec.socket, token, former_names.for_earlier_shim(request))
                return True
            if os.path.lexists(spec.socket) or not request_record.deliver(self._directories, run, found, request):
                raise
            return False
        crashpoint("control.end.after")
        return True

    def force(self, run: Run, how: StopHow, *, grace_s: float | None, signalled: bool) -> Forced:
        """Take a step towards the end of a run whose shim does not answer. Raises OSError if the system is in trouble."""
        return self._force.end(run, how, grace_s, signalled=signalled)

    def watch(self, run: Run) -> int | None:
        """A pidfd of the run's agent, checked after opening; None if it is dead or not of this boot."""
        return None if run.agent is None else self.watch_agent(run.agent)

    def watch_agent(self, agent: AgentIdentity) -> int | None:
        """The same, of an agent that no row names."""
        return None if agent.boot_id != boot_id() else proc.open_checked(agent.pid, agent.start_ticks)

    def living_agent(self, run: Run) -> AgentIdentity | None:
        """The run's recorded agent if exactly that process is alive. Where the row has none, its directory is asked. Raises OSError."""
        agent = run.agent
        if agent is None:
            with self._directories.open(run) as files:
                if isinstance(files, OpenExecution):
                    found = observation.gather(files, boot_id=boot_id(), pid_namespace=pid_namespace())
                    ours = found.identity is not None and self._is_for(found.identity, run)
                    agent = found.agent.agent if ours and found.agent is not None and not found.unreadable else None
        if agent is None or proc.has_died(agent.pid, agent.start_ticks, agent.boot_id, within_s=0.0):
            return None
        return agent

    def sweep(self, run: Run, *, asked: bool = False) -> SweepReport:
        """End what survived a shim that was killed: by the run's marker and its recorded identities, each checked, until two looks find nothing.

        It satisfies itself that the shim is dead, on this boot and in this pid namespace; if that is not so nothing is signalled. Raises OSError.

        `asked`: a person wants everything of this run ended. Then the identities on record and the marker, a random word that no other process carries, are
        enough, whether or not its directory can be read; and a shim that hangs although nothing is left of its agent is ended too.
        """
        return self._force.at_once(run) if asked else self._force.after_shim(run)

    def _is_for(self, identity: SpecIdentity, run: Run) -> bool:
        return identity == SpecIdentity.for_run(self._database_id or identity.database_id, run)

    def _since_spawn_s(self, run: Run, *, decided: bool) -> float | None:
        """How long ago its shim was started, as well as we know.

        The time of day may be set, so a shim that this process has seen is timed by a clock that is not. For one from before us, what the time of day says
        counts too; if it has jumped ahead a launch may be given up too early, which is safe, and if it was set back we wait from when we first looked.
        """
        if run.shim_started_at is None:
            return None
        now, wall = self._clock.boottime_s(), max(0.0, (self._clock.now() - run.shim_started_at).total_seconds())
        with self._guard:
            if decided:
                self._since.pop(run.execution_id, None)
                return wall
            return max(0.0, now - self._since.setdefault(run.execution_id, now - wall))


def _shim_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """What a shim gets of our environment: next to nothing, so that nothing leaks into it or its memory."""
    return {name: value for name, value in ours.items() if name == "PATH" or name.startswith("WATCHKEEPER_CRASH_")}


def _prepared_earlier(final: Path, wanted: SpecIdentity) -> DirectoryIdentity | None:
    """The directory that an earlier `prepare` for the same run completed, or None if there is nothing. Raises Refused for anything else."""
    try:
        with atomic.directory(final) as fd:
            found = records.parse_spec(atomic.read_limited(fd, records.SPEC, RECORD_LIMIT)).identity
            if found == wanted:
                return identity_of(fd)
    except BadRecord:
        pass
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not final.is_symlink() and not final.exists():
            return None
        if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EBADMSG}:
            raise
    msg = f"{final} is there already and is not this run's: it was left alone."
    raise Refused(msg, hint="`wk doctor` lists directories without an owner.")


def _spec_and_token(files: OpenExecution) -> tuple[SpecExcerpt, str]:
    spec, token = files.read(records.SPEC), files.read(records.TOKEN)
    if spec is None or token is None:
        raise BadRecord("it is missing")
    return records.parse_spec(spec), token.decode("ascii", "replace").strip()
