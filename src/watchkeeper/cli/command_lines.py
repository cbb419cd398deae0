"""The checks, the set-up and the teardown around a run, for people: their lines in `wk show`, and what they printed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchkeeper.cli import render
from watchkeeper.domain.side_command import CommandKind, CommandState, SideCommand
from watchkeeper.errors import NotFound

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call
    from watchkeeper.domain.model import Run, TaskSpec
    from watchkeeper.ports.store import Store
    from watchkeeper.redaction.engine import RedactedStream

_NAMES = {CommandKind.CHECK: "check", CommandKind.SETUP: "set-up", CommandKind.TEARDOWN: "teardown"}


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


class _Stream:
    """One log of a command, read from where it stopped. Which secrets it may hold is read when there is output."""

    def __init__(self, call: "Call", around: "Run", spec: "TaskSpec", name: str, *, raw: bool) -> None:
        from watchkeeper.cli.output import LogReader

        self._executions = call.runtime().executions()
        self._spec = spec
        self._text = _Text(call, raw=raw)
        self.reader = LogReader(self._executions, around, name)
        self._hidden: RedactedStream | None = None

    def advance(self) -> bool:
        """Print what is new; whether anything was."""
        from watchkeeper.app.secrets import redactor_of

        any_of_it = False
        for piece in self.reader.read():
            if self._hidden is None:
                self._hidden = redactor_of(self._executions, self.reader.run, self._spec).stream()
            # A secret does not continue after a part that is not kept.
            self._text.feed(self._hidden.feed(piece if isinstance(piece, bytes) else b"\0"))
            any_of_it = True
        return any_of_it

    def finish(self) -> None:
        """Print what was held back."""
        if self._hidden is not None:
            self._text.feed(self._hidden.finish())
        self._text.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which command's output is to be printed."""

    task_id: str
    run: int | None
    """The number of its run; None: the newest that has such a command."""
    kind: CommandKind
    number: int

    def find(self, store: "Store") -> "tuple[SideCommand, Run, TaskSpec]":
        """The command, its run and what was asked for. Raises NotFound: there is no such one."""
        runs = store.read(lambda tx: {each.id: each for each in tx.runs.of_task(self.task_id)})
        all_of_them = store.read(lambda tx: tx.commands.of_task(self.task_id))
        of_kind = [one for one in all_of_them if one.kind is self.kind and self.run in {None, runs[one.run_id].number}]
        newest = max((runs[one.run_id].number for one in of_kind), default=0)
        of_run = [one for one in of_kind if runs[one.run_id].number == newest]
        command = next((one for one in of_run if one.number == self.number), None)
        name = _NAMES[self.kind]
        if command is None:
            there = (
                f"run {newest} has {render.counted(len(of_run), name)}" if of_run else f"no {name} of it has run yet"
            )
            raise NotFound(
                f"There is no {name} {self.number} of task {self.task_id}: {there}.",
                hint=f"`wk show {self.task_id}` lists them.",
            )
        return command, runs[command.run_id], store.read(lambda tx: tx.tasks.get(self.task_id)).spec


def print_log(call: "Call", store: "Store", wanted: Wanted, *, raw: bool, follow: bool = False) -> None:
    """Print what a check, a set-up or a teardown printed, its standard error last; `follow`: both as they grow, until it has ended. Secrets are hidden.

    Raises:
        NotFound: there is no such one, or a log cannot be read.
    """
    from watchkeeper.cli.follow import Watcher

    command, run, spec = wanted.find(store)
    printed = False
    with Watcher([call.reading.state.path]) as watcher:
        while True:
            around = command.as_run(run)
            streams = [_Stream(call, around, spec, name, raw=raw) for name in ("stdout", "stderr")]
            watcher.add(streams[0].reader.directory)
            while True:
                # Whether it has ended was read before its logs are, so that nothing can be written behind our back.
                for stream in streams:
                    printed = stream.advance() or printed
                if command.is_over or not follow:
                    break
                watcher.wait()
                command = wanted.find(store)[0]
                if command.execution_id != around.execution_id:
                    break  # the launch never happened, so this one printed nothing; it is tried in another execution
            for stream in streams:
                stream.finish()
            if command.is_over or not follow:
                break
    if not printed:
        not_yet = "has printed nothing yet" if command.result is None else "printed nothing, or its log is gone"
        call.terminal.note(f"The {_NAMES[wanted.kind]} {not_yet}.")
    if command.reason:
        call.terminal.note(render.clean(command.reason))
