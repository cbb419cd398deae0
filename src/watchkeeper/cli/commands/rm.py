"""`wk rm`: remove tasks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from watchkeeper.cli import daemon, errors, render, worktree_words
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.selection import REMOVE, pick, pick_options, picked
from watchkeeper.errors import Exit, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.domain.removal import Obstacle
    from watchkeeper.domain.salvage import Salvage


@dataclass(slots=True, kw_only=True)
class _Report:
    """What became of one."""

    typed: str
    task_id: str | None = None
    title: str = ""
    removed: bool = False
    kept: str | None = None
    salvage: "Salvage | None" = None
    reasons: "tuple[Obstacle, ...]" = ()
    error: WatchkeeperError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """How they are removed."""

    keep_log: bool
    force: bool
    keep_worktree: bool
    discard: bool


@click.command(cls=WkCommand, name="rm", short_help="Remove tasks that have ended.")
@pick_options(REMOVE)
@click.option("--keep-log", is_flag=True, help="Keep the logs of its runs, and say where.")
@click.option("--force", is_flag=True, help="Your word that nothing is alive of what is not proven to have ended.")
@click.option(
    "--keep-worktree",
    is_flag=True,
    help="Keep its worktree and branch, which `wk worktree ls` lists, or its scratch directory.",
)
@click.option(
    "--discard", is_flag=True, help="Also if its worktree holds work that is nowhere else; `wk undo` brings it back."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed, and what would not.")
@json_option
@debug_option
@click.pass_obj
def command(
    call: Call,
    keep_log: bool,
    force: bool,
    keep_worktree: bool,
    discard: bool,
    dry_run: bool,
    as_json: bool,
    **which: object,
) -> int:
    """Remove tasks: their records, outcomes and logs. What agents changed in your files stays.

    The worktree of a task goes with it, and is kept before: `wk undo` brings it back. Without --discard a worktree that
    holds what is nowhere else stays, and its task with it: a change that is not committed, an ignored file, a commit that
    only its branch has. Each is named.

    A task is removed only when it has ended, nothing of it may be alive, no other task waits for it, and it is not
    pinned. Each that is not removed is printed with every reason. That it was there stays in `wk events` for a while; its
    id is never given again.
    """
    wish = _Wish(keep_log=keep_log, force=force, keep_worktree=keep_worktree, discard=discard)
    task_ids = pick(call, REMOVE, picked(which), asks=not dry_run)
    reports = [_remove(call, typed, wish, dry_run=dry_run) for typed in dict.fromkeys(task_ids)]
    while not dry_run and _again(call, reports, wish):
        pass
    for report in reports:
        _print_report(call, report, dry_run=dry_run, as_json=as_json)
    if as_json:
        call.terminal.document([_plain(report) for report in reports])
    if not dry_run and any(report.removed for report in reports):
        daemon.ensure(call, "Removed; what is left of it on disk goes when a daemon runs")
    return next((int(report.error.exit_code) for report in reports if report.error is not None), Exit.OK)


def _again(call: Call, reports: list[_Report], wish: _Wish) -> bool:
    """What was kept only by others that were named too can go when these have gone, in whatever order they were typed. False if nothing more went."""
    from watchkeeper.app.remove import NotRemovable

    gone = any(report.removed for report in reports)
    more = False
    for at, report in reversed(list(enumerate(reports))):
        if gone and isinstance(report.error, NotRemovable) and report.error.is_awaited:
            reports[at] = _remove(call, report.typed, wish, dry_run=False)
            more = more or reports[at].removed
    return more


def _remove(call: Call, typed: str, wish: _Wish, *, dry_run: bool) -> _Report:
    from watchkeeper.app.remove import NotRemovable
    from watchkeeper.compose.housekeeping import remover_of

    report = _Report(typed=typed)
    try:
        store, report.task_id = call.find(typed)
        task_id = report.task_id
        report.title = store.read(lambda tx: tx.tasks.get(task_id)).spec.title
        if dry_run:
            remover_of(call.reading).require(
                task_id, trusting=wish.force, keep_worktree=wish.keep_worktree, discard=wish.discard
            )
        else:
            removed = remover_of(call.writing).remove(
                task_id,
                by=call.person,
                keep_logs=wish.keep_log,
                trusting=wish.force,
                keep_worktree=wish.keep_worktree,
                discard=wish.discard,
            )
            report.removed, report.salvage = True, removed.salvage
            if wish.keep_log and removed.executions:
                report.kept = str(call.writing.descriptions.kept_logs(task_id))
    except NotRemovable as refusal:
        report.error, report.reasons = refusal, refusal.reasons
    except WatchkeeperError as error:
        report.error = error
    return report


def _print_report(call: Call, report: _Report, *, dry_run: bool, as_json: bool) -> None:
    if report.error is not None:
        _ = errors.ours(report.error, call.terminal, as_json=as_json)
    elif not as_json:
        words = "would be removed" if dry_run else "was removed"
        call.terminal.say(f"{report.task_id}  {words}: {render.clean(report.title)}")
        if report.kept:
            call.terminal.say(f"  its logs: {render.clean(report.kept)}")
        for line in worktree_words.kept(report.salvage):
            call.terminal.prose(f"  {line}")


def _plain(report: _Report) -> dict[str, object]:
    return {
        "id": report.task_id or report.typed,
        "removed": report.removed,
        "kept_logs": report.kept,
        "undo": None if report.salvage is None else report.salvage.id,
        "reasons": [{"kind": each.kind.value, "detail": each.detail, "hint": each.hint} for each in report.reasons],
        "error": None if report.error is None else str(report.error),
    }
