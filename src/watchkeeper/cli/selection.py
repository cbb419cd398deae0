"""Which tasks a command is for: those that are named, or all of which something holds, after a look at how many these are."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import click

from watchkeeper.cli.render import clean, counted
from watchkeeper.cli.types import LABEL, TASK_ID
from watchkeeper.domain.selection import Selection, can_cancel, can_remove, can_retry, can_stop
from watchkeeper.domain.task_record import Task, TaskState
from watchkeeper.errors import Exit, Refused, UsageError, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call

F = TypeVar("F", bound=Callable[..., object])

_STATES = [state.value for state in TaskState]


class Picked(NamedTuple):
    """What was typed to say which tasks are meant."""

    task_ids: tuple[str, ...]
    labels: tuple[str, ...]
    states: tuple[TaskState, ...]
    projects: tuple[str, ...]
    everything: bool
    yes: bool

    @property
    def is_filtered(self) -> bool:
        """Whether the tasks are chosen by what holds of them, not named."""
        return bool(self.labels or self.states or self.projects or self.everything)

    @property
    def is_everything(self) -> bool:
        """Whether nothing but `--all` says which."""
        return self.everything and not (self.labels or self.states or self.projects)


class Verb(NamedTuple):
    """What is done to the tasks, and to which it can be done at all."""

    word: str
    """As in `Stop 12 tasks?`."""
    done: str
    """As in `every task that can be stopped`."""
    applies: Callable[[Task], bool]
    has_dry_run: bool


STOP = Verb("Stop", "stopped", can_stop, has_dry_run=True)
KILL = Verb("Kill", "killed", can_stop, has_dry_run=True)
CANCEL = Verb("Cancel", "cancelled", can_cancel, has_dry_run=False)
RETRY = Verb("Retry", "retried", can_retry, has_dry_run=False)
REMOVE = Verb("Remove", "removed", can_remove, has_dry_run=True)

_OPTIONS = (
    click.argument("task_ids", metavar="[ID…]", nargs=-1, type=TASK_ID),
    click.option("--label", "labels", metavar="NAME", type=LABEL, multiple=True, help="Those with this label; may be repeated: all of them."),
    click.option("--state", "states", type=click.Choice(_STATES), multiple=True, help="Those in this state; may be repeated: one of them."),
    click.option("--project", "projects", metavar="NAME", multiple=True, help="Those of this project; may be repeated: one of them."),
)  # fmt: skip


def pick_options(verb: Verb) -> Callable[[F], F]:
    """The arguments and options that say which tasks are meant."""
    everything = click.option("--all", "everything", is_flag=True, help=f"Every task that can be {verb.done}.")
    yes = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")

    def decorate(function: F) -> F:
        decorated = function
        for option in reversed((*_OPTIONS, everything, yes)):
            decorated = option(decorated)
        return decorated

    return decorate


def picked(values: dict[str, object]) -> Picked:
    """What was typed, taken out of a command's arguments."""
    states = cast("tuple[str, ...]", values.pop("states"))
    return Picked(
        task_ids=cast("tuple[str, ...]", values.pop("task_ids")),
        labels=cast("tuple[str, ...]", values.pop("labels")),
        states=tuple(TaskState(state) for state in states),
        projects=cast("tuple[str, ...]", values.pop("projects")),
        everything=bool(values.pop("everything")),
        yes=bool(values.pop("yes")),
    )


def pick(call: "Call", verb: Verb, wanted: Picked, *, asks: bool = True) -> Sequence[str]:
    """The ids that were typed, or of the tasks that were chosen, once a person has agreed to their number. `asks`: something is done to them.

    Raises:
        UsageError: neither or both were typed.
        Refused: it was not agreed to, or there is no person to ask.
        DatabaseUnusable: the database cannot tell.
    """
    if wanted.task_ids and wanted.is_filtered:
        raise UsageError(
            "The tasks are both named and chosen.", hint="Give ids, or --all/--label/--state/--project, not both."
        )
    if wanted.task_ids:
        return wanted.task_ids
    if not wanted.is_filtered:
        raise UsageError("Which tasks?", hint="Name them, or choose them: --label, --state, --project, --all.")
    found = matching(call, verb, wanted)
    if not found:
        call.terminal.note(none_matches(verb))
    elif asks:
        agree(call, verb, len(found), wanted)
    return found


def none_matches(verb: Verb) -> str:
    """What is said where nothing was chosen."""
    return f"No matching task can be {verb.done}."


def agree(call: "Call", verb: Verb, count: int, wanted: Picked) -> None:
    """Ask for confirmation, with the number of tasks.

    Raises:
        Refused: they are not, or there is no person to ask.
    """
    if wanted.yes:
        return
    question = f"{verb.word} {counted(count, 'task')}?"
    if not (call.terminal.stdin_is_terminal and call.terminal.stderr_is_terminal):
        raise Refused(
            f"{question} There is no terminal to ask on, so nothing was done.", hint="Say that you mean it: --yes"
        )
    lists = " (--dry-run lists them)" if verb.has_dry_run else ""
    if not click.confirm(f"{question}{lists}", default=False, err=True):
        raise Refused("Nothing was done.")


def matching(call: "Call", verb: Verb, wanted: Picked) -> list[str]:
    """The ids of the tasks of which all that was typed holds, in the order of handing over."""
    from watchkeeper.app.select import select

    selection = Selection(labels=wanted.labels, states=wanted.states, projects=wanted.projects)
    return select(call.store, verb.applies, selection)


def act_on_each(
    call: "Call", typed: Sequence[str], act: Callable[[str], Task], words: str, *, as_json: bool
) -> tuple[list[Task], int]:
    """Do something to each of these tasks and report each: in `words`, or as one JSON document. `act` takes an id and returns the task as it is then.

    Returns the tasks that it was done to, and the exit code of the first that it could not be done to.
    """
    from watchkeeper.app.views import plain
    from watchkeeper.cli import errors

    tasks, code = list[Task](), int(Exit.OK)
    for name in dict.fromkeys(typed):
        try:
            tasks.append(act(call.find(name)[1]))
        except WatchkeeperError as error:
            failed = errors.ours(error, call.terminal, as_json=as_json)
            code = code or failed
            continue
        if not as_json:
            call.terminal.say(f"{tasks[-1].id}  {words}: {clean(tasks[-1].spec.title)}")
    if as_json:
        call.terminal.document([plain.task(task) for task in tasks])
    return tasks, code


def pin_each(call: "Call", typed: Sequence[str], *, pinned: bool, as_json: bool) -> int:
    """Pin or unpin each of these tasks; the exit code of the first that it could not be done to."""
    from watchkeeper.app.pin import PinRequest, pin

    def act(task_id: str) -> Task:
        return pin(call.writing, call.caller, PinRequest(task_id=task_id, pinned=pinned))

    return act_on_each(call, typed, act, "is kept on top" if pinned else "is not pinned any more", as_json=as_json)[1]
