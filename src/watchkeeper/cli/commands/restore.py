"""`wk restore`: a backup becomes the database."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.commands.backup import plain, progress, summary
from watchkeeper.errors import Refused

if TYPE_CHECKING:
    from watchkeeper.app.restore import Since
    from watchkeeper.ports.backup import BackupFacts


@click.command(cls=WkCommand, name="restore", short_help="Put a backup in the place of the database.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Also when agents run that are missing in the backup.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only read the file and say what would happen; for this, too, the daemon must not run.",
)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, file: Path, force: bool, dry_run: bool, as_json: bool) -> None:
    """Put a backup that `wk backup` wrote in the place of the database.

    The daemon must not run. The database that is there now is kept beside it, under a name that says when. Agents that
    were running when the backup was made are found again by their directories. Tasks that may have run since are
    stopped, so that nothing runs twice without your word; where any task has not ended, the queue is paused until
    `wk queue resume`.
    """
    from watchkeeper.app.restore import make_fit, reconcile_copy

    parts = call.writing
    with parts.daemon_host.keep_away(), parts.backups.stage(call.named(file), progress(call, "copying")) as staged:
        call.terminal.clear_status()
        since = reconcile_copy(staged.store, staged.facts, parts.descriptions.described())
        kept = None
        if not dry_run:
            if since.alive and not force:
                raise _refusal(since)
            make_fit(staged, since, parts.clock)
            kept = staged.put_in_place(f"{parts.clock.now():%Y%m%dT%H%M%SZ}")
        facts = staged.facts
    if as_json:
        call.terminal.document(_plain(facts, since, kept, restored=not dry_run))
    else:
        _print_restored(call, file, facts, since, kept, dry_run=dry_run)


def _refusal(since: "Since") -> Refused:
    names = ", ".join(sorted({one.run_id for one in since.alive}))
    count = len(since.alive)
    works = "agent works" if count == 1 else "agents work"
    return Refused(
        f"{count} {works} that this backup does not contain ({names}): nothing was changed.",
        hint="End them first (`wk daemon start`, `wk stop …`, `wk daemon stop`), or say --force: then no daemon watches them.",
    )


def _print_restored(
    call: Call, file: Path, facts: "BackupFacts", since: "Since", kept: Path | None, *, dry_run: bool
) -> None:
    say = call.terminal.say
    name = render.clean(str(file))
    if dry_run:
        say(f"{name} is whole: {summary(facts)}. Nothing was changed.")
    else:
        say(f"Restored {name}: {summary(facts)}.")
    if kept is not None:
        say(f"The database that was there is kept: {render.clean(str(kept))}")
    if since.may_have_run:
        count = render.counted(len(since.may_have_run), "task")
        call.terminal.prose(
            f"{count} may have run after the backup {'would be' if dry_run else 'and'} stopped; `wk retry` starts one again:"
        )
        for task_id in since.may_have_run:
            say(f"  {render.clean(task_id)}")
    for one in since.alive:
        say(f"  {render.clean(one.run_id)} works, and no daemon watches it: {render.clean(one.execution_id)}")
    if not dry_run:
        paused = " The queue is paused; when you have looked: `wk queue resume`." if since.waiting else ""
        call.terminal.prose(f"Next: `wk ls`, then `wk daemon start`.{paused}")


def _plain(facts: "BackupFacts", since: "Since", kept: Path | None, *, restored: bool) -> dict[str, object]:
    return plain(facts) | {
        "restored": restored,
        "kept": str(kept) if kept else None,
        "may_have_run": list(since.may_have_run),
        "unknown_executions": [one.execution_id for one in since.unknown],
        "unwatched_executions": [one.execution_id for one in since.alive],
        "waiting": since.waiting,
        "queue_paused": restored and since.waiting > 0,
    }
