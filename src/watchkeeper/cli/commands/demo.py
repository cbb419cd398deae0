"""`wk demo`: the whole way of a task in under a minute, without any model, and with the daemon killed in the middle."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watchkeeper.cli import daemon, render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option
from watchkeeper.domain.model import Task, TaskState
from watchkeeper.domain.profile import line
from watchkeeper.ports.harness import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchkeeper.compose import Watchkeeper
    from watchkeeper.domain.model import Outcome, Run
    from watchkeeper.ports.harness import StreamEvent

_PROMPT = "Make the greeting in greet.py friendlier, and say what you changed."
_DEADLINE_S = 120.0
_KILL_AFTER = 2
"""Steps of the agent after which the daemon is killed."""
_ALONE_STEPS = 1
_ALONE_S = 2.5
"""How long the agent works alone: so many steps, or this long, whichever is first."""


@click.command(cls=WkCommand, name="demo", short_help="See the whole way in under a minute, without any model.")
@debug_option
@click.pass_obj
def command(call: Call) -> int:
    """See the whole way of a task in under a minute, without any model.

    A scripted agent works in a small repository made for it; meanwhile the daemon is killed, the agent works on, and a
    new daemon takes it over. Nothing of yours is touched. The exit code is that of the task.
    """
    from watchkeeper.cli.commands.wait import ended
    from watchkeeper.cli.task_rest import code_of
    from watchkeeper.cli.task_watch import stay

    parts, say = call.writing, call.terminal.prose
    say("The way of a task, in about ten seconds. Nothing of yours is touched, and no model is asked.")
    say("")
    directory = parts.state.path / "demo" / parts.ids.task()
    _make_place(call, directory)
    task = _hand_over(call, directory)
    say(f"Task {task.id} is on record, with the line above: it is what you allowed. Only now may anything start.")
    _start_daemon(call)
    say("")
    act = _KillAct(call, task)
    task, still = stay(call, parts.store, task, act.emit, idle=act.poll)
    say("")
    if still is not None:
        call.terminal.prose(ended(task, still))
    _print_end(call, task)
    return code_of(task, still)


def _make_place(call: Call, directory: Path) -> None:
    from watchkeeper.demo.repository import make_repository

    under_git = make_repository(directory)
    call.terminal.say(f"A small project to work in: {directory}")
    if not under_git:
        call.terminal.say("(git did not make it a repository, so what the agent changes will not be known.)")


def _hand_over(call: Call, directory: Path) -> Task:
    from watchkeeper.app.add import hand_over
    from watchkeeper.app.hand_over import HandOver, HandOverRequest

    parts, terminal = call.writing, call.terminal
    request = HandOverRequest(
        prompt=_PROMPT,
        title="A demonstration",
        harness="demo",
        cwd=str(directory),
        deadline=_DEADLINE_S,
        on_lost="hold",
        project="",
        shared=True,
    )
    checked = HandOver(parts, call.caller).check(request)
    terminal.prose(f'$ wk run --harness demo --follow "{_PROMPT}"', render.BOLD)
    terminal.prose(render.clean(line(checked.profile)))
    return hand_over(parts, [checked])[0].task


def _start_daemon(call: Call) -> None:
    from watchkeeper.daemon import client

    answer = client.start(call.writing)
    info = daemon.running(call)
    word = "runs already" if answer is client.Ensured.ALREADY else "was started"
    call.terminal.say(f"The daemon {word}{f' (pid {info.pid})' if info is not None else ''}.")


class _KillAct:
    """Kills the daemon while the agent works, lets the agent work on alone, and starts a daemon again."""

    def __init__(self, call: Call, task: Task) -> None:
        from watchkeeper.cli.printers import pretty

        self._call = call
        self._task = task
        self._print: Callable[[StreamEvent, int], None] = pretty(call.terminal)
        self._steps = 0
        self._alone_since: float | None = None
        self._alone_steps = 0
        self._over = False

    def emit(self, event: "StreamEvent", number: int) -> None:
        """Print an event, and act where it is time."""
        self._print(event, number)
        if event.kind not in {EventKind.TEXT, EventKind.TOOL}:
            return
        self._steps += 1
        if self._alone_since is not None:
            self._alone_steps += 1
            self.poll()
        elif self._steps >= _KILL_AFTER and not self._over:
            self._kill()

    def poll(self) -> None:
        """Start a daemon again when the agent has worked alone for long enough."""
        if self._alone_since is None:
            return
        if self._alone_steps >= _ALONE_STEPS or time.monotonic() - self._alone_since >= _ALONE_S:
            self._alone_since = None
            self._restart()

    def _kill(self) -> None:
        from watchkeeper.daemon import client

        self._over = True
        if _others_go_on(self._call.writing):
            self._say(
                "(Here the daemon would be killed to show that nothing is lost. It has other work of yours, so it is not.)"
            )
            return
        info = daemon.running(self._call)
        if not client.kill_for_demo(self._call.writing):
            self._say("(Here the daemon would be killed, but it could not be reached.)")
            return
        pid = f", pid {info.pid}" if info is not None else ""
        self._say(f"The daemon was just killed (SIGKILL{pid}). The agent does not notice; it works on:")
        self._alone_since = time.monotonic()

    def _restart(self) -> None:
        from watchkeeper.daemon import client

        _ = client.start(self._call.writing)
        info = daemon.running(self._call)
        found = daemon.found_by_newest(self._call)
        word = next((word for run, word in found.items() if run.startswith(f"{self._task.id}.")), "not found")
        pid = f" (pid {info.pid})" if info is not None else ""
        self._say(f"A new daemon was started{pid}. What it says of the run: {word}.")

    def _say(self, text: str) -> None:
        terminal = self._call.terminal
        terminal.say("")
        terminal.prose(f">>> {text}", render.BOLD, render.YELLOW, hang=4)
        terminal.say("")


def _others_go_on(parts: "Watchkeeper") -> bool:
    counts = parts.store.read(lambda tx: tx.tasks.counts())
    return counts.get(TaskState.RUNNING, 0) + counts.get(TaskState.QUEUED, 0) > 1


def _why(task: Task) -> str:
    return f": {render.clean(task.reason)}" if task.reason and task.state is not TaskState.DONE else ""


def _print_end(call: Call, task: Task) -> None:
    from watchkeeper.domain.result import summary

    terminal, store = call.terminal, call.writing.store
    runs: list[tuple[Run, Outcome | None]] = store.read(
        lambda tx: [(run, tx.outcomes.get(run.id)) for run in tx.runs.of_task(task.id)]
    )
    word = "needs you" if task.state is TaskState.NEEDS_INPUT else task.state.value
    terminal.prose(f"state    {terminal.word(word)}" + _why(task), hang=9)
    for run, outcome in runs[-1:]:
        if run.exit is not None:
            terminal.say(f"exit     code {run.exit.exit_code}, after {render.elapsed(run.exit.elapsed_s)}")
        if outcome is not None:
            terminal.say(
                f"proof    {outcome.proof.value}"
                + (": nothing of it is alive" if outcome.proof.value == "proven" else "")
            )
            terminal.say(f"changes  {summary(outcome.changes) or 'unknown'}")
            for file in () if outcome.changes is None else outcome.changes.files:
                terminal.say(f"         {file.change} {render.clean(file.path)}")
    terminal.say("")
    terminal.say("What to type next:")
    for typed, why in (
        (f"wk show {task.id}", "everything about this task"),
        (f"wk diff {task.id}", "what it changed"),
        (f"wk logs {task.id}", "what the agent printed"),
        ('wk run "…"', "the same with your own agent, in your own directory"),
        ("wk doctor", "which agents are installed, and how to get one"),
        ("wk daemon stop", "end the daemon; it starts again when it is needed"),
    ):
        terminal.say(f"  {typed:<20} {terminal.style(why, render.DIM)}")
