"""`wk status`: the health of everything in one line."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import accounts, daemon, notices, record_repair, render, services
from watchkeeper.cli.call import NOTHING_YET, Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.domain.model import TaskState

if TYPE_CHECKING:
    from datetime import datetime

    from watchkeeper.app.views.health import Health
    from watchkeeper.app.views.rows import TaskRow
    from watchkeeper.app.views.whereabouts import Whereabouts
    from watchkeeper.ports.service import DaemonInfo
    from watchkeeper.ports.store import Damage, Store

_NAMED = 5
"""How many records that cannot be read are named."""

_WORDS = {
    TaskState.RUNNING: "running",
    TaskState.QUEUED: "queued",
    TaskState.NEEDS_INPUT: "needs you",
    TaskState.HELD: "held",
    TaskState.FAILED: "failed",
    TaskState.STOPPED: "stopped",
    TaskState.DONE: "done",
}


@click.command(cls=WkCommand, name="status", short_help="The health of everything in one line, and what needs you.")
@json_option
@debug_option
@click.pass_obj
def command(call: Call, as_json: bool) -> None:
    """Say in one line how everything is, and name what needs you."""
    from watchkeeper.app.views.health import NOTHING, health
    from watchkeeper.app.views.whereabouts import everyone

    call.names_damage = True
    store = call.store
    found = None if store is None else health(store, call.runtime, everything=as_json)
    info = None if store is None else daemon.running(call)
    machines = [] if store is None else everyone(store)
    silent = [] if store is None else notices.silent(store)
    torn, whole = _damage(call, store)
    if as_json:
        from watchkeeper.app.views import plain

        database = "none" if found is None else "damaged" if whole else "ok"
        closed = [accounts.plain(call, row) for row in accounts.closed(call)]
        told = {
            **plain.health(found or NOTHING),
            "accounts_closed": closed,
            "machines": [plain.machine(each) for each in machines],
            "damage": [record_repair.plain(each) for each in torn],
            "database_says": whole,
            "notices_fail": [plain.sink(each) for each in silent],
        }
        call.terminal.document({"daemon": daemon.plain(info), "database": database, **told})
    elif found is None:
        call.terminal.prose(NOTHING_YET)
    else:
        _say_health(call, found, info, _database(torn, whole))
        _print_damage(call, torn, whole)
        for each in machines:
            call.terminal.say(_machine(each))
        for state in silent:
            call.terminal.prose(notices.line(state), hang=4)
    if found is not None:
        daemon.warn_for(call, found)


def _database(torn: "list[Damage]", whole: str) -> str:
    """Damaged is the file itself; a record that cannot be read costs nothing else."""
    unreadable = f", {render.counted(len(torn), 'record')} unreadable" if torn else ""
    return f"database {'DAMAGED' if whole else 'ok'}{unreadable}"


def _damage(call: Call, store: "Store | None") -> "tuple[list[Damage], str]":
    """The records that cannot be read, and what the daemon last said of the database as a whole."""
    from watchkeeper.app.damage import known

    if store is None:
        return [], ""
    return known(store), call.reading.state.damage()


def _print_damage(call: Call, torn: "list[Damage]", whole: str) -> None:
    if whole:
        call.terminal.prose(
            f"{render.clean(whole)} `wk restore FILE` puts a backup in its place; the damaged file is kept."
        )
    for each in torn[:_NAMED]:
        call.terminal.prose(f"  cannot be read: {record_repair.line(each)}", hang=4)
    if torn:
        more = f" ({len(torn) - _NAMED} more)" if len(torn) > _NAMED else ""
        call.terminal.say(f"What can be done about it{more}: wk store repair")


def _machine(there: "Whereabouts") -> str:
    """One that shares the database, and when it was last heard of."""
    name = f"machine {render.clean(there.name)} ({there.machine[:6]})"
    if there.reachable:
        return f"{name}: heard of"
    since = f" since {render.clock(there.since)}" if there.since is not None else ""
    return f"{name}: not heard of{since}; its runs stay as they are"


def _daemon(info: "DaemonInfo | None", now: "datetime") -> str:
    if info is None:
        return "no daemon"
    up = f"up {render.duration((now - info.started_at).total_seconds())} (pid {info.pid})"
    return f"daemon STOPPED, {up}" if info.frozen else f"daemon {up}"


def _say_health(call: Call, found: "Health", info: "DaemonInfo | None", database: str) -> None:
    _print(call, found, info, database)
    if info is not None and info.frozen:
        call.terminal.say(f"{daemon.describe_frozen(info)} resumes it.")


def _print(call: Call, found: "Health", info: "DaemonInfo | None", database: str) -> None:
    terminal, now = call.terminal, call.reading.clock.now()
    waits = ", ".join(f"{count} {wait}" for wait, count in found.waits.items())
    counts = [
        f"{found.counts[state]} {word}" + (f" ({waits})" if waits and state is TaskState.QUEUED else "")
        for state, word in _WORDS.items()
        if found.counts.get(state)
    ]
    parts = [_daemon(info, now), database, *(counts or ["no tasks"])]
    if found.outbox_pending:
        parts.append(f"{render.counted(found.outbox_pending, 'step')} left for the daemon")
    if found.answered:
        parts.append(f"{len(found.answered)} answered, still running")
    if found.stalled:
        parts.append(f"{len(found.stalled)} without progress")
    terminal.say(" · ".join(parts))
    if found.paused:
        terminal.say(terminal.fit(f"paused: {render.clean(', '.join(found.paused))} (wk queue show)"))
    closed = accounts.closed(call)
    overdue = [row for row in closed if services.needs_you(call, row.state)]
    for row in closed:
        if row not in overdue:
            terminal.say(accounts.closed_line(row, now))
    if found.needs_you or overdue:
        terminal.say("Needs you:")
    for row in overdue:
        terminal.prose(f"  {accounts.closed_line(row, now)} wk account show {row.account.id}", hang=4)
    for row in found.needs_you:
        line = f"  {row.task.id}  {render.clean(row.task.spec.title)}: {render.clean(_why(row))}"
        terminal.say(terminal.fit(line))
    if found.more:
        terminal.say("  … and more: wk ls")
    if any(row.task.state is TaskState.FAILED for row in found.needs_you):
        terminal.say(
            terminal.style("A failure is named until you look at it (wk show ID), or wk ls --seen.", render.DIM)
        )


def _why(row: "TaskRow") -> str:
    """Why a task needs a person."""
    task = row.task
    if row.run is not None and row.run.stop_failed is not None:
        return f"stop failed: {row.run.stop_failed}"
    if task.state is TaskState.FAILED:
        return f"failed: {task.reason}" if task.reason else "failed"
    if task.state is TaskState.QUEUED and row.brief is not None:
        return f"cannot start: {row.brief.detail}"
    return task.reason
