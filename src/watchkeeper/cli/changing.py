"""Changing one of the user's own settings, and what has to be looked at before another database is chosen."""

from typing import TYPE_CHECKING, cast

from watchkeeper.cli import daemon, render
from watchkeeper.errors import (
    BadTask,
    DatabaseMoved,
    DatabaseUnusable,
    HarnessError,
    NoDatabase,
    Refused,
    SettingsError,
    UnknownHarness,
)

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call

SHORT = {"store": "store.url"}
"""Names that stand for a longer one."""


def written(key: str, typed: str) -> object:
    """What the file is to hold. Raises SettingsError."""
    from watchkeeper.settings import KEYS, value_of

    value = value_of(key, typed, "as typed").value
    if isinstance(value, tuple):
        return list(cast("tuple[str, ...]", value))
    is_count = isinstance(value, int) and key in KEYS and KEYS[key].kind != "size"
    return value if is_count else typed


def check(call: "Call", key: str, typed: str) -> None:
    """Refuse what would store a secret, the name of no harness, and what a harness says its option cannot be. Raises SettingsError."""
    from watchkeeper.app.secrets import refuse_words

    if key == "store.url":
        return
    try:
        refuse_words([(f"The value of {key}", typed)], call.environ)
        if key == "run.harness":
            _ = call.reading.harness(typed)
    except (BadTask, UnknownHarness) as wrong:
        raise SettingsError(str(wrong), hint=wrong.hint) from wrong
    except HarnessError:
        return  # it is there, and cannot be loaded: `wk doctor` says why
    _check_option(call, key, typed)


def _check_option(call: "Call", key: str, typed: str) -> None:
    """Have a harness look at a value of an option of its own, as it does before a task."""
    from watchkeeper.ports.harness import declared
    from watchkeeper.settings import ACCOUNT, unknown

    of, _, option = key.removeprefix("harness.").partition(".")
    if not key.startswith("harness.") or option == ACCOUNT:
        return
    try:
        harness = call.reading.harness(of)
        known = declared(harness).options
        if known is not None and option not in known:
            raise unknown(key, "as typed", [f"harness.{of}.{each}" for each in known])
        if option == "program":
            return
        _ = harness.find(call.environ, {option: typed})
    except BadTask as wrong:
        raise SettingsError(str(wrong), hint=wrong.hint) from wrong
    except HarnessError:
        return  # the program may be installed later


def look_before(call: "Call", key: str, typed: str, *, check: bool) -> list[str]:
    """What is to be said before another database is chosen; nothing for other settings.

    Raises:
        Refused: agents of this machine, or its daemon, are using the present one.
        DatabaseUnusable: and its kinds: the new one cannot be reached.
    """
    from watchkeeper.settings import value_of

    if key != "store.url":
        return []
    url = value_of(key, typed, "as typed").value
    present = call.reading.settings.store_url
    if url == present:
        return []
    notes = _present(call, check=check)
    if check and isinstance(url, str):
        notes.append(_reached(call, url))
    return notes


def _present(call: "Call", *, check: bool) -> list[str]:
    if daemon.running(call) is not None:
        raise Refused(
            "A daemon works on the present database.",
            hint="`wk daemon stop` ends it; agents continue. Then `wk store copy --to URL` takes everything along.",
        )
    try:
        store = call.store
    except DatabaseMoved:
        return []
    except (
        DatabaseUnusable,
        SettingsError,
    ) as problem:  # the driver may be missing, or the URL may be one that it does not understand
        if not check:
            return []
        problem.hint = (
            f"{problem.hint} Running agents there would lose their daemon; --no-check leaves it all the same.".strip()
        )
        raise
    if store is None:
        return []
    here = call.reading.runtime.machine or call.reading.state.known_node()
    live, counts = store.read(lambda tx: (tx.runs.live(here), tx.tasks.counts()))
    if live:
        raise Refused(
            f"{render.counted(len(live), 'run')} of this machine are on record in the present database, and would lose their daemon.",
            hint="`wk store copy --to URL` takes everything along, agents at work included.",
        )
    from watchkeeper.domain.model import FINAL_TASK_STATES

    left = sum(count for state, count in counts.items() if state not in FINAL_TASK_STATES)
    if not left:
        return []
    word = "stays" if left == 1 else "stay"
    return [f"{render.counted(left, 'open task')} {word} in the present database; `wk store copy` takes them along."]


def _reached(call: "Call", url: str) -> str:
    from watchkeeper.compose.databases import open_postgres

    parts = call.writing
    try:
        open_postgres(url, host=parts.host_name, create=False, upgrade=False).close()
    except NoDatabase:
        return "The database can be reached and is empty; the first task makes what it needs."
    return "The database can be reached."
