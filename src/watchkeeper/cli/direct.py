"""Ending runs from the command itself: where the database cannot take the wish, or no daemon acts on it."""

import errno
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from watchkeeper.errors import (
    AmbiguousId,
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseFull,
    DatabaseUnusable,
    NoDatabase,
    StateError,
)

if TYPE_CHECKING:
    from watchkeeper.app.off_record import Ended
    from watchkeeper.cli.call import Call
    from watchkeeper.domain.model import Run, StopHow
    from watchkeeper.ports.off_record import FoundRun
    from watchkeeper.ports.runtime import Runtime

T = TypeVar("T")

DATABASE_S = 2.5
"""How long a command that ends something waits for the database."""

_EACH_S = 0.05
_AT_ONCE = 16
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_WHY: tuple[tuple[type[StateError], str], ...] = (
    (DatabaseFull, "the database cannot be written (disk full)"),
    (DatabaseCorrupt, "the database is damaged"),
    (DatabaseBusy, "the database is held by another program"),
)


def within(work: Callable[[], T], *, tasks: int = 0) -> T:
    """What `work` returns or raises, if it does so in time. Else it is left behind: what it commits late is the same wish once more.

    Raises:
        DatabaseBusy: it took too long, for each of so many `tasks` a little more.
    """
    found: list[T] = []
    wrong: list[BaseException] = []
    over = threading.Event()

    def run() -> None:
        try:
            found.append(work())
        except BaseException as problem:  # noqa: BLE001 - raised again below, by the waiting thread
            wrong.append(problem)
        finally:
            over.set()

    threading.Thread(target=run, name="database", daemon=True).start()
    patience_s = DATABASE_S + _EACH_S * tasks
    if not over.wait(patience_s):
        raise DatabaseBusy(f"The database did not answer within {patience_s:g} s.")
    if wrong:
        raise wrong[0]
    return found[0]


def is_away(error: BaseException) -> bool:
    """Whether this says that there is a database, and that it cannot be used now."""
    return isinstance(error, DatabaseUnusable) and not isinstance(error, NoDatabase)


def describe(error: BaseException) -> str:
    """Why something is off the record."""
    return next((why for kind, why in _WHY if isinstance(error, kind)), "the database cannot be used")


def found_runs(call: "Call", typed: str, error: DatabaseUnusable) -> "list[FoundRun]":
    """The runs of the one task that was meant, as the execution directories tell; all runs for an empty text.

    Raises:
        AmbiguousId: it could be several.
        DatabaseUnusable: there is none, and whether there is such a task cannot be told: `error`.
    """
    prefix = typed.strip().lower()
    found = [each for each in call.writing.runtime_alone.off_record.runs() if each.run.task_id.startswith(prefix)]
    exact = [each for each in found if each.run.task_id == prefix]
    tasks = sorted({(each.database_id, each.run.task_id) for each in exact or found})
    if not found:
        raise error
    if prefix and len(tasks) > 1:
        raise AmbiguousId(prefix, sorted({task_id for _, task_id in tasks}))
    return exact or found


def noted(call: "Call", typed: str) -> str | None:
    """The one task that was meant, if a stop of it waits to be put on record."""
    prefix = typed.strip().lower()
    try:
        tasks = {each.task_id for each in call.writing.runtime_alone.off_record.notes()}
    except OSError:
        return None
    found = [prefix] if prefix in tasks else [each for each in tasks if each.startswith(prefix)]
    return found[0] if len(found) == 1 else None


def note(call: "Call", found: "Sequence[FoundRun]", how: "StopHow", grace_s: float | None) -> bool:
    """Put down, beside the database, that a person stopped these; False if the disk takes not even that."""
    from watchkeeper.app.off_record import note_of

    parts = call.writing
    notes = [note_of(each.run, each.database_id, how, call.person, parts.system_clock, grace_s) for each in found]
    try:
        for each in notes:
            parts.runtime_alone.off_record.put(each)
    except OSError as problem:
        if problem.errno not in _NO_SPACE or not make_room(call):
            return False
        try:
            for each in notes:
                parts.runtime_alone.off_record.put(each)
        except OSError:
            return False
    return True


def make_room(call: "Call") -> bool:
    """Give back what was set aside for stops on a full disk; True if there was some."""
    try:
        return call.writing.state.release_spare()
    except (OSError, StateError):
        return False


def end_all(runtime: "Runtime", runs: "Sequence[Run]", how: "StopHow", grace_s: float) -> "list[Ended]":
    """End runs from here, many at once, and wait for it; what came of each."""
    from concurrent.futures import ThreadPoolExecutor

    from watchkeeper.app.off_record import Ended, end_now

    def end(run: "Run") -> "Ended":
        try:
            return end_now(runtime, run, how, grace_s)
        except OSError as problem:
            return Ended(over=False, detail=f"The system is in trouble: {problem.strerror or problem}.")

    if not runs:
        return []
    with ThreadPoolExecutor(min(_AT_ONCE, len(runs))) as pool:
        return list(pool.map(end, runs))
