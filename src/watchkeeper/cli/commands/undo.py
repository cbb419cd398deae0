"""`wk undo`: bring removed worktrees back."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli import worktree_words as words
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import TASK_ID
from watchkeeper.errors import UsageError

if TYPE_CHECKING:
    from watchkeeper.app.undo import Kept, Undoer, Undone


@click.command(cls=WkCommand, name="undo", short_help="Bring the last removed worktree back.")
@click.argument("salvage_id", metavar="[ID]", required=False, type=TASK_ID)
@click.option("--list", "lists", is_flag=True, help="Only list the removed worktrees that can be brought back.")
@json_option
@debug_option
@click.pass_obj
def command(call: Call, salvage_id: str | None, lists: bool, as_json: bool) -> None:
    """Bring the worktree back that `wk worktree clean`, `wk rm` or `wk prune` removed last, or that of a task.

    Everything is as it was: files with their modes, what was staged and what was not, ignored files, the branch and its
    reflog, a merge or rebase that was under way. If something else is in its place, nothing is replaced. A task that was
    removed too stays removed: its record, its history and its logs are gone.
    """
    if lists and salvage_id is not None:
        raise UsageError("--list takes no ID.", hint="`wk undo ID` brings one back.")
    if lists:
        _list(call, as_json=as_json)
        return
    from watchkeeper.app.undo import NothingToUndo

    if call.store is None:
        raise NothingToUndo("No worktree was removed that could be brought back.")
    undone = _undoer(call, writes=True).undo(salvage_id, by=call.person)
    if as_json:
        call.terminal.document(_undone(undone))
        return
    salvage = undone.salvage
    where = words.where(salvage.tree) if salvage.present else "missing, as it was; the repository knows it again"
    call.terminal.prose(f"{salvage.task_id}  its worktree is back: {where}")
    if undone.task is None:
        call.terminal.prose(
            "The task itself was removed: its record, history and logs do not come back. "
            f"`wk worktree show {salvage.task_id}` shows the worktree."
        )
    if undone.left:
        call.terminal.note(f"wk: {render.clean(undone.left)}")


def _list(call: Call, *, as_json: bool) -> None:
    kept = [] if call.store is None else _undoer(call, writes=False).kept()
    if as_json:
        call.terminal.document([_kept(each) for each in kept])
    elif not kept:
        call.terminal.say("There is no removed worktree that can be brought back.")
    else:
        now = call.reading.clock.now()
        rows = [
            (
                each.salvage.id,
                render.age(each.salvage.at, now),
                render.size(each.salvage.size_bytes),
                "for ever" if each.until is None else f"{render.age(now, each.until)} more",
                each.salvage.tree.branch,
                render.clean(each.salvage.title),
            )
            for each in kept
        ]
        call.terminal.table(("ID", "AGE", "SIZE", "KEPT", "BRANCH", "TITLE"), rows, colour=0)


def _undoer(call: Call, *, writes: bool) -> "Undoer":
    from watchkeeper.compose.housekeeping import undoer_of

    return undoer_of(call.writing if writes else call.reading)


def _kept(kept: "Kept") -> dict[str, object]:
    from watchkeeper.app.views import plain

    salvage = kept.salvage
    return {
        "id": salvage.id,
        "task_id": salvage.task_id,
        "title": salvage.title or None,
        "task_state": None if kept.task is None else kept.task.state.value,
        "removed_at": salvage.at.isoformat(),
        "removed_by": salvage.by,
        "kept_until": None if kept.until is None else kept.until.isoformat(),
        "files": salvage.files,
        "size_bytes": salvage.size_bytes,
        "ref": salvage.ref,
        "commit": salvage.commit,
        "pushed_by": list(salvage.pushed_by),
        "left_out": list(salvage.left_out),
        **plain.worktree(salvage.tree),
        "state": salvage.state.value,
    }


def _undone(undone: "Undone") -> dict[str, object]:
    salvage = undone.salvage
    return {
        "id": salvage.id,
        "task_id": salvage.task_id,
        "path": salvage.tree.path,
        "branch": salvage.tree.branch,
        "present": salvage.present,
        "task_is_there": undone.task is not None,
        "left": undone.left or None,
    }
