"""`wk pr`: push a task's branch and ask for its merge on a forge."""

import shlex
from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import TASK_ID
from watchkeeper.errors import UsageError

if TYPE_CHECKING:
    from watchkeeper.app.pull_request import PullRequest


@click.command(cls=WkCommand, name="pr", short_help="Push a task's branch and open a pull request.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("--title", metavar="TEXT", help="Its title. [default: the task's]")
@click.option(
    "--into", metavar="BRANCH", help="The branch that gets the commits. [default: the one that the task's started at]"
)
@click.option("--remote", metavar="NAME", help="Where to push to. [default: the remote of that branch, else origin]")
@click.option("--commit", "commits", is_flag=True, help="Commit first what is not committed in the task's worktree.")
@click.option("--message", "-m", metavar="TEXT", help="The message of that commit.")
@click.option("--print", "only_print", is_flag=True, help="Push nothing; only print what would be run.")
@json_option
@debug_option
@click.pass_obj
def command(  # noqa: PLR0913, PLR0917 - one for each option
    call: Call,
    task_id: str,
    title: str | None,
    into: str | None,
    remote: str | None,
    commits: bool,
    message: str | None,
    only_print: bool,
    as_json: bool,
) -> None:
    """Push a task's branch, and open a pull request by the forge's own program: gh for GitHub, glab for GitLab.

    Without that program the branch is pushed, and the command to type is printed. The branch is pushed as it is, never
    by force. Of the repository's configuration only the remote's address counts, because an agent may have written it;
    your own git settings do, so your credential helper and ssh are run. The forge's program runs in an empty directory.
    """
    from watchkeeper.app.pull_request import PullRequestOrder
    from watchkeeper.compose.taking_over import requester_of

    if commits != bool((message or "").strip()):
        raise UsageError("--commit needs a message, and -m needs --commit.", hint='Say --commit -m "…".')
    if only_print and commits:
        raise UsageError("--print changes nothing, so it does not commit.", hint="Leave --commit away.")
    terminal = call.terminal
    _, found_id = call.find(task_id)
    order = PullRequestOrder(
        task_id=found_id,
        by=call.person,
        into=into,
        remote=remote,
        title=title,
        only_print=only_print,
        message=message,
    )
    found = requester_of(call.writing, lambda sentence: terminal.note(render.clean(sentence))).request(order)
    if as_json:
        terminal.document(_plain(found))
        return
    for line in _lines(found):
        terminal.say(line)


def _lines(found: "PullRequest") -> list[str]:
    branch, url = render.clean(found.branch), render.clean(found.url)
    typed = render.clean(shlex.join(found.command))
    if not found.pushed:
        return [f"git push {shlex.quote(render.clean(found.remote))} {branch}", *([typed] if typed else [])]
    lines = [f"{branch} is pushed to {url}."]
    if found.answer is not None:
        return [*lines, render.clean_text(found.answer)] if found.answer else lines
    if typed:
        return [*lines, f"{found.command[0]} is not installed; with it this opens the request:", f"  {typed}"]
    return [*lines, "That is not on a forge that is known: open the request on its page."]


def _plain(found: "PullRequest") -> dict[str, object]:
    return {
        "task": found.task_id,
        "branch": found.branch,
        "into": found.into,
        "commit": found.commit,
        "remote": found.remote,
        "url": found.url,
        "pushed": found.pushed,
        "command": list(found.command),
        "answer": found.answer,
    }
