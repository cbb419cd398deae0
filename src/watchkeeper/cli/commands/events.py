"""`wk events`: history, as it was committed."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import NOTHING_YET, Call
from watchkeeper.cli.command import WkCommand, debug_option
from watchkeeper.cli.errors import Detached
from watchkeeper.cli.types import TASK_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchkeeper.ports.store import JournalEntry, Store

_PAGE = 500
_NEWEST = 50


@click.command(cls=WkCommand, name="events", short_help="The history, as it was committed.")
@click.option("-f", "--follow", is_flag=True, help="Continue as things happen, until Ctrl-C.")
@click.option(
    "--after",
    metavar="N",
    type=click.IntRange(min=0),
    help=f"Everything after entry N; 0 is all. [default: the newest {_NEWEST}; all with --json]",
)
@click.option(
    "--task", "task_id", metavar="ID", type=TASK_ID, help="Only what concerns this task; all of it by default."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with every fact, for programs.")
@debug_option
@click.pass_obj
def command(call: Call, follow: bool, after: int | None, task_id: str | None, as_json: bool) -> None:
    """Print the history in words: one line for everything that was committed, in that order.

    The number in front is a cursor: `wk events --after N` continues where you stopped and misses nothing. Where pruning
    has let something go behind it, that is said first (as JSON: an entry of the kind `history.forgotten`).
    """
    store = call.store
    only = None
    if task_id is not None:
        store, only = call.find(task_id)
    if store is None:
        if not as_json:
            call.terminal.prose(NOTHING_YET)
        return
    if after is None and as_json:
        after = 0
    start = _start(store, after, only)
    if after is not None:
        _print_gap(call, store, after, as_json=as_json)
    try:
        for entry in _entries(call, store, start, only, follow=follow):
            _print(call, entry, as_json=as_json)
    except KeyboardInterrupt:
        raise Detached("Detached; all tasks continue. Stop a task: wk stop ID") from None


def _print_gap(call: Call, store: "Store", after: int, *, as_json: bool) -> None:
    """A cursor must not pass over what is missing in silence."""
    through = store.read(lambda tx: tx.deletion.forgotten())
    if after >= through:
        return
    if as_json:
        call.terminal.line({"seq": after, "kind": "history.forgotten", "data": {"through": through}})
    else:
        call.terminal.note(f"Not everything up to {through} is kept: history of removed tasks is let go of in time.")


def _start(store: "Store", after: int | None, only: str | None) -> int:
    if after is not None:
        return after
    return 0 if only is not None else max(0, store.read(lambda tx: tx.journal.last()) - _NEWEST)


def _entries(call: Call, store: "Store", after: int, only: str | None, *, follow: bool) -> "Iterator[JournalEntry]":
    from watchkeeper.cli.follow import Watcher

    with Watcher([call.reading.state.path] if follow else []) as watcher:
        mark = store.changed(0)[1]
        while True:
            page = store.read(lambda tx, seq=after: tx.journal.after(seq, _PAGE, only))
            yield from page
            if page:
                after = page[-1].seq
            if len(page) == _PAGE:
                continue
            if not follow:
                return
            changed = False
            while not changed:
                watcher.wait()
                changed, mark = store.changed(mark)


def _print(call: Call, entry: "JournalEntry", *, as_json: bool) -> None:
    terminal = call.terminal
    if as_json:
        from watchkeeper.app.views import plain

        terminal.line(plain.entry(entry))
        return
    from watchkeeper.cli.history import describe

    about = entry.run_id or entry.task_id or ""
    front = f"{entry.seq:>6}  {render.clock(entry.at)}  {about:<11} "
    terminal.say(terminal.style(front, render.DIM) + terminal.fit(describe(entry), len(front)))
