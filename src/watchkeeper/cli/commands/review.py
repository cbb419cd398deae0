"""`wk review`: what a run changed, in the user's own diff tool."""

import click

from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option
from watchkeeper.cli.types import TASK_ID
from watchkeeper.errors import Refused


@click.command(cls=WkCommand, name="review", short_help="What a run changed, in your own diff tool.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("--run", "number", metavar="N", type=click.IntRange(min=1), help="Run N. [default: the newest]")
@debug_option
@click.pass_obj
def command(call: Call, task_id: str, number: int | None) -> int:
    """Open what a run changed in your own diff tool, as two directories: before the run, and as it left the files.

    The tool is the setting `review.tool`, a command that is given both directories, else the one that you have
    configured for `git difftool`. Nothing of the repository's own configuration counts, because an agent may have
    written it. The directories are copies: what you change there is not kept.

    Of a run that has not ended it opens what has changed so far, as the files are at that moment.
    """
    from watchkeeper.app.diff import DiffRequest, opened

    tool, terminal = call.reading.settings.review_tool, call.terminal
    if tool is None and not (terminal.is_terminal and terminal.stdin_is_terminal):
        raise Refused(
            "There is no terminal, and git's own tools may need one.",
            hint="`wk config set review.tool COMMAND` names a tool; `wk diff` prints the patch.",
        )
    store, found_id = call.find(task_id)
    request = DiffRequest(task_id=found_id, run=number)
    with opened(store, call.runtime, call.reading.live_files, request) as found:
        so_far = " so far" if found.outcome is None else ""
        if so_far:
            terminal.note(
                f"Run {found.run.number} of task {found.task.id} has not ended. This is what has changed so far."
            )
        changes = found.changes
        if changes is not None and changes.known and not changes.files and not changes.commits:
            terminal.note(f"Run {found.run.number} of task {found.task.id} changed nothing{so_far}.")
            return 0
        diffs = call.reading.diffs
        code = diffs.review(found.kept(diffs), tool)
    if code:
        raise Refused(
            f"The diff tool ended with exit code {code}.", hint="`git config --global diff.tool` names git's."
        )
    return 0
