"""What `wk doctor` looks at, one small function each. Nothing here changes anything."""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.cli import accounts, daemon, render, routes
from watchkeeper.cli.system_checks import Check, Level, kernel, python
from watchkeeper.domain.account import SignIn
from watchkeeper.errors import Exit, NoDatabase, RecordTorn, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.app.harness_choice import HarnessCandidate
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.store import Tx

_LITTLE_ROOM = 1024**3
_NAMED = 5


def checks(call: "Call") -> Iterator[Check]:
    """Every look, in order; each is made when it is asked for."""
    yield python()
    yield kernel()
    yield _settings(call)
    yield _state(call)
    yield _database(call)
    yield _records(call)
    yield _queue(call)
    yield _daemon(call)
    yield _room(call)
    yield _clock(call)
    yield _sockets(call)
    yield _program("git", "changes of a run are read with it", "Install git; without it what a run changed is unknown.")
    yield _program("tmux", "not needed", "")
    yield from _harnesses(call)
    yield from _accounts(call)
    yield _foreign(call)
    yield _doors(call)


def code(found: list[Check]) -> int:
    """The exit code: that of the first bad one."""
    return next((int(check.code or Exit.STATE) for check in found if check.level is Level.BAD), Exit.OK)


def _guarded(name: str, exit_code: Exit, check: Callable[[], Check]) -> Check:
    """Make a look; an error is what it found."""
    try:
        return check()
    except WatchkeeperError as error:
        return Check(name=name, level=Level.BAD, detail=str(error), hint=error.hint, code=exit_code)
    except OSError as error:
        return Check(
            name=name, level=Level.BAD, detail=f"cannot be looked at: {error.strerror or error}", code=exit_code
        )


def _settings(call: "Call") -> Check:
    def check() -> Check:
        from watchkeeper.settings import load, user_file

        _ = load(call.settings_from, call.environ)  # with the repository's file, as `wk run` would
        file = user_file(call.environ)
        return Check(
            name="settings", level=Level.OK, detail=f"your file: {file if file and file.exists() else f'none ({file})'}"
        )

    return _guarded("settings", Exit.SETTINGS, check)


def _state(call: "Call") -> Check:
    def check() -> Check:
        if call.store is None and not _state_path(call):
            return Check(name="state directory", level=Level.OK, detail="not made yet; the first task makes it")
        path = call.reading.state.path
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            return Check(
                name="state directory",
                level=Level.NOTE,
                detail=f"{path} can be entered by others",
                hint=f"chmod 700 {path}",
            )
        if not os.access(path, os.W_OK | os.X_OK):
            return Check(
                name="state directory", level=Level.BAD, detail=f"{path} cannot be written to", code=Exit.STATE,
                hint="Make it writable, or set WATCHKEEPER_HOME to a directory of yours.",
            )  # fmt: skip
        return Check(name="state directory", level=Level.OK, detail=str(path), facts={"path": str(path)})

    return _guarded("state directory", Exit.STATE, check)


def _state_path(call: "Call") -> Path | None:
    """Where the state directory is, if it was made."""
    try:
        return call.reading.state.path
    except WatchkeeperError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def _database(call: "Call") -> Check:
    def check() -> Check:
        from watchkeeper.cli.database_words import headline, remarks, server

        path = _state_path(call)
        if path is None:
            return Check(name="database", level=Level.OK, detail="not made yet; the first task makes it")
        try:
            store = call.reading.store
        except NoDatabase:
            return Check(name="database", level=Level.OK, detail="not made yet; the first task makes it")
        whole = call.reading.state.damage()
        if whole:
            return Check(
                name="database", level=Level.BAD, detail=whole, code=Exit.STATE,
                hint="wk restore FILE puts a backup in its place",
            )  # fmt: skip
        served = server(call)
        if served is not None:
            notes = remarks(served)
            level = Level.NOTE if notes else Level.OK
            return Check(name="database", level=level, detail=" ".join([headline(served), *notes]))
        with contextlib.suppress(RecordTorn):  # a torn record is not damage of the file: the next check names it
            store.check()
        count = sum(store.read(lambda tx: tx.tasks.counts()).values())
        size = render.size(_size_of_database(call.reading.state.database))
        return Check(
            name="database",
            level=Level.OK,
            detail=f"whole; {render.counted(count, 'task')}, {size}",
            facts={"tasks": count},
        )

    return _guarded("database", Exit.STATE, check)


