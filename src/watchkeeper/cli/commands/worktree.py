"""`wk worktree`: the worktrees of tasks."""

from typing import TYPE_CHECKING, cast

import click

from watchkeeper.cli import errors, render
from watchkeeper.cli import worktree_words as words
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import SETTINGS, WkCommand, debug_option, json_option
from watchkeeper.cli.types import TASK_ID
from watchkeeper.errors import Exit, NoSuchTask, UsageError, WatchkeeperError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchkeeper.app.worktrees import Keeper, WorktreeRow
    from watchkeeper.domain.salvage import Salvage

_LABEL = 12
_PATHS = 12
_STEP = 1024


@click.group(name="worktree", short_help="The worktrees of tasks: list, show, clean.", context_settings=SETTINGS)
def command() -> None:
    """Look at the git worktrees that tasks work in, and remove those that are not needed.

    `wk run --worktree` makes one for a task, with a branch of its own. It stays until a person removes it.
    """


@command.command(name="ls", cls=WkCommand, short_help="List every worktree, and what it holds.")
@json_option
@debug_option
@click.pass_obj
def list_all(call: Call, as_json: bool) -> None:
    """List the worktrees of this machine: those of tasks, and those that `wk rm --keep-worktree` left."""
    keeper = _keeper(call)
    rows = [] if keeper is None else keeper.rows(sized=True)
    if as_json:
        call.terminal.document([_plain(row) for row in rows])
    elif not rows:
        call.terminal.say("There is no worktree; `wk run --worktree` makes one for a task.")
    else:
        table = [(row.task_id, _state(row), _size(row), row.tree.branch, _holds(row)) for row in rows]
        call.terminal.table(("ID", "TASK", "SIZE", "BRANCH", "HOLDS"), table, colour=1)


