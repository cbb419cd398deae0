"""`wk explain`: who authorised a run, with what rights, what it did, and the evidence for its end."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.render import field
from watchkeeper.cli.types import RUN, split_run
from watchkeeper.cli.worktree_words import short_path

if TYPE_CHECKING:
    from watchkeeper.app.views.explain import Explanation

_STEPS = 30
"""Of a long run that many first and that many last steps are printed."""
_STEPS_AS_JSON = 100_000


@click.command(cls=WkCommand, name="explain", short_help="Who allowed a run, what it did, and how it ended.")
@click.argument("run", metavar="ID[.N]", type=RUN)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, run: str, as_json: bool) -> None:
    """Explain run N of a task, the newest by default.

    Who authorised it, with what rights, in what environment (names, never values), what happened to it, what it did step
    by step, what it cost, and the evidence for its end. Secrets are hidden as in `wk logs`.
    """
    from watchkeeper.app.views.explain import explain

    typed, number = split_run(run)
    store, task_id = call.find(typed)
    most = _STEPS_AS_JSON if as_json else _STEPS
    found = explain(store, call.runtime, call.reading.harness, task_id, number, steps=most)
    if as_json:
        from watchkeeper.app.views.explained import plain

        call.terminal.document(plain(found))
        return
    for line in _about(call, found):
        call.terminal.prose(line, hang=render.LABEL)
    _print_steps(call, found)
    for line in _end(call, found):
        call.terminal.prose(line, hang=render.LABEL)
    call.has_seen(found.task)


def _about(call: Call, found: "Explanation") -> Iterator[str]:
    from watchkeeper.cli.commands.show import allowed_lines
    from watchkeeper.cli.history import describe

    terminal, task, run = call.terminal, found.task, found.run
    yield terminal.style(f"run {run.number} of {task.id}  {render.clean(task.spec.title)}", render.BOLD)
    if found.authorisation is not None:
        by = f"{render.clean(found.authorisation.by)}, {render.clock(found.authorisation.at)}"
        yield field("allowed by", f"{by}: {render.clean(found.authorisation.detail)}")
        yield from allowed_lines(found.authorisation)
    yield field("directory", render.clean(short_path(task.spec.cwd)))
    yield field("variables", _variables(found))
    yield ""
    for entry in found.history:
        yield field(render.clock(entry.at)[11:19], describe(entry))


def _variables(found: "Explanation") -> str:
    if found.variables is None:
        return "not known any more: its execution directory is gone" if found.found.on is None else "on its machine"
    asked = f"; asked for by name: {', '.join(render.clean(name) for name in found.asked)}" if found.asked else ""
    return f"{', '.join(render.clean(name) for name in found.variables)}{asked}"


def _print_steps(call: Call, found: "Explanation") -> None:
    from watchkeeper.cli.printers import describe_gap, pretty

    terminal, steps = call.terminal, found.steps
    terminal.say()
    terminal.say(terminal.style("what it did", render.BOLD))
    if steps.unreadable:
        terminal.prose(f"That is not known: {render.clean(steps.unreadable)}.")
        return
    if steps.dropped_bytes:
        terminal.prose(describe_gap(steps.dropped_bytes))
    emit = pretty(terminal)
    for event in steps.first:
        emit(event, found.run.number)
    if steps.left_out:
        left_out = f"… {render.counted(steps.left_out, 'more step')}: wk logs {found.task.id} --run {found.run.number}"
        terminal.say(terminal.style(left_out, render.DIM))
    for event in steps.last:
        emit(event, found.run.number)
    if not steps.first:
        terminal.prose("It printed nothing.")


def _end(call: Call, found: "Explanation") -> Iterator[str]:
    from watchkeeper.cli.commands.show import evidence_lines, run_lines

    yield from run_lines(call, found.found, found.authorisation)
    if found.evidence is not None:
        yield from evidence_lines(found.evidence)
