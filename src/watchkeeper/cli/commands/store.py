"""`wk store`: the database as a whole."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import record_repair, render
from watchkeeper.cli.call import NOTHING_YET, Call
from watchkeeper.cli.command import SETTINGS, WkCommand, debug_option, json_option
from watchkeeper.cli.database_words import headline, remarks
from watchkeeper.errors import Exit, UsageError

if TYPE_CHECKING:
    from watchkeeper.ports.damage import Damage
    from watchkeeper.ports.databases import MovedFacts, StoreFacts

_BAR_FROM_ROWS = 5000


@click.group(name="store", short_help="The database: check, repair, upgrade, copy.", context_settings=SETTINGS)
def command() -> None:
    """Look at the database, bring it up to date, or move everything into another one.

    Which one is used, the setting `store.url` says: `wk config set store URL`.
    """


@command.command(cls=WkCommand)
@click.option("--thorough", is_flag=True, help="Read all of it; takes seconds for a large one.")
@json_option
@debug_option
@click.pass_obj
def check(call: Call, thorough: bool, as_json: bool) -> int:
    """Say whether the database can be reached and is sound. Exit code 6 if not.

    Beside that: which schema it has, whether what is kept about the queue is what follows from the tasks, whether
    a long transaction makes the server slow, and whether this machine's clock is right.
    """
    from dataclasses import asdict

    from watchkeeper.app.repair import search
    from watchkeeper.app.views.database import facts
    from watchkeeper.compose.databases import location

    store = call.store
    if store is None:
        if as_json:
            call.terminal.document(None)
        else:
            call.terminal.prose(NOTHING_YET)
        return Exit.OK
    parts = call.reading
    there = location(parts.settings.store_url, parts.state, host=parts.host_name)
    call.names_damage = True
    torn = search(store)
    found = facts(store, there.detail, parts.system_clock, thorough=thorough)
    if as_json:
        call.terminal.document({**asdict(found), "records": [each.name for each in torn]})
    else:
        for line in _lines(found, torn):
            call.terminal.prose(line)
    return Exit.STATE if found.faults or torn else Exit.OK


def _lines(found: "StoreFacts", torn: "list[Damage]") -> "list[str]":
    lines = [f"{headline(found)}: {_verdict(found, torn)}."]
    lines.append(f"Schema {found.schema}, database {found.database_id[:8]}.")
    lines += remarks(found)
    lines += [f"Wrong: {render.clean(fault)}" for fault in found.faults]
    lines += [f"Cannot be read: {record_repair.line(each)}" for each in torn]
    if torn:
        lines.append("What can be done about it: wk store repair")
    return lines


def _verdict(found: "StoreFacts", torn: "list[Damage]") -> str:
    if found.faults:
        return "wrong"
    return f"sound but for {render.counted(len(torn), 'record')}" if torn else "sound"


@command.command(cls=WkCommand, short_help="What cannot be read, and what can be done about it.")
@click.argument("record", required=False, metavar="[RECORD]")
@click.option("--do", metavar="CHOICE", help="What to do about RECORD: drop, mend, fail or forget.")
@json_option
@debug_option
@click.pass_obj
def repair(call: Call, record: str | None, do: str | None, as_json: bool) -> None:
    """List the records of the database that cannot be read, each with what can be done about it; or do one of these.

    One such record does not hold up anything else. Its task is not started, and nothing is decided about it by
    guess; an agent that works for it continues. Every record is read for the list, which takes seconds in a large
    database. RECORD is a name from the list, or the id of its task.

    \b
    Examples:
      wk store repair
      wk store repair outbox:12 --do drop
    """
    from watchkeeper.cli import record_repair

    call.names_damage = True
    if do is None:
        record_repair.show(call, record, as_json=as_json)
    else:
        record_repair.do(call, record, do, as_json=as_json)


@command.command(cls=WkCommand)
@json_option
@debug_option
@click.pass_obj
def upgrade(call: Call, as_json: bool) -> None:
    """Bring the database up to date. A daemon that starts does it, too."""
    from watchkeeper.app.views.database import facts
    from watchkeeper.compose.databases import location

    parts = call.writing
    there = location(parts.settings.store_url, parts.state, host=parts.host_name)
    store = there.open()
    try:
        found = facts(store, there.detail, parts.system_clock, thorough=False)
    finally:
        store.close()
    if as_json:
        call.terminal.document({"schema": found.schema, "where": found.where})
    else:
        call.terminal.say(f"The database {render.clean(found.where)} has schema {found.schema}, the newest.")


@command.command(cls=WkCommand, short_help="Move everything into another database.")
@click.option("--to", metavar="URL", help="Into which database: a URL, or `sqlite`. [default: the one in use]")
@click.option("--from", "source", metavar="URL", help="Out of which database. [default: the one in use]")
@json_option
@debug_option
@click.pass_obj
def copy(call: Call, to: str | None, source: str | None, as_json: bool) -> None:
    """Move everything into another database, which must be empty: all in one transaction, and compared afterwards.

    No daemon may run on either; agents continue under their shims, and the first daemon on the new database adopts
    them. The old database is marked, so that both are never in use. If this is interrupted, the old one is as it
    was: type it again.

    \b
    Examples:
      wk store copy --to postgresql://wk@db.example.org/wk
      wk store copy --from postgresql://wk@db.example.org/wk --to sqlite
    """
    from watchkeeper.compose.databases import location, move

    parts = call.writing
    used = parts.settings.store_url
    old, new = _url(source, used), _url(to, used)
    if old == new:
        raise UsageError(
            "It would be copied onto itself.",
            hint="Say --to URL for where to, or, if `store.url` names that already, --from sqlite or --from URL for where from.",
        )

    def show(done: int, total: int) -> None:
        if total >= _BAR_FROM_ROWS:
            call.terminal.status(f"copying … {100 * done // total}%")

    with parts.daemon_host.keep_away():
        here, there = (location(url, parts.state, host=parts.host_name) for url in (old, new))
        found = move(here, there, shared=new is not None, node=parts.state.node(), progress=show)
    call.terminal.clear_status()
    if as_json:
        from dataclasses import asdict

        call.terminal.document(asdict(found))
    else:
        _say_moved(call, found, is_used=new == used, shared=new is not None)


def _url(typed: str | None, used: str | None) -> str | None:
    from watchkeeper.domain.store_url import mistyped, read_store

    if typed is None:
        return used
    try:
        return read_store(typed)
    except ValueError as wrong:
        raise UsageError(
            f"What was typed is not a database: {render.clean(mistyped(typed))[:80]}.", hint=f"It must be {wrong}."
        ) from None


def _say_moved(call: Call, found: "MovedFacts", *, is_used: bool, shared: bool) -> None:
    say = call.terminal.prose
    rows = f"{render.counted(found.tasks, 'task')}, {render.counted(found.rows, 'row')}"
    source, destination = render.clean(found.source), render.clean(found.destination)
    if found.finished_earlier:
        say(f"An earlier try had moved everything to {destination} ({rows}); it can be used now.")
    else:
        say(f"Moved {rows} to {destination}, and compared them. {source} is marked and is not used any more.")
    if found.bound:
        say(
            f"What waits ({render.counted(found.bound, 'task')}) is for this machine; `wk edit ID --machine any` lets any other run it, too."
        )
    if not is_used:
        say(f"Now: wk config set store {'URL (the new one)' if shared else 'sqlite'}, then wk daemon start.")
