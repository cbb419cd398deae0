"""`wk diff`: what a run changed."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import TASK_ID
from watchkeeper.domain.run_record import RunState
from watchkeeper.errors import Refused, UsageError

if TYPE_CHECKING:
    from watchkeeper.app.diff import RunDiff
    from watchkeeper.domain.model import Changes


@click.command(cls=WkCommand, name="diff", short_help="What a run changed.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("--stat", is_flag=True, help="Only how many lines of which files.")
@click.option("--name-only", is_flag=True, help="Only the names of the files.")
@click.option("--run", "number", metavar="N", type=click.IntRange(min=1), help="Run N. [default: the newest]")
@json_option
@debug_option
@click.pass_obj
def command(call: Call, task_id: str, stat: bool, name_only: bool, number: int | None, as_json: bool) -> int:
    """Print what a run changed, as a patch: from the state before the run to the state in which it left the files.

    Commits and what is not committed are both in it, and new files too; what was changed there later is not. On a
    terminal it looks as `git diff` does, with your own pager and colours; otherwise it is plain, and `git apply` takes
    it. The files are shown as they are: no secret in them is hidden.

    Of a run that has not ended it shows what has changed so far, and says so. Nothing of the agent's is touched.

    What git ignores is not part of it; new ignored files are named by `wk show`. --json has the patch as text unless
    --stat or --name-only is given.
    """
    from watchkeeper.app.diff import DiffRequest, opened

    if stat and name_only:
        raise UsageError("--stat and --name-only exclude each other.", hint="Leave one away.")
    store, found_id = call.find(task_id)
    form = "stat" if stat else "names" if name_only else "patch"
    with opened(store, call.runtime, call.reading.live_files, DiffRequest(task_id=found_id, run=number)) as found:
        if as_json:
            _print_json(call, found, form)
            return 0
        return _print(call, found, form)


def _print_json(call: Call, found: "RunDiff", form: str) -> None:
    """Whole: the record, and the patch where it is asked for and there is one."""
    from watchkeeper.app.views import plain

    changes, diffs, outcome = found.changes, call.reading.diffs, found.outcome
    document: dict[str, object] = {
        "task": found.task.id,
        "run": found.run.number,
        "ended": outcome is not None,
        "result": None if outcome is None or outcome.result is None else outcome.result.value,
        "changes": None if changes is None else plain.changes(changes),
        "other_runs": list(found.others),
    }
    if form == "patch":
        document["patch"] = None
        document["why_no_patch"] = ""
        try:
            if changes is None or not changes.known or changes.files or changes.commits:
                document["patch"] = diffs.patch(found.kept(diffs)).decode("utf-8", "replace")
            else:
                document["patch"] = ""
        except Refused as problem:
            document["why_no_patch"] = str(problem)
    call.terminal.document(document)


def _print(call: Call, found: "RunDiff", form: str) -> int:
    changes, diffs, terminal = found.changes, call.reading.diffs, call.terminal
    _say_so_far(call, found)
    if changes is not None and changes.known and not changes.files and not changes.commits:
        so_far = " so far" if found.outcome is None else ""
        terminal.note(f"Run {found.run.number} of task {found.task.id} changed nothing{so_far}.")
        _say_others(call, found)
        return 0
    try:
        kept = found.kept(diffs)
    except Refused:
        if form == "patch" or changes is None or not changes.known:
            raise
        _say_of(call, found, changes)
        _print_record(call, changes, form)
        return 0
    if changes is not None:
        _say_of(call, found, changes)
    _say_others(call, found)
    code = diffs.show(kept, form, on_terminal=terminal.is_terminal)
    if code not in _AS_THE_READER_WISHED:
        raise Refused(
            f"git could not show what run {found.run.number} of task {found.task.id} changed (exit code {code}).",
            hint=f"Its own complaint stands above; the files are kept in {kept.repository}.",
        )
    return 0


_AS_THE_READER_WISHED = frozenset({0, 141, -13})
"""All was printed, or the reader went away before that."""


def _say_so_far(call: Call, found: "RunDiff") -> None:
    """Before all else: the rest may change."""
    if found.outcome is None:
        why = "is held" if found.run.state is RunState.HELD else "has not ended"
        call.terminal.note(f"Run {found.run.number} of task {found.task.id} {why}. This is what has changed so far.")


def _say_of(call: Call, found: "RunDiff", changes: "Changes") -> None:
    """What a reader must know of the patch, beside it."""
    if changes.beside:
        where = "checkout" if changes.in_checkout else "directory"
        others = render.clean(", ".join(changes.beside))
        call.terminal.note(
            f"Changed in this {where} while run {found.run.number} ran, beside {others}: some may be theirs."
        )
    if changes.left_out:
        named = render.clean(", ".join(changes.left_out))
        call.terminal.note(f"Changed and not kept, because too large, unreadable or not a file: {named}")


def _say_others(call: Call, found: "RunDiff") -> None:
    if found.others:
        runs = ", ".join(map(str, found.others))
        several = "s" if len(found.others) > 1 else ""
        call.terminal.note(f"Run{several} {runs} changed something, too: wk diff {found.task.id} --run N")


def _print_record(call: Call, changes: "Changes", form: str) -> None:
    """The files as the outcome names them, where their contents were not kept."""
    for file in changes.files:
        name = render.clean(file.path)
        call.terminal.say(name if form == "names" else f" {name} | {file.change}")
    why = changes.not_kept or "the directory is not under git"
    call.terminal.note(f"Only names are known: {render.clean(why)}")
