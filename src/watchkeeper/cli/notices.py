"""Where notices do not arrive, in words."""

from typing import TYPE_CHECKING

from watchkeeper.cli import render

if TYPE_CHECKING:
    from watchkeeper.domain.notice import SinkState
    from watchkeeper.ports.store import Store


def silent(store: "Store") -> "list[SinkState]":
    """The sinks whose last notice did not arrive."""
    from watchkeeper.app.notices import states

    return [state for state in states(store) if state.problem]


def line(state: "SinkState") -> str:
    """Say it in one sentence."""
    again = (
        f" It is tried again at {render.clock(state.due_at)}." if state.due_at is not None else " That one is given up."
    )
    return f"Notices do not arrive at the {state.sink.value}: {render.clean(state.problem)}.{again} wk notify ls"
