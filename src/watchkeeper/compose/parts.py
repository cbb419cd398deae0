"""The object graph: every adapter and use case, joined when it is first asked for. A command that lists tasks opens the database and nothing more."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.compose.this_machine import ThisMachine
from watchkeeper.domain.store_url import masked
from watchkeeper.errors import NoDatabase, SettingsError, StateDirectoryUnusable
from watchkeeper.ports.damage import Met
from watchkeeper.settings import Settings, load, user_file

if TYPE_CHECKING:
    from watchkeeper.app.accounts import AccountEnvironments
    from watchkeeper.app.environments import TaskEnvironments
    from watchkeeper.app.launch import Launcher
    from watchkeeper.app.observe import Observer
    from watchkeeper.app.perform import Performer
    from watchkeeper.app.profiles import Limits
    from watchkeeper.app.settle import Settler
    from watchkeeper.app.side_commands import SideCommands
    from watchkeeper.app.sign_ins import Asker, SignIns
    from watchkeeper.domain.model import AgentIdentity
    from watchkeeper.domain.repair import Repair
    from watchkeeper.harnesses.registry import Registry
    from watchkeeper.ports.backup import Backups, Descriptions
    from watchkeeper.ports.clock import Clock
    from watchkeeper.ports.damage import Damage, Known
    from watchkeeper.ports.diffs import Diffs, LiveFiles
    from watchkeeper.ports.environment import Environments
    from watchkeeper.ports.harness import Harness
    from watchkeeper.ports.ids import Ids
    from watchkeeper.ports.runtime import Runtime
    from watchkeeper.ports.salvages import Salvages
    from watchkeeper.ports.store import MachineRecord, Store
    from watchkeeper.ports.workspace import Workspace
    from watchkeeper.ports.worktrees import Worktrees
    from watchkeeper.runtimes.log_pipes import LogPipes
    from watchkeeper.store.moving import OpenStore


class Watchkeeper(ThisMachine):
    """Everything, joined. Each part is made when it is first asked for."""

    def __init__(
        self, settings: Settings, environ: Mapping[str, str], *, writes: bool, is_daemon: bool = False
    ) -> None:
        """`writes`: the state directory and the database are created if they are missing. `is_daemon`: an older database is upgraded."""
        super().__init__(settings, environ, writes=writes)
        self._is_daemon = is_daemon
        self._passed_over: list[SettingsError] | None = None
        self._pipes: LogPipes | None = None
        self.on_slow: Callable[[str], None] | None = None
        """Told, from any thread, what a look into a directory waits for."""
        self.met = Met()
        """Records that anything joined here has met and could not read."""
        self.fence: MachineRecord | None = None
        """For a daemon: siblings write only as long as this is the machine's newest incarnation."""

    @classmethod
    def open(
        cls,
        cwd: Path,
        environ: Mapping[str, str],
        *,
        writes: bool,
        is_daemon: bool = False,
        repository: bool = True,
        passed_over: "list[SettingsError] | None" = None,
    ) -> "Watchkeeper":
        """Load the settings and join.

        `repository`: the repository's file counts. Every agent there can write it, so what must always work, such as `wk stop`, does not look at it; the
        daemon serves every directory and heeds none of their files. `passed_over`: see `settings.load`. Raises SettingsError.
        """
        settings = load(cwd, environ, repository=repository and not is_daemon, passed_over=passed_over)
        parts = cls(settings, environ, writes=writes, is_daemon=is_daemon)
        parts._passed_over = passed_over
        return parts

    def settings_in(self, directory: str, flags: Iterable[tuple[str, object]]) -> Settings:
        """The settings that hold in a directory, its repository's file included, under `flags`: keys with values. Raises SettingsError."""
        return load(Path(directory), self.environ, dict(flags), passed_over=self._passed_over)

    @cached_property
    def store(self) -> "Store":
        """The database. Raises DatabaseUnusable, and NoDatabase where nothing was ever written and this only reads."""
        return self._database

    @cached_property
    def _database(self) -> "OpenStore":
        """The database, with its rows."""
        from watchkeeper.compose.databases import open_store

        # What runs here is kept in the state directory, wherever the database is.
        opened = {"create": self._writes, "upgrade": self._is_daemon}
        return open_store(self.settings.store_url, self.state, host=self.host_name, met=self.met, **opened)

    @property
    def existing_store(self) -> "Store | None":
        """The database, or None where nothing was ever written. Raises StateError."""
        try:
            return self.store
        except NoDatabase:
            return None
        except StateDirectoryUnusable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    @property
    def machine(self) -> str:
        """The id of this machine where several share the database, else empty. Raises StateDirectoryUnusable."""
        return self.node if self.settings.store_url is not None else ""

    def repair_record(self, damage: "Damage", what: "Repair", *, reason: str, by: str, known: "Known") -> None:
        """Do to a record what a person chose, and journal it. Raises Refused, DatabaseUnusable and its kinds."""
        from watchkeeper.compose.databases import location
        from watchkeeper.store.repair import repair

        there = location(self.settings.store_url, self.state, host=self.host_name)
        repair(self._database, there, damage, what, reason=reason, by=by, at=self.clock.now(), known=known)

    def has_content(self, url: str) -> bool:
        """Whether the database at `url` holds anything. Raises DatabaseUnusable and its kinds, SettingsError."""
        from watchkeeper.compose.databases import open_postgres

        try:
            open_postgres(url, host=self.host_name, create=False, upgrade=False).close()
        except NoDatabase:
            return False
        return True

    def require_room(self) -> None:
        """Refuse to begin something where the disk is nearly full. Raises StateDirectoryUnusable, OSError."""
        self.state.require_room()

    @property
    def store_name(self) -> str:
        """Which database is meant, without a password."""
        return str(masked(self.settings.store_url or "sqlite"))

    @cached_property
    def backups(self) -> "Backups":
        """Backups of the database. Raises StateDirectoryUnusable, and Refused where PostgreSQL makes them."""
        if self.settings.store_url is not None:
            from watchkeeper.errors import Refused

            hint = (
                "`pg_dump --format=custom --schema=watchkeeper --file=FILE URL` copies it, `pg_restore` puts it back."
            )
            raise Refused("The database is on PostgreSQL, whose own programs copy it.", hint=hint)
        from watchkeeper.store.sqlite.backup import SqliteBackups

        return SqliteBackups(self.state.database, self.state.write_lock)

    @cached_property
    def descriptions(self) -> "Descriptions":
        """The execution directories, read without the database. Raises StateDirectoryUnusable."""
        from watchkeeper.runtimes.executions import ExecutionDirectories

        return ExecutionDirectories(self.state.executions)

    @cached_property
    def clock(self) -> "Clock":
        """The time, as records say it. Raises DatabaseUnusable where that is the database's."""
        if self.settings.store_url is None:
            return self.system_clock
        from watchkeeper.store.clock import DatabaseClock

        try:
            return DatabaseClock(self.store, self.system_clock)
        except NoDatabase:
            return self.system_clock

    @cached_property
    def ids(self) -> "Ids":
        """Random ids."""
        from watchkeeper.runtimes.system import RandomIds

        return RandomIds()

    @cached_property
    def environments(self) -> "Environments":
        """Captured environments."""
        from watchkeeper.runtimes.environments import FileEnvironments

        return FileEnvironments(self.state.environments)

    @cached_property
    def runtime(self) -> "Runtime":
        """Processes under shims."""
        from watchkeeper.runtimes.process import ProcessRuntime
        from watchkeeper.runtimes.shim_image import install_shim

        runtime = ProcessRuntime(
            self.state.path, self.sockets, self.wake_address, partial(install_shim, self.state.shims), self.clock,
            database_id=self.store.read(lambda tx: tx.machines.database_id()),
            start_grace_s=self.settings.daemon_start_grace_s,
            nofile=self._nofile,
        )  # fmt: skip
        if self._pipes is not None:
            runtime.hold_pipes(self._pipes)
        if self.settings.store_url is not None:
            runtime.machine = self.state.known_node() or "a machine without a daemon yet"
        return runtime

    @cached_property
    def runtime_alone(self) -> "Runtime":
        """The same without the database: for ending what it cannot tell of."""
        from watchkeeper.runtimes.process import ProcessRuntime

        return ProcessRuntime(self.state.path, self.sockets, None, lambda: self.state.shims, self.system_clock)

    @cached_property
    def own_identity(self) -> "AgentIdentity":
        """This very process."""
        from watchkeeper.runtimes.system import own_identity

        return own_identity(self.clock)

    def sibling(self, *, apart: bool = False) -> "Watchkeeper":
        """The same parts for another thread, with a runtime and a database connection of its own.

        Connections to a server are few, so one is shared by all, unless this one has to be `apart`; that one has no fence.
        """
        # A daemon that has begun makes no new state directory or database in place of one that has gone.
        writes = self._writes and self.fence is None
        again = Watchkeeper(self.settings, self.environ, writes=writes, is_daemon=self._is_daemon)
        again._nofile, again._pipes = self._nofile, self._pipes
        again.system_clock, again.met = self.system_clock, self.met
        again.workspace, again.worktrees, again.harnesses = self.workspace, self.worktrees, self.harnesses
        if apart:
            return again
        if self.settings.store_url is not None:
            again.store = self.store
        if self.fence is not None:
            from watchkeeper.app.fence import FencedStore

            again.store = FencedStore(again.store, self.fence)
        return again

    def put_off_limits(self) -> "tuple[str, ...]":
        """Raise this daemon's own limits, among others to hold agents' pipes; agents get those of their tasks.

        Returns which limits could not be raised. Raises DaemonError if it cannot work so.
        """
        from watchkeeper.runtimes.daemon_host import begin_unlimited
        from watchkeeper.runtimes.log_pipes import LogPipes

        self._nofile, kept = begin_unlimited()
        self._pipes = LogPipes()
        return kept

    @cached_property
    def workspace(self) -> "Workspace":
        """Git checkouts and plain directories. A daemon looks from a process apart, whose modules a command need not load."""
        if self._is_daemon:
            from watchkeeper.workspaces.apart import ApartWorkspace

            return ApartWorkspace(self.settings.daemon_look_limit_s)
        from watchkeeper.workspaces.git import GitWorkspace

        return GitWorkspace(on_slow=self.on_slow)

    @cached_property
    def worktrees(self) -> "Worktrees":
        """Worktrees of tasks, in the state directory. A daemon makes them in a process apart."""
        # Nothing is written before one is made, so what only reads can say where it would be.
        root = (self.state.path if self._writes else self.state_path) / "worktrees"
        if self._is_daemon:
            from watchkeeper.workspaces.apart import ApartWorktrees

            return ApartWorktrees(root, self.settings.daemon_worktree_limit_s)
        from watchkeeper.workspaces.worktrees import GitWorktrees

        return GitWorktrees(root)

    @cached_property
    def salvages(self) -> "Salvages":
        """What is kept of removed worktrees, in the state directory."""
        from watchkeeper.workspaces.salvage import GitSalvages

        state = self.state.path if self._writes else self.state_path
        return GitSalvages(state / "worktrees", state / "salvage", self.settings.worktree_salvage_bytes)

    @cached_property
    def diffs(self) -> "Diffs":
        """What runs changed, as their repositories keep it."""
        from watchkeeper.workspaces.viewing import GitDiffs

        return GitDiffs(self.environ)

    @cached_property
    def live_files(self) -> "LiveFiles":
        """What runs that have not ended changed so far."""
        from watchkeeper.workspaces.git import GitWorkspace

        return GitWorkspace(self.environ, on_slow=self.on_slow)

    @cached_property
    def harnesses(self) -> "Registry":
        """Every harness that can be named, the user's own included."""
        from watchkeeper.harnesses.registry import Registry

        file = user_file(self.environ)
        return Registry(directory=None if file is None else file.parent / "harnesses")

    def harness(self, name: str) -> "Harness":
        """A harness by name. Raises UnknownHarness, HarnessError."""
        return self.harnesses.get(name)

    def hidden_harness(self, name: str) -> str:
        """Say that the user's file for a harness of that name is ignored; empty if the user has no such file."""
        found = self.harnesses.ignored_file(name)
        return "" if found is None else found.detail

    def harness_names(self) -> list[str]:
        """Every name that can be given."""
        return self.harnesses.names()

    def harness_options(self, name: str) -> Mapping[str, str]:
        """The settings of a harness. Raises HarnessError, and SettingsError for an option that it does not declare."""
        from watchkeeper.ports.harness import declared

        return self.settings.harness_options(name, declared(self.harness(name)).options)

    @cached_property
    def task_environments(self) -> "TaskEnvironments":
        """Under which environment each task's agent works here."""
        from watchkeeper.app.environments import TaskEnvironments

        return TaskEnvironments(
            environments=self.environments, machine=self.state.node(), harness=self.harness, environ=self.environ
        )

    @property
    def limits(self) -> "Limits":
        """What the settings say about every launch, whatever the harness."""
        from watchkeeper.app.profiles import Limits

        return Limits(grace_s=self.settings.stop_grace_s, log_limit_bytes=self.settings.logs_limit_bytes)

    @cached_property
    def launcher(self) -> "Launcher":
        """Prepares executions."""
        from watchkeeper.app.launch import Launcher, LaunchRules

        rules = LaunchRules(limits=self.limits, options=self.settings.harness_options)
        return Launcher(
            store=self.store,
            clock=self.clock,
            runtime=self.runtime,
            environments=self.task_environments,
            workspace=self.workspace,
            worktrees=self.worktrees,
            harness=self.harness,
            rules=rules,
            accounts=self.accounts,
            commands=self.side_commands,
        )

    @cached_property
    def side_commands(self) -> "SideCommands":
        """Runs checks and set-ups."""
        from watchkeeper.app.side_commands import SideCommands

        return SideCommands(
            store=self.store,
            clock=self.clock,
            ids=self.ids,
            runtime=self.runtime,
            environments=self.task_environments,
        )

    @cached_property
    def performer(self) -> "Performer":
        """Performs effects."""
        from watchkeeper.app.perform import Performer

        machine = self.state.node()
        return Performer(
            store=self.store,
            clock=self.clock,
            runtime=self.runtime,
            environments=self.environments,
            machine=machine,
            forget=self.workspace.forget,
        )

    @cached_property
    def observer(self) -> "Observer":
        """Observes runs."""
        from watchkeeper.app.observe import Observer

        return Observer(store=self.store, clock=self.clock, runtime=self.runtime)

    @cached_property
    def settler(self) -> "Settler":
        """Settles runs."""
        from watchkeeper.app.settle import Settler
        from watchkeeper.domain.service import ProbePolicy
        from watchkeeper.domain.settlement import RetryPolicy

        policy = RetryPolicy(
            base_s=self.settings.queue_retry_base_s,
            cap_s=self.settings.queue_retry_cap_s,
            relaunch_base_s=self.settings.queue_relaunch_base_s,
        )
        return Settler(
            store=self.store,
            clock=self.clock,
            runtime=self.runtime,
            workspace=self.workspace,
            harness=self.harness,
            policy=policy,
            commands=self.side_commands,
            probing=ProbePolicy(base_s=self.settings.queue_probe_base_s, cap_s=self.settings.queue_probe_cap_s),
            credential_state=self.sign_ins.credential_state,
        )

    @cached_property
    def accounts(self) -> "AccountEnvironments":
        """What an account makes of an environment."""
        from watchkeeper.app.accounts import AccountEnvironments
        from watchkeeper.runtimes.account_homes import AccountHomes
        from watchkeeper.runtimes.state_directory import locate

        return AccountEnvironments(homes=AccountHomes(locate(self.environ) / "accounts"))

    @cached_property
    def asker(self) -> "Asker":
        """Asks programs whether they are signed in."""
        from watchkeeper.app.sign_ins import Asker
        from watchkeeper.harnesses.sign_in import SignInLooker

        options = self.settings.harness_options
        return Asker(harness=self.harness, options=options, accounts=self.accounts, looker=SignInLooker())

    @cached_property
    def sign_ins(self) -> "SignIns":
        """Looks at sign-ins."""
        from watchkeeper.app.sign_ins import SignIns
        from watchkeeper.harnesses.sign_in import SignInLooker

        return SignIns(
            store=self.store,
            clock=self.clock,
            machine=self.state.node(),
            harness=self.harness,
            options=self.settings.harness_options,
            environments=self.task_environments,
            accounts=self.accounts,
            looker=SignInLooker(),
            environ=self.environ,
        )
