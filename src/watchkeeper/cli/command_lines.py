"""The checks and the set-up around a run, for people: their lines in `wk show`, and what they printed."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from watchkeeper.cli import render
from watchkeeper.domain.side_command import CommandKind, CommandState, SideCommand
from watchkeeper.errors import NotFound

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.store import Store

_NAMES = {CommandKind.CHECK: "check", CommandKind.SETUP: "set-up"}


def command_lines(commands: Sequence[SideCommand]) -> Iterator[str]:
    """One line for each: what it came to, after how long, and its command line."""
    for one in commands:
        name = f"  {_NAMES[one.kind]} {one.number}"
        yield render.field(name, f"{_came_to(one)}: {render.clean(one.line)}")


def _came_to(command: SideCommand) -> str:
    if command.result is None:
        return "runs" if command.state is CommandState.STARTED else "waits"
    word = command.result.value.replace("_", " ")
    fact = command.exit
    if fact is None:
        return word
    how = f", exit code {fact.exit_code}" if fact.exit_code else f", signal {fact.signal}" if fact.signal else ""
    return f"{word}{how}, after {render.elapsed(fact.elapsed_s)}"


class _Text:
    """Prints output line by line, without what would steer the terminal unless the bytes themselves are wanted."""

    def __init__(self, call: "Call", *, raw: bool) -> None:
        self._call, self._raw, self._rest = call, raw, b""

    def feed(self, data: bytes) -> None:
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        self._print(whole + newline)

    def finish(self) -> None:
        self._print(self._rest + b"\n" if self._rest and not self._raw else self._rest)

    def _print(self, data: bytes) -> None:
        text = data if self._raw else render.clean_text(data.decode("utf-8", "replace")).encode("utf-8", "replace")
        if text:
            self._call.terminal.write(text)


def print_log(
    call: "Call", store: "Store", task_id: str, run: int | None, kind: CommandKind, number: int, *, raw: bool
) -> None:
    """Print what a check or a set-up printed, its standard error last. Secrets are hidden.

    Raises:
        NotFound: there is no such one.
        LogUnreadable: a log is not a regular file.
        OSError: a log cannot be read.
    """
    from watchkeeper.app.read_output import hide
    from watchkeeper.app.secrets import redactor_of

    runs = store.read(lambda tx: {each.id: each for each in tx.runs.of_task(task_id)})
    all_of_them = store.read(lambda tx: tx.commands.of_task(task_id))
    of_kind = [one for one in all_of_them if one.kind is kind and run in {None, runs[one.run_id].number}]
    newest = max((runs[one.run_id].number for one in of_kind), default=0)
    of_run = [one for one in of_kind if runs[one.run_id].number == newest]
    command = next((one for one in of_run if one.number == number), None)
    name = _NAMES[kind]
    if command is None:
        there = f"run {newest} has {render.counted(len(of_run), name)}" if of_run else f"no {name} of it has run yet"
        raise NotFound(
            f"There is no {name} {number} of task {task_id}: {there}.", hint=f"`wk show {task_id}` lists them."
        )
    executions, around = call.runtime().executions(), command.as_run(runs[command.run_id])
    spec = store.read(lambda tx: tx.tasks.get(task_id)).spec
    redactor, printed = redactor_of(executions, around, spec), False
    for stream in ("stdout", "stderr"):
        with executions.open_log(around, stream) as log:
            hidden, text = redactor.stream(), _Text(call, raw=raw)
            for piece in log.read() if log is not None else ():
                printed = True
                text.feed(hide(hidden, piece))
            text.feed(hidden.finish())
            text.finish()
    if not printed:
        not_yet = "has printed nothing yet" if command.result is None else "printed nothing, or its log is gone"
        call.terminal.note(f"The {name} {not_yet}.")
    if command.reason:
        call.terminal.note(render.clean(command.reason))
