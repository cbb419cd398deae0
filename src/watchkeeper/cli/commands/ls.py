"""`wk ls`: tasks, one line each."""

from typing import TYPE_CHECKING, NamedTuple

import click

from watchkeeper.cli import daemon, render
from watchkeeper.cli.call import NOTHING_YET, Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.domain.task_record import Task, TaskState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from watchkeeper.app.views.rows import Listing, TaskRow
    from watchkeeper.ports.store import Store

_RECENT = 10
_LIMIT = 200
_MOST = 100_000
_ALL = 1 << 31
_SHOWN = {"needs_input": "in need of you"}
_WIDEST = 200
"""Columns of a line where no person looks: a reason can be long, and a program that wants all of it asks for JSON."""


_LABEL = "Only those with this label, however long ago they ended; may be repeated."
_HOW_MANY = f"Show at most this many tasks. [default: {_LIMIT}; all with --json]"
_OWN = frozenset({"dependency", "checkout busy"})
_TIMES = frozenset({"not before", "retry at", "quota until"})
"""What a task waits for by itself, in the words of `Wait`, which a list of tasks that do not wait need not know."""


def _complete(_ctx: click.Context, _param: click.Parameter, beginning: str) -> list[str]:
    """Labels that start like this. A list does not wait for the kinds of arguments that others have."""
    from watchkeeper.cli.completions import labels

    return labels(beginning, _RECENT)


@click.command(cls=WkCommand, name="ls", short_help="List tasks.")
@click.option("-a", "--all", "everything", is_flag=True, help="Every task, however long ago it ended.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in TaskState]),
    help="Only these; may be repeated.",
)
@click.option("--label", "labels", metavar="NAME", multiple=True, shell_complete=_complete, help=_LABEL)
@click.option("--limit", type=click.IntRange(1, _MOST), help=_HOW_MANY)
@click.option("--seen", is_flag=True, help="Mark every failure as looked at first.")
@json_option
@debug_option
@click.pass_obj
def command(
    call: Call,
    everything: bool,
    states: tuple[str, ...],
    labels: tuple[str, ...],
    limit: int | None,
    seen: bool,
    as_json: bool,
) -> None:
    """List tasks: what needs you, what is active, and what ended lately.

    The state is read from the evidence at this moment, also when no daemon runs. `wk show ID` has the whole story.
    A failure stays listed until you look at it (`wk show`, `wk logs`) or mark all with --seen.

    With --json every task is listed in the order of handing over, unless --state or --label says otherwise, or
    --limit: then the newest.
    """
    store = call.store
    if seen and store is not None:
        _mark_seen(call)
    found = _Wanted(everything, tuple(TaskState(state) for state in states), labels, limit)
    if as_json:
        _print_json(call, store, found)
        return
    shown = found.listing(call, store)
    busy = sum(_is_busy(row) for row in shown.rows)
    acts = not busy or daemon.running(call) is not None
    if labels and not shown.rows:
        named = call.terminal.conceal(" and ".join(render.clean(name)[:_WIDEST] for name in labels))
        call.terminal.prose(f"No task is labelled {named}.")
    elif store is None or not (shown.rows or shown.left_out):
        call.terminal.prose(NOTHING_YET)
    else:
        _print(call, shown, states, acts=acts)
    if not acts:
        daemon.say_none(call, busy)


class _Wanted(NamedTuple):
    """Which tasks are asked for."""

    everything: bool
    states: tuple[TaskState, ...]
    labels: tuple[str, ...]
    limit: int | None

    def listing(self, call: Call, store: "Store | None") -> "Listing":
        """What is listed for people, or up to a limit."""
        from watchkeeper.app.views.rows import ACTIVE_STATES, Listing, labelled, listing

        most = self.limit if self.limit is not None else (_MOST if self.everything else _LIMIT)
        if store is None:
            return Listing(rows=(), left_out=0)
        if self.labels:
            return labelled(store, call.runtime, self.states or tuple(TaskState), most, self.labels)
        wanted = self.states or (tuple(TaskState) if self.everything else ACTIVE_STATES)
        recent = 0 if self.states or self.everything else min(_RECENT, most)
        return listing(store, call.runtime, wanted, most, recent)


