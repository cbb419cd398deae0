"""What `wk run` and `wk add` share: the options of a task, the request that they make, and what is said of a task."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from watchkeeper.cli import accounts, prompts, render
from watchkeeper.cli.command import after_dashes, is_dashed_text
from watchkeeper.cli.types import (
    ACCOUNT,
    DURATION,
    HARNESS,
    ISOLATION,
    KEY,
    LABEL,
    MACHINE,
    OPTION,
    TASK_ID,
    WHEN,
    from_now,
)
from watchkeeper.domain.model import OnLost, Task
from watchkeeper.domain.profile import CHOICES, LaunchProfile, line, requests, table
from watchkeeper.domain.task_record import EXPECTATIONS
from watchkeeper.errors import StateError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchkeeper.app.add import Checked
    from watchkeeper.app.hand_over import HandOverRequest
    from watchkeeper.cli.call import Call

F = TypeVar("F", bound=Callable[..., object])

_COLUMN = 11
_MOST_RETRIES = 20
_MOST_PRIORITY = 1000
_EXPECT = (
    "What counts as done: `work` (a tool call or a change), `changes` (a changed file or a commit), `answer` (words alone) "
    "or `any`. [default: any for a command line, answer with --rights read, else work]"
)
_SILENCE = "End the agent when it has printed nothing for this long. [default: never]"
_RETRIES = "How often to try again what failed for a passing reason. [default: 2]"
_ACCOUNT = "With whose sign-in: an account that `wk account ls` lists. [default: own]"
_RIGHTS = (
    "What the agent may do: only read, edit its directory and run commands, or all that you may. [default: your settings, "
    "else edit; always full for a command line]"
)
_OPTION = (
    "An option of the harness for this task, such as max_turns=20, over your settings; may be repeated. A wrong name is "
    "answered with all of them."
)
_ISOLATION = (
    "Which configuration the agent reads: `strict` none, `project` only the project's instructions, `user` also yours "
    "and the project's settings; a harness of yours may have other words. [default: project]"
)
_MACHINE = "Which of the machines that share the database runs it; `any`: whichever has room. [default: this one]"
_ON_LOST = "If the agent is gone and its end is unknown: wait for you, try again, or fail. [default: hold]"
_LEFTOVERS = "Processes that outlive the agent: end them, or wait for them. [default: kill]"
_AFTER = "Start when this task is done; may be repeated."
_NOT_BEFORE = "Do not start before this time: +2h, 14:00, 2026-01-31T14:00."
_PRIORITY = "Higher ones start first, from -1000 to 1000. [default: 0]"
_LABEL = "A word to find it by; may be repeated."
_PROJECT = "The name by which `wk queue` limits and pauses it. [default: the repository's name]"
_KEY = "Your own name for this hand-over: repeated with it, the same task is given the same id, and another one is refused."
_CHECK = (
    'A command line that decides, after the agent, whether its work is acceptable, such as "make test"; may be repeated. '
    "[default: the setting run.check]"
)
_SETUP = (
    'A command line that prepares the new worktree before the agent starts, such as "npm ci"; may be repeated. [default: '
    "the setting worktree.setup]"
)
_TEARDOWN = (
    'A command line that clears up before the worktree is removed, such as "docker compose down"; may be repeated. '
    "[default: the setting worktree.teardown]"
)
_WORKTREE = "In a git worktree and on a branch of its own, so that no other task disturbs it. [default: the setting run.worktree]"
_HERE = "In this checkout, whatever the setting run.worktree says."
_BASE = "The branch or commit that the worktree starts at. [default: what is checked out]"
_BRANCH = "The branch to make with the worktree. [default: wk/ and the task's id and title]"
_INCLUDE_CHANGES = "Let the worktree begin with what is not committed here, as it is now: changed and untracked files, not ignored ones."
_SCRATCH = "In an empty directory of its own, for a task that needs no checkout."
_SHARED = "Work beside other tasks in the same checkout, instead of waiting for it to be free."

OPTIONS: tuple[Callable[[Callable[..., object]], Callable[..., object]], ...] = (
    click.option(
        "--harness",
        metavar="NAME",
        type=HARNESS,
        help="The agent program. [default: the one in your settings, or the only one installed]",
    ),
    click.option("--account", metavar="NAME", type=ACCOUNT, help=_ACCOUNT),
    click.option("--isolation", metavar="WORD", type=ISOLATION, help=_ISOLATION),
    click.option("--rights", type=click.Choice([each.value for each in CHOICES]), help=_RIGHTS),
    click.option("--option", "options", metavar="NAME=VALUE", type=OPTION, multiple=True, help=_OPTION),
    click.option("--model", metavar="NAME", help="The model, by the agent program's own name for it."),
    click.option("--cwd", metavar="DIR", type=click.Path(), help="The directory to work in. [default: this one]"),
    click.option("--title", help="What lists call it. [default: the first line of the task]"),
    click.option("--env", metavar="NAME", multiple=True, help="Pass this variable on to the agent; may be repeated."),
    click.option("--deadline", metavar="DUR", type=DURATION, help="End the agent after this long, such as 90m."),
    click.option("--silence", metavar="DUR", type=DURATION, help=_SILENCE),
    click.option("--expect", type=click.Choice(EXPECTATIONS), help=_EXPECT),
    click.option("--retries", metavar="N", type=click.IntRange(0, _MOST_RETRIES), help=_RETRIES),
    click.option("--on-lost", type=click.Choice([each.value for each in OnLost]), help=_ON_LOST),
    click.option("--leftovers", type=click.Choice(["kill", "wait"]), help=_LEFTOVERS),
    click.option("--after", metavar="TASK", type=TASK_ID, multiple=True, help=_AFTER),
    click.option("--not-before", metavar="WHEN", type=WHEN, help=_NOT_BEFORE),
    click.option("--priority", metavar="N", type=click.IntRange(-_MOST_PRIORITY, _MOST_PRIORITY), help=_PRIORITY),
    click.option("--machine", metavar="NAME", type=MACHINE, help=_MACHINE),
    click.option("--label", "labels", metavar="NAME", type=LABEL, multiple=True, help=_LABEL),
    click.option("--project", metavar="NAME", help=_PROJECT),
    click.option("--shared", is_flag=True, default=None, help=_SHARED),
    click.option("--check", "checks", metavar="CMD", multiple=True, help=_CHECK),
    click.option("--worktree/--here", "worktree", default=None, help=_WORKTREE),
    click.option("--base", metavar="REF", help=_BASE),
    click.option("--branch", metavar="NAME", help=_BRANCH),
    click.option("--include-changes", is_flag=True, default=None, help=_INCLUDE_CHANGES),
    click.option("--scratch", is_flag=True, default=None, help=_SCRATCH),
    click.option("--setup", metavar="CMD", multiple=True, help=_SETUP),
    click.option("--teardown", metavar="CMD", multiple=True, help=_TEARDOWN),
    click.option("--key", metavar="KEY", type=KEY, help=_KEY),
)


def task_options(function: F) -> F:
    """The options of a task."""
    decorated: Callable[..., object] = function
    for option in reversed(OPTIONS):
        decorated = option(decorated)
    return cast("F", decorated)


def request(call: "Call", wished: "dict[str, Any]") -> "HandOverRequest":
    """What the options of a task ask for, still without its text. Raises UsageError where the caller's directory was deleted."""
    from watchkeeper.app.hand_over import HandOverRequest

    wished["cwd"] = call.directory(wished["cwd"] or ".")
    return HandOverRequest(**starting(call, wished))