@command.command(cls=WkCommand, short_help="One worktree in full.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@json_option
@debug_option
@click.pass_obj
def show(call: Call, task_id: str, as_json: bool) -> None:
    """Show the worktree of one task: where it is, what it holds, and what would be lost without it."""
    row = _required(call).row(_named(call, task_id))
    if as_json:
        call.terminal.document(_plain(row))
        return
    tree, seen = row.tree, row.seen
    now = "no commit is checked out there" if seen.branch is None else f"branch {seen.branch} is checked out there"
    fields = [
        ("task", f"{row.task_id} ({_state(row)})"),
        ("directory", tree.path if seen.present else f"{tree.path} (missing)"),
        ("branch", f"{tree.branch} {words.base(tree)}"),
        ("", now if seen.present and not seen.problem and seen.branch != tree.branch else ""),
        ("of", tree.source),
        ("size", _size(row)),
        ("problem", seen.problem),
        *_paths("changed", seen.changed),
        *_paths("ignored", seen.ignored),
        *_paths("hidden", seen.hidden),
        ("merge", words.merge(tree)),
        ("commits", f"{seen.commits} that no other branch or tag has" if seen.commits else ""),
        ("next", _next(row)),
    ]
    for label, text in fields:
        if text:
            call.terminal.prose(f"{label:<{_LABEL}}{render.clean(text)}", hang=_LABEL)


@command.command(cls=WkCommand, short_help="Remove worktrees that are provably not needed.")
@click.argument("task_ids", metavar="[ID]...", nargs=-1, type=TASK_ID)
@click.option("--all", "everything", is_flag=True, help="Every worktree of this machine whose task has ended.")
@click.option("--discard", is_flag=True, help="Also what holds work that is nowhere else; `wk undo` brings it back.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed, and what would not.")
@json_option
@debug_option
@click.pass_obj
def clean(call: Call, task_ids: tuple[str, ...], everything: bool, discard: bool, dry_run: bool, as_json: bool) -> int:
    """Remove worktrees that are not needed, with their branches. Each is kept before; `wk undo` brings it back.

    A worktree stays while its task has not ended. Without --discard it also stays while it holds a change that is not
    committed or a file that git ignores, and while its branch has a commit that no other branch or tag has. Each reason
    is named.
    """
    if everything == bool(task_ids):
        raise UsageError("Name the tasks whose worktrees are to go, or say --all.", hint="`wk worktree ls` lists them.")
    keeper = _keeper(call)
    rows = [] if keeper is None else keeper.rows()
    ids = [row.task_id for row in rows] if everything else [_named(call, each) for each in task_ids]
    reports = [_clean(call, each, discard=discard, dry_run=dry_run) for each in dict.fromkeys(ids)]
    if as_json:
        call.terminal.document([_report(each) for each in reports])
    code = Exit.OK
    for report in reports:
        problem = report["problem"]
        if isinstance(problem, WatchkeeperError):
            if everything and not as_json:
                call.terminal.say(f"{report['id']}  stays: {render.clean(str(problem))}")
                continue
            code = errors.ours(problem, call.terminal, as_json=as_json)
        elif not as_json:
            done = "would be removed" if dry_run else "was removed" if report["removed"] else "was not there"
            call.terminal.say(f"{report['id']}  {done}")
            for line in words.kept(cast("Salvage | None", report["kept"])):
                call.terminal.prose(f"  {line}")
    if everything and not rows and not as_json:
        call.terminal.say("There is no worktree.")
    return int(code)


def _report(report: "Mapping[str, object]") -> dict[str, object]:
    kept = cast("Salvage | None", report["kept"])
    shown = {key: report[key] for key in ("id", "removed", "error")}
    return {**shown, "undo": None if kept is None else kept.id}


def _clean(call: Call, task_id: str, *, discard: bool, dry_run: bool) -> "Mapping[str, object]":
    from watchkeeper.compose.housekeeping import keeper_of

    removed, problem, kept = False, None, None
    try:
        keeper = keeper_of(call.reading if dry_run else call.writing)
        try:
            if dry_run:
                keeper.require(task_id, discard=discard)
            else:
                kept = keeper.remove(task_id, by=call.person, discard=discard)
                removed = kept is not None
        except NoSuchTask:
            if dry_run:
                _ = keeper.require_kept(task_id, discard=discard)
            else:
                kept = keeper.remove_kept(task_id, by=call.person, discard=discard)
                removed = True
    except WatchkeeperError as error:
        problem = error
    error = None if problem is None else str(problem)
    return {"id": task_id, "removed": removed, "error": error, "problem": problem, "kept": kept}


def _keeper(call: Call) -> "Keeper | None":
    from watchkeeper.compose.housekeeping import keeper_of

    return None if call.store is None else keeper_of(call.reading)


def _required(call: Call) -> "Keeper":
    keeper = _keeper(call)
    if keeper is None:
        raise NoSuchTask("There is no task yet.")
    return keeper


def _named(call: Call, typed: str) -> str:
    """The task that a person names, which may have been removed. Raises NotFound."""
    try:
        return call.find(typed)[1]
    except NoSuchTask:
        keeper = _keeper(call)
        kept = [] if keeper is None else [row.task_id for row in keeper.rows() if row.task_id.startswith(typed)]
        if len(kept) != 1:
            raise
        return kept[0]


def _state(row: "WorktreeRow") -> str:
    return "removed" if row.task is None else row.task.state.value.replace("_", " ")


def _size(row: "WorktreeRow") -> str:
    if row.seen.size_bytes is None:
        return ""
    size, units = float(row.seen.size_bytes), ["B", "K", "M", "G"]
    while size >= _STEP and len(units) > 1:
        size /= _STEP
        units.pop(0)
    return f"{size:.0f}{units[0]}"


def _holds(row: "WorktreeRow") -> str:
    """In a few words what would be lost."""
    seen = row.seen
    if seen.problem:
        return render.clean(seen.problem)
    parts = [
        f"{len(seen.changed) + len(seen.hidden)} changed" if seen.changed or seen.hidden else "",
        f"{len(seen.ignored)} ignored" if seen.ignored else "",
        render.counted(seen.commits, "commit") if seen.commits else "",
    ]
    held = ", ".join(part for part in parts if part)
    held = held or ("nothing new" if seen.present else "missing")
    merge = words.merge(row.tree)
    return f"{held}; {merge}" if merge else held


def _paths(label: str, paths: "tuple[str, ...]") -> list[tuple[str, str]]:
    rows = [(label if number == 0 else "", path) for number, path in enumerate(paths[:_PATHS])]
    return rows + ([("", f"… {len(paths) - _PATHS} more")] if len(paths) > _PATHS else [])


def _next(row: "WorktreeRow") -> str:
    from watchkeeper.domain.worktree import advice

    if row.needs:
        return advice(row.tree, row.seen)
    return f"wk worktree clean {row.task_id} (nothing is lost by it)"


def _plain(row: "WorktreeRow") -> dict[str, object]:
    from watchkeeper.app.views import plain

    seen = row.seen
    return {
        "id": row.task_id,
        "task_state": None if row.task is None else row.task.state.value,
        **plain.worktree(row.tree),
        "present": seen.present,
        "problem": seen.problem or None,
        "checked_out": seen.branch,
        "changed": list(seen.changed),
        "ignored": list(seen.ignored),
        "hidden": list(seen.hidden),
        "commits": seen.commits,
        "size_bytes": seen.size_bytes,
        "needs": list(row.needs),
    }
