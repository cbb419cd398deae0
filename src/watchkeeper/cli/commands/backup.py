"""`wk backup`: a copy of what Watchkeeper knows."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import NOTHING_YET, Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.errors import NoDatabase, StateDirectoryUnusable

if TYPE_CHECKING:
    from watchkeeper.ports.backup import BackupFacts, Backups, Progress

NOT_INCLUDED = {
    "logs": "the logs and records of runs (executions/)",
    "environments": "captured environments, which may hold secrets",
    "accounts": "the homes of accounts, which hold sign-ins",
    "settings": "settings files",
}
"""What a backup does not hold, and in which words that is said."""

_BAR_FROM_PAGES = 2000


@click.command(cls=WkCommand, name="backup", short_help="Copy what Watchkeeper knows into a file.")
@click.argument("place", metavar="FILE|DIR", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace a file of that name.")
@json_option
@debug_option
@click.pass_obj
def command(call: Call, place: Path, force: bool, as_json: bool) -> None:
    """Copy the database into one file: tasks, runs, outcomes and the journal, as they are at one moment.

    Nothing waits for it: the daemon and its agents keep working. The copy is read from end to end before it gets its name. In
    a directory its name says when it was made. Not in it are logs, captured environments (they may hold secrets), the
    homes of accounts (they hold sign-ins) and settings. `wk restore` puts it back.
    """
    parts = call.reading
    file = place
    if place.is_dir():
        file = place / f"watchkeeper-{parts.clock.now():%Y%m%dT%H%M%SZ}.db"
    facts = _backups(call).create(call.named(file), replace=force, progress=progress(call, "copying"))
    call.terminal.clear_status()
    if as_json:
        call.terminal.document(plain(facts) | {"not_included": list(NOT_INCLUDED)})
        return
    call.terminal.prose(f"Wrote {render.clean(str(facts.path))}: {summary(facts)}, checked.")
    call.terminal.prose(f"Not in it: {'; '.join(NOT_INCLUDED.values())}.", render.DIM)


def _backups(call: Call) -> "Backups":
    try:
        return call.reading.backups
    except StateDirectoryUnusable as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise NoDatabase("There is nothing to back up yet.", hint=NOTHING_YET) from error
        raise


def progress(call: Call, word: str) -> "Progress":
    """Show how far it is, where a person looks and it takes long enough to look."""

    def show(done: int, total: int) -> None:
        if total >= _BAR_FROM_PAGES:
            call.terminal.status(f"{word} … {100 * done // total}%")

    return show


def summary(facts: "BackupFacts") -> str:
    """How much is in it, in a few words."""
    newest = f", up to {render.clock(facts.newest)}" if facts.newest else ""
    return f"{render.counted(facts.tasks, 'task')}{newest}, {render.size(facts.size)}"


def plain(facts: "BackupFacts") -> dict[str, object]:
    """The facts as JSON values."""
    return {
        "path": str(facts.path),
        "bytes": facts.size,
        "tasks": facts.tasks,
        "newest": facts.newest.isoformat() if facts.newest else None,
        "database_id": facts.database_id,
        "schema": facts.schema,
    }
