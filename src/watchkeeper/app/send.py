"""Say something more to the agent of a task: the message is kept, and the task's next run takes it into the same conversation.

queued, running ──▶ the message is kept; it rides the next run
at rest         ──▶ checked like a retry; one transaction keeps the message and queues the task
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from watchkeeper.app import messages
from watchkeeper.app.off_record import put_on_record
from watchkeeper.app.parts import Caller, Parts
from watchkeeper.app.retry import Again, prepare, retry
from watchkeeper.app.secrets import refuse_words
from watchkeeper.domain import handover
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.message import CONTINUE, MOST_MESSAGES, Addressed, Message
from watchkeeper.domain.model import RESTING_TASK_STATES, Task
from watchkeeper.domain.task_worktree import refuse_removed
from watchkeeper.errors import BadTask, Elsewhere, KeyTaken, Refused, Stale
from watchkeeper.ports.harness import Resumes, cannot_resume
from watchkeeper.ports.store import Tx

MOST_BYTES = 1_000_000
"""A message longer than this is a file that was given by mistake. A conversation has to hold it beside all that was said before."""

_TRIES = 10
"""How often the task may move on while a message is being recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest:
    """What a person says to the agent of a task."""

    task_id: str
    text: str
    key: str | None = None
    """The caller's own name for the message: the same key with the same text is the same message, however often it is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """What became of it."""

    message: Message
    task: Task
    """The task as it is then."""
    already: bool = False
    """The key stood for this very message before; nothing was added."""
    queued: bool = False
    """The task was at rest, and waits for its turn now."""
    upgraded: tuple[str, str] | None = None
    """The version of the agent program that was allowed before, and the one that is there now, where they differ."""


def send(parts: Parts, caller: Caller, request: SendRequest) -> SendResult:
    """Record a message to a task's agent. A daemon does the rest.

    What the agent may do is what was allowed for the task before; if that cannot be had any more, the message is refused.

    Raises:
        NoSuchTask: no task has this id.
        KeyTaken: the key stands for another message of the task.
        BadTask: the text cannot be sent, or the task's directory is missing.
        Refused: the harness cannot continue a conversation, none is on record, the agent of the last run is alive, or the rights would differ.
        HarnessError: the program is missing.
        StateError: the database cannot take it.
    """
    _check_text(parts, caller, request)
    _ = put_on_record(parts.store, parts.clock, parts.runtime, request.task_id)
    for _ in range(_TRIES):
        before = parts.store.read(lambda tx: _known(tx, request))
        if before is not None:
            return before
        task = parts.store.read(lambda tx: tx.tasks.get(request.task_id))
        try:
            if task.state not in RESTING_TASK_STATES:
                return parts.store.transact("send", lambda tx: _append(tx, parts, caller, request))
            return _to_rest(parts, caller, request)
        except _MovedOn:
            continue
        except Refused:
            # Another message, or a retry, may have queued the task since it was read. Then this one is checked again.
            if _stands_as(parts, task):
                raise
    raise Stale(f"Task {request.task_id} moved on each time that it was looked at.", hint="Send it again.")


def resume(parts: Parts, caller: Caller, task_id: str) -> SendResult:
    """Let the agent continue without anything new to say.

    Raises:
        Refused: the task is not at rest; and as `send`.
    """
    task = parts.store.read(lambda tx: tx.tasks.get(task_id))
    if task.state not in RESTING_TASK_STATES:
        raise Refused(
            f"Task {task.id} is {task.state}, so there is nothing to resume.",
            hint=f"`wk send {task.id} TEXT` says something to its agent.",
        )
    return send(parts, caller, SendRequest(task_id=task_id, text=CONTINUE))


class _MovedOn(Exception):  # noqa: N818 - not an error: the next look knows
    """The task is not as it was when this way was chosen."""


def _stands_as(parts: Parts, was: Task) -> bool:
    return parts.store.read(lambda tx: tx.tasks.get(was.id)).version == was.version


def _check_text(parts: Parts, caller: Caller, request: SendRequest) -> None:
    """Raises BadTask, Refused."""
    size = len(request.text.encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        raise BadTask(
            f"The message is {size / 1e6:.1f} MB long; at most {MOST_BYTES / 1e6:.0f} MB is accepted.",
            hint="Put the material into a file in the directory and name the file in the message.",
        )
    if request.key is not None and not handover.is_key(request.key):
        raise BadTask(
            f"The key is not a printable text of 1 to {handover.LONGEST_KEY} characters.", hint="Choose another key."
        )
    if not request.text.strip():
        raise BadTask("The message is empty.", hint='Say something, for example: wk send ID "now add a test for it".')
    refuse_words([("The message", request.text), ("The key", request.key or "")], caller.environ)
    task = parts.store.read(lambda tx: tx.tasks.get(request.task_id))
    harness = parts.harness(task.spec.harness)
    if not isinstance(harness, Resumes):
        raise Refused(
            cannot_resume(task.spec.harness), hint=f"`wk retry {task.id}` runs the task again from the start."
        )
    harness.check(replace(task.spec, prompt=request.text))


def _known(tx: Tx, request: SendRequest) -> SendResult | None:
    """The message that the key stands for. Raises KeyTaken."""
    found = None if request.key is None else tx.messages.keyed(request.task_id, request.key)
    if found is None:
        return None
    if _digest(found.text) != _digest(request.text):
        raise KeyTaken(
            f"The key stands for the message {found.receipt}, which says something else.", hint="Choose another key."
        )
    return SendResult(message=found, task=tx.tasks.get(request.task_id), already=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _append(tx: Tx, parts: Parts, caller: Caller, request: SendRequest) -> SendResult:
    """To a task that is queued or running: the message rides the next run.

    Raises:
        _MovedOn: it is at rest now.
    """
    before = _known(tx, request)
    if before is not None:
        return before
    task = tx.tasks.get(request.task_id)
    if task.state in RESTING_TASK_STATES:
        raise _MovedOn
    refuse_removed(task)
    if task.stop is not None:
        raise Refused(
            f"Task {task.id} is being stopped, so nothing can be sent to it.", hint="Send it when the task has ended."
        )
    # This message does not decide whether the conversation is resumed: a first turn that is tried again starts with the prompt.
    return SendResult(message=_add(tx, parts, caller, request, continues=False), task=task)


def _to_rest(parts: Parts, caller: Caller, request: SendRequest) -> SendResult:
    """To a task at rest: it goes back into the queue, with what it was allowed before."""
    known = parts.store.read(lambda tx: messages.conversation(tx, request.task_id))
    _refuse_without(parts, request.task_id, known)
    again = prepare(parts, caller, request.task_id)
    _refuse_other_rights(again)
    added: list[Message] = []

    def then(tx: Tx, task: Task) -> None:
        del task
        if _known(tx, request) is not None:
            raise Stale("The message was recorded meanwhile.")
        added[:] = [_add(tx, parts, caller, request, continues=True)]

    machine = known[1] if known is not None and parts.machine else ""
    task = retry(parts, again, by=caller.by, then=then, machine=machine)
    return SendResult(message=added[0], task=task, queued=True, upgraded=_upgrade(again))


def _refuse_without(parts: Parts, task_id: str, known: tuple[str, str] | None) -> None:
    """Raises Refused, Elsewhere: there is no conversation, or it is kept on another machine."""
    if known is None:
        raise Refused(
            f"Task {task_id} has no conversation on record, so there is nothing to continue.",
            hint=f"`wk retry {task_id}` runs it again from the start.",
        )
    if parts.machine and known[1] != parts.machine:
        raise Elsewhere(
            f"The conversation of task {task_id} is kept on another machine ({known[1]}).",
            hint="Send the message there.",
        )


def _refuse_other_rights(again: Again) -> None:
    """Raises Refused: what the agent might do is not what was allowed."""
    stored = None if again.allowed is None else again.allowed.profile
    if stored is None or stored.scope != again.profile.scope:
        raise Refused(
            f"The agent of task {again.task_id} would have other rights than were allowed, so nothing was sent.",
            hint=f"`wk retry --continue {again.task_id}` shows them, approves them and continues.",
        )


def _upgrade(again: Again) -> tuple[str, str] | None:
    stored = None if again.allowed is None else again.allowed.profile
    if stored is None or stored.version == again.profile.version:
        return None
    return stored.version or "an unknown version", again.profile.version or "an unknown version"


def _add(tx: Tx, parts: Parts, caller: Caller, request: SendRequest, *, continues: bool) -> Message:
    count = tx.messages.count(request.task_id)
    if count >= MOST_MESSAGES:
        raise Refused(
            f"Task {request.task_id} has {count} messages, and takes no more.",
            hint="Hand a new task over with `wk run`.",
        )
    at = parts.clock.now()
    message = Message(
        task_id=request.task_id, number=count + 1, text=request.text, by=caller.by, at=at, continues=continues
    )
    tx.messages.add(message, request.key)
    _ = tx.journal.append(
        "message.sent", at, task_id=request.task_id, data={"message": message.receipt, "by": caller.by}
    )
    return message


def go_on(parts: Parts, caller: Caller, task_id: str, *, fresh: bool | None) -> Callable[[Tx, Task], None]:
    """What a retry does, in its own transaction, with the messages that wait.

    Args:
        parts: the installation.
        caller: who asks.
        task_id: the task.
        fresh: True: a new conversation, with the prompt and all that waits. False: the one on record; where nothing waits, the agent is asked to continue.
            None: as the messages were sent, and a new one where the program no longer knows the old one.
    """

    def then(tx: Tx, task: Task) -> None:
        waiting, at = tx.messages.waiting(task.id), parts.clock.now()
        runs = tx.runs.of_task(task.id)
        lost = bool(runs) and runs[-1].kind is FailureKind.SESSION_GONE
        new = lost if fresh is None else fresh
        if fresh is False:
            _refuse_without(parts, task.id, messages.conversation(tx, task.id))
            if not waiting:
                _ = _add(tx, parts, caller, SendRequest(task_id=task_id, text=CONTINUE), continues=True)
        if new or fresh is False:
            for message in waiting:
                _ = messages.apply_message(tx, message, Addressed(continues=not new), at)

    return then
