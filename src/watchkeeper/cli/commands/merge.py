"""`wk merge`: bring a task's commits into another branch."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import TASK_ID
from watchkeeper.errors import UsageError

if TYPE_CHECKING:
    from watchkeeper.app.merge import MergeResult


@click.command(cls=WkCommand, name="merge", short_help="Bring a task's commits into another branch.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("--into", metavar="BRANCH", help="The branch. [default: the one that the task's branch started at]")
@click.option("--squash", is_flag=True, help="Make one commit of all.")
@click.option("--no-check", is_flag=True, help="Do not run the task's checks before the branch moves.")
@click.option("--commit", "commits", is_flag=True, help="Commit first what is not committed in the task's worktree.")
@click.option("--message", "-m", metavar="TEXT", help="The message of that commit.")
@click.option("--continue", "proceeds", is_flag=True, help="Continue after you have resolved conflicts.")
@click.option("--abort", "aborts", is_flag=True, help="Give up a merge that has not ended.")
@json_option
@debug_option
@click.pass_obj
def command(  # noqa: PLR0913, PLR0917 - one for each option
    call: Call,
    task_id: str,
    into: str | None,
    squash: bool,
    no_check: bool,
    commits: bool,
    message: str | None,
    proceeds: bool,
    aborts: bool,
    as_json: bool,
) -> None:
    """Bring the commits of a task's branch into another branch, by default the one that it started at.

    The commits are replayed on that branch as it is now, in a directory of their own. The task's checks run there. Then
    the branch moves to the new commits, with the files where it is checked out. If it was moved meanwhile, all of
    that is done again. Changes of yours that are in the way, a conflict or a failing check leave the branch as it was.

    Your name is on the new commits as the committer; the authors stay. No hook and no other program that the
    repository's configuration names is run, and nothing is signed. The task's own branch and worktree stay:
    `wk worktree clean ID` removes them.
    """
    from watchkeeper.app.merge import MergeRequest
    from watchkeeper.compose.taking_over import merger_of

    _refuse_contradictions(
        proceeds=proceeds, aborts=aborts, others=bool(into or squash or commits), message=message, commits=commits
    )
    terminal = call.terminal
    _, found_id = call.find(task_id)
    merger = merger_of(call.writing, lambda sentence: terminal.note(render.clean(sentence)))
    if aborts:
        merge = merger.abort(found_id, by=call.person)
        if as_json:
            terminal.document({"task": found_id, "merged": False, "aborted": True, "into": merge.into})
        else:
            terminal.prose(
                f"The merge of task {found_id} into {render.clean(merge.into)} is given up; the branch is as it was."
            )
        return
    request = MergeRequest(
        task_id=found_id,
        by=call.person,
        environ=call.environ,
        into=into,
        squash=squash,
        check=not no_check,
        message=message if commits else None,
    )
    result = merger.proceed(request) if proceeds else merger.merge(request)
    if as_json:
        terminal.document(_plain(result))
        return
    for line in _lines(result):
        terminal.prose(line)


def _refuse_contradictions(*, proceeds: bool, aborts: bool, others: bool, message: str | None, commits: bool) -> None:
    if proceeds and aborts:
        raise UsageError("--continue and --abort exclude each other.", hint="Leave one away.")
    if (proceeds or aborts) and others:
        raise UsageError(
            "A merge that is under way continues as it began.", hint="Leave --into, --squash and --commit away."
        )
    if commits and not (message or "").strip():
        raise UsageError("A commit needs a message.", hint='Give it with -m "…".')
    if message is not None and not commits:
        raise UsageError("--message is for --commit.", hint="Say --commit too, or leave --message away.")


def _lines(result: "MergeResult") -> list[str]:
    from watchkeeper.domain.merge import SHORT

    task, merged = result.task, result.merged
    into, tip = render.clean(merged.into), merged.tip[:SHORT]
    if result.already:
        return [f"Task {task.id} is merged already: {into} has its commits, at {tip}."]
    passed = f"; {render.counted(result.checks, 'check')} passed" if result.checks else ""
    lines = [f"Task {task.id} is merged into {into} at {tip}{passed}."]
    lines += [f"The files in {render.clean(path)} are up to date." for path in result.checkouts]
    return [*lines, f"`wk worktree clean {task.id}` removes its worktree and branch."]


def _plain(result: "MergeResult") -> dict[str, object]:
    merged = result.merged
    return {
        "task": result.task.id,
        "merged": True,
        "already": result.already,
        "into": merged.into,
        "commit": merged.tip,
        "source": merged.source,
        "checks": result.checks,
        "checkouts": list(result.checkouts),
    }