def starting(call: "Call", wished: "dict[str, Any]") -> "dict[str, Any]":
    """The same options, with the time that `not_before` means now beside its words."""
    typed = wished.pop("not_before", None)
    if typed is None:
        return wished
    return {**wished, "not_before_typed": typed, "not_before": from_now(typed, call.reading.clock.now())}


def with_text(call: "Call", wanted: "HandOverRequest", words: tuple[str, ...], file: str | None) -> "HandOverRequest":
    """The request with its text and its command line, from where they were given.

    Raises:
        UsageError: they were not given, or do not fit together.
        BadTask: the text cannot be read.
    """
    words, argv = _split(wanted, words)
    prompt = prompts.read(call, words, file, may_be_absent=argv is not None)
    return replace(wanted, prompt=prompt, argv=argv or ())


def _split(wanted: "HandOverRequest", words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """The words of the task, and the command line if there is one."""
    from watchkeeper.app import account_choice

    after, (harness, _) = after_dashes(), account_choice.split(wanted.account, wanted.harness)
    if after is None:
        return words, None
    if harness not in {None, "command"}:
        # For an agent program `--` only ends the options, so that a task may begin with a dash.
        return (*words, *after), None
    if not after:
        raise UsageError("There is no command line after `--`.", hint="For example: wk run -- make test")
    if len(after) == 1 and not words and is_dashed_text(after[0]):
        return after, None
    if after[0].startswith("-"):
        raise UsageError(
            f"'{render.clean(after[0])[:60]}' after `--` is not a program.",
            hint="A task that begins with a dash is one word after `--`, in quotes; or use -f or standard input.",
        )
    return words, after


def say_rights(call: "Call", agreed: "Sequence[Checked]", *, verbose: bool, as_json: bool) -> None:
    """Say what the agents may do, before anything is kept: each line once, in full if asked or if it is news in that directory."""
    counted: dict[tuple[object, ...], list[Checked]] = {}
    for each in agreed:
        # The line leaves out what does not fit, so equal lines may stand for different rights.
        directory = each.spec.handed_over_in
        in_full = tuple(table(each.profile, directory)) if verbose else ()
        counted.setdefault((line(each.profile), each.profile.scope, directory, in_full), []).append(each)
    for same in counted.values():
        first = same[0]
        in_full = not as_json and (verbose or _is_news(call, first.profile, first.spec.handed_over_in))
        directory = first.spec.cwd if len(same) == 1 else first.spec.handed_over_in
        say_profile(call, first.profile, directory if in_full else None, tasks=len(same), as_json=as_json)
    say_worktrees(call, agreed)


def say_worktrees(call: "Call", agreed: "Sequence[Checked]") -> None:
    """Say where the work will be of each task that gets a worktree."""
    from watchkeeper.cli.worktree_words import short_path, where

    for each in agreed:
        if each.spec.worktree is not None:
            call.terminal.note(f"Worktree {where(each.spec.worktree)}.")
        elif each.spec.scratch:
            call.terminal.note(f"Scratch directory {render.clean(short_path(each.spec.cwd))}.")
    for note in dict.fromkeys(note for each in agreed for note in each.notes):
        call.terminal.note(render.clean(note))


def say_profile(
    call: "Call", profile: LaunchProfile, directory: str | None, *, tasks: int = 1, as_json: bool = False
) -> None:
    """The line on one launch profile; with the directory that it is for in full."""
    lines = [render.clean(line(profile, tasks))]
    if directory is None:
        lines += [render.clean(each) for each in [requests(profile)] if each]
    else:
        lines += [f"  {label:<{_COLUMN}}{render.clean(text)}" for label, text in table(profile, directory)]
    for text in lines:
        if call.terminal.is_terminal and not as_json:
            call.terminal.prose(text, render.DIM, hang=_COLUMN + 2)
        else:
            call.terminal.note(text)  # so that `id=$(wk run …)` holds the id and nothing else


def _is_news(call: "Call", profile: LaunchProfile, directory: str) -> bool:
    """Whether the last task of that directory was allowed something else, or there is none."""
    try:
        store = call.store
        last = None if store is None else store.read(lambda tx: tx.outcomes.allowed_in(directory))
    except StateError:
        return True  # whatever is wrong is said when the task is added
    return last is None or last.profile is None or last.profile.scope != profile.scope


def say_waits(call: "Call", task: Task) -> None:
    """Say why a task does not start at once, where that is likely to last."""
    from watchkeeper.app.views.why import why
    from watchkeeper.cli.machines import this_machine
    from watchkeeper.cli.queue_view import describe
    from watchkeeper.domain.wait import Wait

    try:
        found = why(call.writing.store, this_machine(call), task.id).reasons
    except StateError:
        return  # the task is on record: what is said beside that is worth no failure
    # That there is no room just now is how it is most of the time.
    lasting = [reason for reason in found if reason.wait is not Wait.LIMIT]
    if lasting and lasting[0].wait is Wait.SIGNED_OUT:
        accounts.warn_if_out(call, task)
    elif lasting:
        call.terminal.note(f"It waits: {describe(lasting[0])}")