def _print_json(call: Call, store: "Store | None", wanted: _Wanted) -> None:
    """All of it, or up to the limit, and then how much more there is."""
    from watchkeeper.app.views import plain
    from watchkeeper.app.views.rows import labelled, newest, whole

    cut, rows, states = 0, iter(()), wanted.states or tuple(TaskState)
    if store is not None and wanted.labels:
        found = labelled(store, call.runtime, states, wanted.limit or _ALL, wanted.labels)
        cut, rows = found.cut, iter(found.rows)
    elif store is not None and wanted.limit is not None:
        found = newest(store, call.runtime, states, wanted.limit)
        cut, rows = found.cut, iter(found.rows)
    elif store is not None:
        rows = whole(store, call.runtime, states)
    busy = 0

    def values() -> "Iterator[object]":
        nonlocal busy
        for row in rows:
            busy += _is_busy(row)
            yield plain.row(row)

    call.terminal.array(values())
    if cut:
        call.terminal.note(f"{render.counted(cut, 'more task')} beyond the limit; leave --limit away for all of them.")
    if busy and daemon.running(call) is None:
        daemon.say_none(call, busy)


def _mark_seen(call: Call) -> None:
    from watchkeeper.app.see import see_all

    count = see_all(call.writing.store, call.writing.clock)
    call.terminal.note(f"{render.counted(count, 'failure')} {'is' if count == 1 else 'are'} marked as looked at.")


def _is_busy(row: "TaskRow") -> bool:
    return row.task.state in {TaskState.QUEUED, TaskState.RUNNING}


def _print(call: Call, found: "Listing", states: tuple[str, ...], *, acts: bool) -> None:
    terminal, now = call.terminal, call.reading.clock.now()
    if found.rows:
        most = call.reading.settings.queue_limit
        limit = f"limit, {found.running} of {most} agents are running" if found.running >= most else ""
        rows = [
            (
                row.task.id,
                row.standing.word,
                row.task.spec.harness,
                render.age(_since(row.task), now),
                _about(row, now, limit, acts=acts),
            )
            for row in found.rows
        ]
        terminal.table(("ID", "STATE", "HARNESS", "AGE", "TITLE"), rows, colour=1, at_most=_WIDEST)
    if found.left_out:
        more = render.counted(found.left_out, "more task" if found.rows and not states else "task")
        others = f"{more} in other states: wk ls --all"
        if found.rows:
            detail = others if states else f"{more}: wk ls --all"
        elif states:
            detail = f"No task is {' or '.join(_SHOWN.get(state, state) for state in states)}; {others}"
        else:
            detail = f"No task is active; {more}: wk ls --all"
        terminal.say(terminal.style(detail, render.DIM))
    if found.unseen:
        failures = render.counted(found.unseen, "failure")
        detail = f"{failures} not looked at yet: wk show ID, or wk ls --seen for all"
        terminal.say(terminal.style(detail, render.DIM))


def _since(task: Task) -> "datetime":
    return task.ended_at or task.created_at


def _about(row: "TaskRow", now: "datetime", limit: str, *, acts: bool) -> str:
    """The title, and behind it why it is not simply running or done."""
    task, title = row.task, render.clean(row.task.spec.title)
    title = f"{title} (pinned)" if task.pinned_at is not None else title
    if task.state is TaskState.QUEUED:
        waits = _waits(row, now, limit, acts=acts)
        return f"{title} (waits: {waits})" if waits else title
    since = row.run.stalled_since if row.run is not None and row.standing.word == "running" else None
    detail = task.remark if task.state is TaskState.DONE else row.standing.why
    if task.spec.worktree is not None:
        from watchkeeper.cli import worktree_words  # most lists have no task with a worktree

        detail = "; ".join(filter(None, (detail, worktree_words.merge(task.spec.worktree))))
    why = render.clean(render.lasting(detail, since, now))
    return f"{title} ({why})" if why else title


def _waits(row: "TaskRow", now: "datetime", limit: str, *, acts: bool) -> str:
    """The first reason why a queued task waits. What closes its lane holds only while a daemon runs."""
    known, task = row.brief, row.task
    left_s = 0.0 if task.wake_at is None else (task.wake_at - now).total_seconds()
    detail = render.clean(known.detail) if known is not None else ""
    if known is not None and known.wait in {*_TIMES, "harness missing"} and left_s > 0:
        return f"{known.wait}, in {render.duration(left_s)}{f': {detail}' if detail else ''}"
    if known is not None and known.wait in _OWN:
        return f"{known.wait}{f', {detail}' if detail else ''}"
    if not acts:
        return "no daemon runs"
    return limit if known is None or known.wait in {"limit", *_TIMES} else known.wait