def _records(call: "Call") -> Check:
    def check() -> Check:
        from watchkeeper.app.repair import search
        from watchkeeper.cli import record_repair

        call.names_damage = True
        store = call.store
        torn = [] if store is None else search(store)
        if not torn:
            return Check(name="records", level=Level.OK, detail="all can be read")
        listed = ", ".join(each.name for each in torn[:_NAMED]) + (" …" if len(torn) > _NAMED else "")
        return Check(
            name="records",
            level=Level.NOTE,
            detail=f"{len(torn)} cannot be read: {render.clean(listed)}",
            hint="wk store repair",
            facts={"damage": [record_repair.plain(each) for each in torn]},
        )

    return _guarded("records", Exit.STATE, check)


def _queue(call: "Call") -> Check:
    def check() -> Check:
        from watchkeeper.cli import queue_check

        found = queue_check.check_queue(call)
        facts: dict[str, object] = {"faults": list(found.faults)} if found.faults else {}
        return Check(name="queue", level=Level(found.level), detail=found.detail, hint=found.hint, facts=facts)

    return _guarded("queue", Exit.STATE, check)


def _size_of_database(path: Path) -> int:
    """What it takes on the disk: what was written last is still in its log."""
    files = (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"))
    return sum(file.stat().st_size for file in files if file.exists())


def _daemon(call: "Call") -> Check:
    def check() -> Check:
        if _state_path(call) is None:
            return Check(name="daemon", level=Level.OK, detail="does not run; the first task starts it")
        info = daemon.running(call)
        if info is None:
            return Check(
                name="daemon",
                level=Level.NOTE,
                detail="does not run",
                hint="It starts with the next `wk run`, or now: wk daemon start",
            )
        if info.frozen:
            return Check(
                name="daemon",
                level=Level.BAD,
                detail=f"pid {info.pid} is stopped (SIGSTOP) and does nothing",
                hint=f"kill -CONT {info.pid}",
                code=Exit.DAEMON,
                facts={"pid": info.pid},
            )
        from watchkeeper import __version__

        if info.version != __version__:
            return Check(
                name="daemon", level=Level.NOTE, detail=f"pid {info.pid} is of version {info.version}, this is {__version__}",
                hint="wk daemon restart; agents continue, and the new daemon takes them over",
            )  # fmt: skip
        return Check(
            name="daemon", level=Level.OK, detail=f"pid {info.pid}, version {info.version}", facts={"pid": info.pid}
        )

    return _guarded("daemon", Exit.DAEMON, check)


def _room(call: "Call") -> Check:
    def check() -> Check:
        path = _state_path(call) or Path(call.environ.get("HOME", "/"))
        room = os.statvfs(path)
        free = room.f_bavail * room.f_frsize
        if free < _LITTLE_ROOM:
            return Check(
                name="disk", level=Level.NOTE, detail=f"only {render.size(free)} free at {path}", hint="Free some space.",
                facts={"free_bytes": free},
            )  # fmt: skip
        return Check(
            name="disk", level=Level.OK, detail=f"{render.size(free)} free at {path}", facts={"free_bytes": free}
        )

    return _guarded("disk", Exit.STATE, check)


def _clock(call: "Call") -> Check:
    def check() -> Check:
        if call.store is None:
            return Check(name="clock", level=Level.OK, detail="nothing is kept yet")
        from watchkeeper.cli import clock
        from watchkeeper.compose.housekeeping import ages_of

        told = clock.describe(ages_of(call.reading).watched())
        if told:
            return Check(name="clock", level=Level.NOTE, detail=told, hint=clock.TRUST)
        return Check(name="clock", level=Level.OK, detail="agrees with the time since boot")

    return _guarded("clock", Exit.STATE, check)


def _sockets(call: "Call") -> Check:
    def check() -> Check:
        count = call.reading.left_over_sockets()
        if count:
            detail = f"{render.counted(count, 'directory', 'directories')} of earlier versions without a listener"
            return Check(name="sockets", level=Level.NOTE, detail=detail, hint="A daemon removes them within the hour.")
        return Check(name="sockets", level=Level.OK, detail="no left-over directories")

    return _guarded("sockets", Exit.STATE, check)


def _program(name: str, why: str, hint: str) -> Check:
    path = shutil.which(name)
    if path is None:
        return Check(name=name, level=Level.NOTE, detail=f"not installed; {why}", hint=hint)
    return Check(name=name, level=Level.OK, detail=path, facts={"path": path})


def _harnesses(call: "Call") -> Iterator[Check]:
    """Each harness, with its program and how to get it."""
    from watchkeeper.app import harness_choice

    try:
        found = harness_choice.survey(call.reading, call.reading.harness_names(), call.environ)
    except WatchkeeperError as error:
        yield Check(name="harnesses", level=Level.NOTE, detail=str(error), hint=error.hint)
        return
    for each in found:
        name = f"harness {each.name}"
        if not each.usable:
            yield Check(name=name, level=Level.NOTE, detail=each.problem, hint=each.hint)
            continue
        yield _harness(call, each)
    for hidden in call.reading.harnesses.ignored():
        yield Check(name=f"harness {render.clean(hidden.name)}", level=Level.NOTE, detail=render.clean(hidden.detail))


def _harness(call: "Call", found: "HarnessCandidate") -> Check:
    """An installed program, and where its requests go."""
    from watchkeeper.app.route import describe as route_says

    name = f"harness {found.name}"
    facts: dict[str, object] = {"path": found.path, "version": found.version}
    version = f" {found.version}" if found.version else ""
    detail = f"{found.path}{version}" if found.path else "runs whatever command line a task brings"
    try:
        route = routes.of_harness(call, found.name)
    except WatchkeeperError as error:
        return Check(name=name, level=Level.NOTE, detail=f"{detail}. {error}", hint=error.hint, facts=facts)
    facts |= {"host": route.host or None, "host_source": route.source or None}
    where = route_says(route)
    return Check(
        name=name, level=Level.OK, detail=f"{detail}; requests go to {where}" if where else detail, facts=facts
    )


def _accounts(call: "Call") -> Iterator[Check]:
    """Each account by its program's own word at this moment, and by what agents last came to."""
    try:
        found = accounts.rows(call)
        looks = [accounts.check_sign_in(call, row.account) for row in found]
    except (WatchkeeperError, OSError) as error:
        yield Check(name="accounts", level=Level.NOTE, detail=str(error))
        return
    for row, check in zip(found, looks, strict=True):
        account, refused = row.account.id, row.state.sign_in is SignIn.OUT
        detail = (
            f"{check.detail}; an agent was last refused: {render.clean(row.state.detail)}" if refused else check.detail
        )
        out = refused or check.sign_in is SignIn.OUT
        sure = check.sign_in is SignIn.IN and not out
        yield Check(
            name=f"account {account}", level=Level.OK if sure else Level.NOTE, detail=detail,
            hint=f"wk account login {account}" if out else "",
            facts={"sign_in": check.sign_in.value, "last_seen": row.state.sign_in.value},
        )  # fmt: skip


def _foreign(call: "Call") -> Check:
    """Execution directories that belong to no run of this database."""

    def check() -> Check:
        store = call.store
        if store is None:
            return Check(name="executions", level=Level.OK, detail="none yet")
        names = call.runtime().executions().names()
        known = store.read(lambda tx: {name for name in names if _is_known(tx, name)})
        foreign = [name for name in names if name not in known]
        if not foreign:
            return Check(name="executions", level=Level.OK, detail=f"{len(names)} kept, all known")
        listed = ", ".join(foreign[:_NAMED]) + (" …" if len(foreign) > _NAMED else "")
        return Check(
            name="executions",
            level=Level.NOTE,
            detail=f"{render.counted(len(foreign), 'directory', 'directories')} of no run of this database: {listed}",
            hint="They are left alone. Was the database restored from a backup? Look at them before you delete them.",
            facts={"foreign": foreign},
        )

    return _guarded("executions", Exit.STATE, check)


def _doors(call: "Call") -> Check:
    """What an agent, which runs as you, could reach."""
    doors: list[str] = []
    if _is_writable(Path("/var/run/docker.sock")):
        doors.append("docker's socket (as good as root)")
    if call.environ.get("SSH_AUTH_SOCK"):
        doors.append("your ssh-agent")
    if call.environ.get("DBUS_SESSION_BUS_ADDRESS"):
        doors.append("your session's D-Bus")
    if call.environ.get("TMUX"):
        doors.append("the tmux server you are in")
    if os.geteuid() == 0:
        doors.append("everything, because you are root")
    reach = (
        f"agents run as you and can reach {', '.join(doors)}"
        if doors
        else "agents run as you; no special doors were found"
    )
    return Check(name="open doors", level=Level.NOTE if doors else Level.OK, detail=reach, facts={"doors": doors})


def _is_writable(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode) and os.access(path, os.W_OK)
    except OSError as error:
        return error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.EACCES}


def _is_known(tx: "Tx", execution_id: str) -> bool:
    return tx.runs.by_execution(execution_id) is not None or tx.commands.by_execution(execution_id) is not None
