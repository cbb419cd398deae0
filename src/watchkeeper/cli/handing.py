"""A hand-over that can be repeated: the caller's key for it (`--key`), and what is said when it stands for a task already."""

from typing import TYPE_CHECKING

from watchkeeper.cli.render import clean
from watchkeeper.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from watchkeeper.app.add import AddRequest, Handed
    from watchkeeper.cli.call import Call
    from watchkeeper.domain.model import Task

_DRY = "Nothing was handed over."
"""What a dry run says at its end."""

_NO_CONTENT = frozenset({"key"})


def digest(wishes: "Mapping[str, object]", prompt: str, argv: "tuple[str, ...]") -> str:
    """What is asked for (`asking.Wishes`, by name), as it was typed; the directory in full."""
    from watchkeeper.domain import handover

    given = {name: value for name, value in wishes.items() if name not in _NO_CONTENT}
    return handover.digest({**given, "prompt": prompt, "command": argv})


def refuse_secret(call: "Call", key: str) -> None:
    """A key is stored and shown. Raises BadTask."""
    from watchkeeper.app.secrets import refuse_words

    refuse_words([("The key", key)], call.environ)


def known(call: "Call", wishes: "Mapping[str, object]", prompt: str, argv: "tuple[str, ...]") -> "Task | None":
    """The task that this very hand-over made before, if it did; found whatever has become of its program and directory meanwhile.

    Raises:
        KeyTaken: its key stands for another one.
    """
    from watchkeeper.app.add import handed_over

    key = wishes["key"]
    store = call.store if isinstance(key, str) else None
    if not isinstance(key, str) or store is None:
        return None
    asked = digest(wishes, prompt, argv)
    return store.read(lambda tx: handed_over(tx, key, asked))


def agreed_before(call: "Call", task: "Task") -> dict[str, object]:
    """What was agreed on when it was handed over, as JSON values.

    Raises:
        NotFound: it was removed just now.
    """
    from watchkeeper.app.views import profile

    allowed = call.writing.store.read(lambda tx: tx.outcomes.authorisation(task.id))
    if allowed is None:
        raise NotFound(f"Task {task.id} was removed meanwhile.", hint="Hand it over again.")
    of = allowed.profile
    return {
        "rights": allowed.says,
        "program": None if of is None else of.program,
        "program_version": None if of is None else of.version,
        "host": (of.host or None) if of is not None else None,
        "host_source": (of.host_source or None) if of is not None else None,
        "profile": None if of is None else profile.plain(of),
        "not_passed": [],
    }


def say_already(call: "Call", handed: "Handed") -> None:
    """Say that nothing new was added."""
    call.terminal.note(f"Already handed over as {handed.task.id}, with the key {clean(handed.key)}: nothing was added.")


def would_be(call: "Call", request: "AddRequest") -> "Task | None":
    """The task that a hand-over, which is only tried, would give: the one that was handed over before. None: it would be a new one.

    Raises:
        KeyTaken: its key stands for another one.
    """
    from watchkeeper.app.add import handed_over

    store = call.store if request.key else None
    return None if store is None else store.read(lambda tx: handed_over(tx, request.key, request.key_digest))


def tell_dry(
    call: "Call",
    emit: "Callable[[Mapping[str, object]], None]",
    tried: "Sequence[tuple[Task | None, AddRequest | None, Mapping[str, object]]]",
    *,
    as_json: bool,
) -> None:
    """Tell what handing over would give: for each the task that is there already, or the request, and what was agreed on. `emit` writes an object."""
    for task, request, rights in tried:
        spec = task.spec if task is not None else request.spec if request is not None else None
        told = {"dry_run": True, "title": spec and spec.title, "already": task is not None, "id": task and task.id}
        if as_json:
            emit({**told, **rights})
        elif task is not None:
            call.terminal.note(f"It is handed over already, with this key, as {task.id}.")
    if not as_json:
        call.terminal.note(_DRY)
