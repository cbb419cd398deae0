"""What a run is given: the first turn of a conversation with the task's prompt, or a further one with messages."""

from collections.abc import Sequence

from watchkeeper.domain.message import Message, Turn, joined
from watchkeeper.domain.model import Run
from watchkeeper.domain.profile import LaunchProfile
from watchkeeper.ports.harness import Harness, resume_plan
from watchkeeper.ports.store import Tx


class SessionElsewhere(Exception):  # noqa: N818 - a state of the task that a person resolves, not a program error
    """The conversation cannot be continued here."""


def given(tx: Tx, run: Run) -> tuple[Turn | None, tuple[Message, ...]]:
    """What was recorded for a run when it was reserved, with the messages of that, in order; None: the task's prompt alone."""
    turn = tx.messages.turn(run.id)
    if turn is None:
        return None, ()
    return turn, tuple(one for one in tx.messages.of_task(run.task_id) if one.number in turn.numbers)


def text_of(
    turn: Turn | None, messages: Sequence[Message], run: Run, prompt: str, harness: Harness, profile: LaunchProfile
) -> tuple[tuple[str | None, ...], str]:
    """The command line and the text of a run.

    Args:
        turn: what was recorded for it; None: the task's prompt alone.
        messages: the messages of that, in order.
        run: the run.
        prompt: the task's prompt.
        harness: the task's harness.
        profile: what the launch is allowed. A resumed turn has the same command line, but for the conversation.

    Raises:
        SessionElsewhere: the conversation is kept on another machine.
        BadTask: the harness cannot resume it.
    """
    if turn is None or turn.session is None:
        return profile.argv, f"{profile.prompt_prefix}{joined(prompt, messages)}"
    if turn.machine != run.machine:
        raise SessionElsewhere(
            f"Its conversation is kept on another machine ({turn.machine}): `wk send` there continues it, `wk retry --fresh` begins a new one."
        )
    plan = resume_plan(harness, profile.argv, turn.session, joined(None, messages))
    return plan.argv, plan.prompt
