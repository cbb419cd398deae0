"""`wk prune`: let go of what is old."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from watchkeeper.cli import daemon, render
from watchkeeper.cli.call import NOTHING_YET, Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import DURATION

if TYPE_CHECKING:
    from watchkeeper.app.remove import NotRemovable
    from watchkeeper.app.retention import Swept
    from watchkeeper.domain.model import Task
    from watchkeeper.domain.salvage import Salvage

_SHOWN = 20


@click.command(cls=WkCommand, name="prune", short_help="Let go of old tasks, logs and history.")
@click.option(
    "--older-than",
    "older_s",
    metavar="DUR",
    type=DURATION,
    help="Remove tasks that ended longer ago. [default: as `prune.keep_tasks_days` says]",
)
@click.option(
    "--keep", metavar="N", type=click.IntRange(0, 10_000), default=0, help="Keep the newest N that ended, however old."
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option(
    "--trust-clock", is_flag=True, help="Count time that only the clock of the day saw pass: you know that it is right."
)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, older_s: float | None, keep: int, dry_run: bool, trust_clock: bool, as_json: bool) -> None:
    """Remove tasks that ended long ago, logs that are kept no longer, and history of what is gone.

    The settings `prune.keep_tasks_days`, `prune.keep_days` and `prune.keep_history_days` are the rules; the daemon
    goes by them too, every hour. Removed worktrees are let go of after `prune.keep_salvage_days`, by this command only.
    The worktree of a task goes with it if nothing is lost by that, and `wk undo` brings it back.

    Pinned tasks stay, and so does what may be alive, is uncertain, or is waited for: that is printed with its reasons.
    Where the clock has jumped forward, what it jumped over makes nothing older.
    """
    from watchkeeper.app.ages import ago_by
    from watchkeeper.cli import clock
    from watchkeeper.compose.housekeeping import ages_of, pruner_of, retention_of, undoer_of

    if call.store is None:
        if as_json:
            call.terminal.document(
                {"tasks": [], "executions": [], "history": 0, "left": [], "salvages": [], "jumps": []}
            )
        else:
            call.terminal.prose(NOTHING_YET)
        return
    parts = call.reading if dry_run else call.writing
    watched = clock.compare(ages_of(parts), trust=trust_clock, keep=not dry_run)
    clock.warn(call, watched)
    ago = ago_by(watched)
    retention, pruner, undoer = retention_of(parts, ago, by_a_person=True), pruner_of(parts, ago), undoer_of(parts)
    older_than = None if older_s is None else timedelta(seconds=older_s)
    swept = retention.tasks(by=call.person, older_than=older_than, keep=keep, dry_run=dry_run)
    salvages, problems = undoer.let_go(ago, dry_run=dry_run)
    gone = {task.id for task in swept.removed}
    if dry_run:
        executions = [run.execution_id for run in pruner.candidates() if run.task_id not in gone]
        history = 0
    else:
        executions = pruner.prune()
        history = retention.history()
    if as_json:
        call.terminal.document(
            {
                **_plain(swept, executions, history),
                "salvages": [each.id for each in salvages],
                "jumps": clock.plain(watched),
            }
        )
    else:
        _print_pruned(call, swept, len(executions), history, salvages, dry_run=dry_run)
    for problem in problems:
        call.terminal.note(f"wk: {render.clean(problem)}")
    if swept.removed and not dry_run:
        daemon.ensure(call, "Removed; what is left of it on disk goes when a daemon runs", starts=False)


def _print_pruned(
    call: Call, swept: "Swept", executions: int, history: int, salvages: "list[Salvage]", *, dry_run: bool
) -> None:
    say = call.terminal.say
    for salvage in salvages[:_SHOWN]:
        word = "would be let go of" if dry_run else "was let go of"
        say(f"{salvage.id}  {word}: the removed worktree of {render.clean(salvage.tree.branch)}")
    for task in swept.removed[:_SHOWN]:
        say(f"{task.id}  {'would be removed' if dry_run else 'was removed'}: {render.clean(task.spec.title)}")
    if len(swept.removed) > _SHOWN:
        say(f"… and {len(swept.removed) - _SHOWN} more")
    for task, refusal in swept.refused[:_SHOWN]:
        say(f"{task.id}  stays: {_reasons(refusal)}")
    if not swept.removed and not executions and not history and not salvages:
        say("There is nothing to remove.")
        return
    counts = [render.counted(len(swept.removed), "task"), f"logs of {render.counted(executions, 'other run')}"]
    if not dry_run:
        counts.append(render.counted(history, "entry of history", "entries of history"))
    say(f"{'Would remove' if dry_run else 'Removed'} {', '.join(counts)}.")


def _reasons(refusal: "NotRemovable") -> str:
    return "; ".join(render.clean(each.detail) for each in refusal.reasons)


def _plain(swept: "Swept", executions: list[str], history: int) -> dict[str, object]:
    def left(task: "Task", refusal: "NotRemovable") -> dict[str, object]:
        return {
            "id": task.id,
            "reasons": [{"kind": each.kind.value, "detail": each.detail} for each in refusal.reasons],
        }

    return {
        "tasks": [task.id for task in swept.removed],
        "executions": executions,
        "history": history,
        "left": [left(task, refusal) for task, refusal in swept.refused],
    }
