"""What `wk run` and `wk add` do with a request: have it checked, say what agents may do, hand it over."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import not_passed, task_options
from watchkeeper.cli.render import clean
from watchkeeper.domain.profile import line
from watchkeeper.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from watchkeeper.app.add import Checked, Handed
    from watchkeeper.app.hand_over import HandOver
    from watchkeeper.app.harness_choice import HarnessCandidate
    from watchkeeper.cli.call import Call
    from watchkeeper.domain.model import Task

    Emit = Callable[[Mapping[str, object]], None]

_DRY = "Nothing was handed over."
"""What a dry run says at its end."""

Rights = dict[str, object]
"""What was agreed on, as JSON values."""


def checker(call: "Call") -> "HandOver":
    """Checks what this call asks for; on a terminal it asks for a harness where that is not clear."""
    from watchkeeper.app.hand_over import HandOver

    asks = call.terminal.stdin_is_terminal and call.terminal.stderr_is_terminal
    return HandOver(call.reading, call.caller, (lambda known: _ask_harness(call, known)) if asks else None)


def hand_over(
    call: "Call",
    checks: "HandOver",
    found: "Handed | Sequence[Checked]",
    emit: "Emit",
    *,
    verbose: bool,
    dry_run: bool,
    as_json: bool,
) -> "list[tuple[Handed, Rights]]":
    """Say what the agents may do and hand over; for each task what was agreed on. `emit` writes what a dry run would give, which hands nothing over."""
    from watchkeeper.app import add

    if isinstance(found, add.Handed):
        rights = _agreed_before(call, found.task)
        if dry_run:
            _print_dry_run(call, emit, [(found.task, "", rights)], as_json=as_json)
        return [] if dry_run else [(found, rights)]
    task_options.say_rights(call, found, verbose=verbose or dry_run, as_json=as_json)
    not_passed.say(call, (name for each in found for name in each.not_passed), as_json=as_json)
    for hidden in dict.fromkeys(each.hidden_harness for each in found if each.hidden_harness):
        call.terminal.note(f"wk: {clean(hidden)}")
    if dry_run:
        tried = [(checks.already(each), each.spec.title, _rights(each)) for each in found]
        _print_dry_run(call, emit, tried, as_json=as_json)
        return []
    handed = add.hand_over(call.writing, found)
    for problem in dict.fromkeys(each.problem for each in handed if each.problem):
        call.terminal.note(f"wk: {clean(problem)}")
    done = [(each, _as_added(each, checked)) for each, checked in zip(handed, found, strict=True)]
    task_options.say_worktrees(
        call, [apart for (_, apart), checked in zip(done, found, strict=True) if apart is not checked]
    )
    return [(each, _agreed_before(call, each.task) if each.already else _rights(checked)) for each, checked in done]


def _as_added(handed: "Handed", checked: "Checked") -> "Checked":
    """What was checked, as it was added: in a worktree if its checkout was busy."""
    moved = checked.apart is not None and not handed.already and handed.task.spec.worktree is not None
    return checked.apart if moved and checked.apart is not None else checked


def say_already(call: "Call", handed: "Handed") -> None:
    """Say that nothing new was added."""
    call.terminal.note(f"Already handed over as {handed.task.id}, with the key {clean(handed.key)}: nothing was added.")


def _rights(checked: "Checked") -> Rights:
    """What is agreed on by handing over: the launch profile, and what is not passed to the agent."""
    from watchkeeper.app.views import profile

    return profile.agreed(line(checked.profile), checked.profile, checked.not_passed)


def _agreed_before(call: "Call", task: "Task") -> Rights:
    """What was agreed on when it was handed over. Raises NotFound where it was removed just now."""
    from watchkeeper.app.views import profile

    allowed = call.writing.store.read(lambda tx: tx.outcomes.authorisation(task.id))
    if allowed is None:
        raise NotFound(f"Task {task.id} was removed meanwhile.", hint="Hand it over again.")
    return profile.agreed(allowed.detail, allowed.profile, ())


def _print_dry_run(
    call: "Call", emit: "Emit", tried: "Sequence[tuple[Task | None, str, Rights]]", *, as_json: bool
) -> None:
    """Tell what handing over would give: for each the task that is there already, or the title of a new one, and what would be agreed on."""
    for task, title, rights in tried:
        if as_json:
            shown = title if task is None else task.spec.title
            emit({"dry_run": True, "title": shown, "already": task is not None, "id": task and task.id, **rights})
        elif task is not None:
            call.terminal.note(f"It is handed over already, with this key, as {task.id}.")
    if not as_json:
        call.terminal.note(_DRY)


def _ask_harness(call: "Call", known: "Sequence[HarnessCandidate]") -> str:
    call.terminal.note("Which agent shall do it?")
    for each in known:
        call.terminal.note(
            f"  {each.name:<10} {each.version or each.path if each.usable else f'not installed: {each.hint or each.problem}'}"
        )
    call.terminal.note(f"  {'demo':<10} a scripted agent that asks no model and costs nothing")
    choices = [each.name for each in known if each.usable] + ["demo"]
    answer = click.prompt("Harness", type=click.Choice(choices), default=choices[0], err=True)
    return str(answer)
