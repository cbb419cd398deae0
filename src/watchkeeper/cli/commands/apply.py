"""`wk apply`: put what a run changed into the caller's checkout."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import TASK_ID
from watchkeeper.errors import Exit, UsageError

if TYPE_CHECKING:
    from watchkeeper.app.apply import ApplyResult

_SHOWN = 12


@click.command(cls=WkCommand, name="apply", short_help="Put what a run changed into your checkout, uncommitted.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option(
    "--run", "number", metavar="N", type=click.IntRange(min=1), help="Run N. [default: the newest that ended]"
)
@click.option("--dry-run", is_flag=True, help="Only say whether it can be applied, and which files would change.")
@click.option("--3way", "three_way", is_flag=True, help="Merge what does not fit, with markers where it conflicts.")
@click.option("--reverse", is_flag=True, help="Take the changes out again.")
@json_option
@debug_option
@click.pass_obj
def command(
    call: Call, task_id: str, number: int | None, dry_run: bool, three_way: bool, reverse: bool, as_json: bool
) -> int:
    """Put what a run changed into the checkout that you are in, as changes that are not committed.

    Commits of the run and what it did not commit are both in it, as `wk diff` shows them. It is applied as a whole or
    not at all: where a file of it has uncommitted changes of yours, or does not fit, nothing is changed, and the files
    are named. With --3way git merges what does not fit, and leaves both versions between markers where they conflict.

    `wk apply ID --reverse` takes the changes out again, as long as the files are as they were left.
    """
    from watchkeeper.app.apply import ApplyRequest, apply
    from watchkeeper.compose.taking_over import applier_of

    if three_way and reverse:
        raise UsageError("--3way and --reverse exclude each other.", hint="Leave one away.")
    store, found_id = call.find(task_id)
    request = ApplyRequest(
        task_id=found_id,
        directory=str(call.cwd),
        run=number,
        reverse=reverse,
        three_way=three_way,
        dry_run=dry_run,
    )
    result = apply(store, call.runtime, call.reading.diffs, applier_of(call.reading), request)
    if as_json:
        call.terminal.document(_plain(result, reverse=reverse, dry_run=dry_run))
    else:
        _print(call, result, reverse=reverse, dry_run=dry_run)
    return int(Exit.NEEDS_YOU if result.applied.conflicts else Exit.OK)


def _print(call: Call, result: "ApplyResult", *, reverse: bool, dry_run: bool) -> None:
    terminal, applied, found = call.terminal, result.applied, result.diff
    which = f"run {found.run.number} of task {found.task.id}"
    files = render.counted(len(applied.paths), "file")
    where = render.clean(applied.top)
    if dry_run:
        verb = "taken out of" if reverse else "applied in"
        terminal.prose(f"{files} of {which} would be {verb} {where}:")
    elif reverse:
        terminal.prose(f"{files} of {which} were taken out of {where} again:")
    else:
        terminal.prose(f"{files} of {which} were applied in {where}, uncommitted:")
    for path in applied.paths[:_SHOWN]:
        terminal.say(f"  {render.clean(path)}")
    if len(applied.paths) > _SHOWN:
        terminal.say(f"  … {len(applied.paths) - _SHOWN} more")
    if result.left_out:
        terminal.note(f"Not kept, so not applied: {render.clean(', '.join(result.left_out))}")
    if applied.conflicts:
        names = render.clean(", ".join(applied.conflicts))
        terminal.prose(f"These hold both versions between markers, for you to resolve: {names}")
    elif not dry_run and not reverse:
        terminal.prose(f"`wk apply {found.task.id} --run {found.run.number} --reverse` takes them out again.")


def _plain(result: "ApplyResult", *, reverse: bool, dry_run: bool) -> dict[str, object]:
    return {
        "task": result.diff.task.id,
        "run": result.diff.run.number,
        "checkout": result.applied.top,
        "files": list(result.applied.paths),
        "conflicts": list(result.applied.conflicts),
        "left_out": list(result.left_out),
        "reversed": reverse,
        "dry_run": dry_run,
    }
