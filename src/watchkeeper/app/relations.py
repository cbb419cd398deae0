"""What a task may ask of the queue: checked before anything is kept, and against the database in the transaction that stores it."""

from datetime import datetime, timedelta

from watchkeeper.app.accounts import require
from watchkeeper.domain.model import TaskSpec
from watchkeeper.domain.waiting import circle
from watchkeeper.errors import BadTask, NoSuchTask
from watchkeeper.ports.store import Tx

MAX_LABEL = 64
"""Characters of a label, and of a project's name."""

MAX_LABELS = 20
MAX_AFTER = 100
MAX_PRIORITY = 1000
"""Priorities go from minus this to this."""

LONGEST_WAIT = timedelta(days=3660)
"""A later start is a slip of the hand, and near the end of the calendar there are zones in which it cannot be shown."""


def check_spec(spec: TaskSpec, now: datetime) -> None:
    """Refuse what can be seen to be wrong without asking the database.

    Raises:
        BadTask: a label, the project, the time or a number cannot be.
    """
    if len(spec.labels) > MAX_LABELS:
        raise BadTask(f"{len(spec.labels)} labels are too many.", hint=f"At most {MAX_LABELS} are kept.")
    if len(spec.after) > MAX_AFTER:
        raise BadTask(f"It would wait for {len(spec.after)} tasks.", hint=f"A task waits for at most {MAX_AFTER}.")
    for word in spec.labels:
        _check_word(word, "label")
    if spec.project:
        _check_word(spec.project, "name of a project")
    if not -MAX_PRIORITY <= spec.priority <= MAX_PRIORITY:
        raise BadTask(
            f"The priority {spec.priority} is out of bounds.", hint=f"Give one from -{MAX_PRIORITY} to {MAX_PRIORITY}."
        )
    if spec.not_before is not None and spec.not_before <= now:
        raise BadTask(
            f"{spec.not_before.astimezone():%Y-%m-%d %H:%M:%S} has passed already.",
            hint="Give a time to come, such as +2h, or leave --not-before out.",
        )
    if spec.not_before is not None and spec.not_before - now > LONGEST_WAIT:
        raise BadTask("It would start in more than ten years.", hint="Give a time that is nearer.")


def _check_word(word: str, what: str) -> None:
    shown = "".join(letter if letter.isprintable() else "?" for letter in word[:40])
    if len(word) > MAX_LABEL:
        raise BadTask(
            f"The {what} '{shown}…' has {len(word)} characters.", hint=f"At most {MAX_LABEL} characters are kept."
        )
    if not word.strip() or word != word.strip() or not word.isprintable():
        raise BadTask(
            f"'{shown}' cannot be a {what}.",
            hint="Use printable characters, at least one, with no blanks at its ends.",
        )


def check_relations(tx: Tx, task_id: str, spec: TaskSpec) -> None:
    """Refuse a task that names what is not there, or itself.

    Raises:
        NoSuchTask: it should wait for a task that is not there.
        BadTask: it names itself.
        NotFound: there is no such account.
    """
    _ = require(tx, spec.account_id)
    for other in spec.after:
        if other != task_id:
            try:
                _ = tx.tasks.get(other)
            except NoSuchTask as error:
                raise NoSuchTask(
                    f"There is no task '{other}' to wait for: it was removed, or never was.", hint=error.hint
                ) from error
    if task_id in spec.after:
        raise BadTask("A task cannot wait for itself.", hint="Leave its own id out of --after.")


def refuse_circle(tx: Tx, task_id: str, spec: TaskSpec) -> None:
    """Refuse a task that would wait for itself by way of others. A new one cannot: no task waits for it yet, so new tasks need no check.

    Raises:
        BadTask: says by way of which.
    """
    way = circle(task_id, spec.after, lambda each: [on.task_id for on in tx.waits.dependencies(each)])
    if way is not None:
        raise BadTask(
            f"The task would wait for itself: {' waits for '.join(way)}.", hint="Leave one of them out of --after."
        )
