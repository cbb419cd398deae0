"""`wk notify`: notices of what needs a person."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import NOTHING_YET, Call
from watchkeeper.cli.command import SETTINGS, WkCommand, debug_option, json_option
from watchkeeper.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchkeeper.domain.notice import SinkState

_NOTHING_SET = (
    "No notices are sent: nothing says where to. For example: wk config set notify.desktop yes, "
    "or wk config set notify.webhook URL; then wk daemon restart."
)


@click.group(name="notify", short_help="Notices of what needs you: look, and test.", context_settings=SETTINGS)
def command() -> None:
    """Notices go where the settings `notify.…` say: a command, a webhook, the desktop, services.

    They are sent by the daemon, once for each change, when a task needs you, fails or is done.
    """


@command.command(cls=WkCommand, name="ls", short_help="Where notices go, and whether they arrive.")
@json_option
@debug_option
@click.pass_obj
def list_(call: Call, as_json: bool) -> None:
    """List where notices go, and what became of the last one."""
    from watchkeeper.app.notices import states
    from watchkeeper.app.views import plain

    store = call.store
    found: Sequence[SinkState] = () if store is None else states(store)
    if as_json:
        call.terminal.document([plain.sink(each) for each in found])
    elif store is None:
        call.terminal.prose(NOTHING_YET)
    elif not found:
        call.terminal.prose(_NOTHING_SET)
    else:
        rows = [(each.sink.value, *_state(each)) for each in found]
        call.terminal.table(("TO", "STATE", "DETAIL"), rows)


@command.command(cls=WkCommand, name="test", short_help="Send a notice that says that it is a test.")
@json_option
@debug_option
@click.pass_obj
def test(call: Call, as_json: bool) -> int:
    """Send a test notice to everything that is set, at once and without the daemon. Exit code 8 if one of them fails, or nothing is set."""
    from watchkeeper.app.notices import send_test
    from watchkeeper.compose.notices import sinks_of

    results = send_test(sinks_of(call.reading), call.reading.system_clock.now())
    if as_json:
        rows = [{"sink": sink.name.value, "detail": sink.detail, "problem": each.problem} for sink, each in results]
        call.terminal.document(rows)
    elif not results:
        call.terminal.prose(_NOTHING_SET)
    for sink, answer in () if as_json else results:
        call.terminal.prose(
            f"{sink.name.value} ({render.clean(sink.detail)}): {render.clean(answer.problem) or 'sent'}."
        )
    return Exit.REFUSED if not results or any(each.problem for _, each in results) else Exit.OK


def _state(state: "SinkState") -> tuple[str, str]:
    """In a word, and why."""
    if not state.problem:
        return "ok", ""
    if state.due_at is None:
        return "lost one", state.problem
    return f"tried {state.attempts}x", f"{state.problem}; again at {render.clock(state.due_at)}"
