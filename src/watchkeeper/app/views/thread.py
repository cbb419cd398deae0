"""The conversation with the agent of a task: its prompt, what was said after it, and what the agent replied."""

from dataclasses import dataclass
from datetime import datetime

from watchkeeper.domain.message import Message, MessageState
from watchkeeper.domain.model import Outcome, Run, Task
from watchkeeper.ports.store import Store, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A run, as a turn of the conversation."""

    run: Run
    outcome: Outcome | None
    """None: it has not ended."""
    resumed: bool
    """It went on with the conversation; else it began a new one, with the prompt."""
    covers: tuple[int, ...]
    """The numbers of the messages that it was given."""

    @property
    def at(self) -> datetime:
        """When it was reserved."""
        return self.run.claimed_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A conversation."""

    task: Task
    session: str | None
    """The harness's own id of the newest conversation."""
    messages: tuple[Message, ...]
    replies: tuple[Reply, ...]

    @property
    def waiting(self) -> int:
        """How many messages wait for a run."""
        return sum(1 for one in self.messages if one.state is MessageState.WAITING)


def thread(store: Store, task_id: str) -> Thread:
    """The conversation of a task. Raises NoSuchTask."""

    def read(tx: Tx) -> Thread:
        task, runs = tx.tasks.get(task_id), tx.runs.of_task(task_id)
        replies: list[Reply] = []
        for run in runs:
            turn = tx.messages.turn(run.id)
            replies.append(
                Reply(
                    run=run,
                    outcome=tx.outcomes.get(run.id),
                    resumed=turn is not None and turn.session is not None,
                    covers=() if turn is None else turn.numbers,
                )
            )
        sessions = [run.harness_session for run in runs if run.harness_session]
        return Thread(
            task=task,
            session=sessions[-1] if sessions else None,
            messages=tuple(tx.messages.of_task(task_id)),
            replies=tuple(replies),
        )

    return store.read(read)
