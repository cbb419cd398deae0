"""What a shell offers on Tab. Looks only, and stays silent whatever is wrong: a shell's prompt is the wrong place for complaints."""

import os
from contextlib import suppress
from pathlib import Path

from watchkeeper.cli.render import clean, shorten
from watchkeeper.errors import HarnessError, WatchkeeperError

_TITLE = 50


def ids(beginning: str, limit: int) -> list[tuple[str, str]]:
    """Ids of tasks that start like this, newest first, each with its title."""
    from watchkeeper.compose import Watchkeeper

    try:
        store = Watchkeeper.open(Path.cwd(), os.environ, writes=False).store
        return store.read(
            lambda tx: [
                (found, shorten(clean(tx.tasks.get(found).spec.title), _TITLE))
                for found in tx.tasks.ids_like(beginning.lower(), limit)
            ]
        )
    except (WatchkeeperError, OSError):
        return []


def accounts() -> list[str]:
    """Ids of all accounts that were added, and the names alone."""
    from watchkeeper.compose import Watchkeeper

    try:
        store = Watchkeeper.open(Path.cwd(), os.environ, writes=False).store
        return [account.id for account in store.read(lambda tx: tx.accounts.all())]
    except (WatchkeeperError, OSError):
        return []


def machines() -> list[str]:
    """Names of all machines that ever had a daemon."""
    from watchkeeper.compose import Watchkeeper

    try:
        store = Watchkeeper.open(Path.cwd(), os.environ, writes=False).store
        return [machine.name or machine.id for machine in store.read(lambda tx: tx.machines.all())]
    except (WatchkeeperError, OSError):
        return []


def labels(beginning: str, limit: int) -> list[str]:
    """Labels that start like this."""
    from watchkeeper.compose import Watchkeeper

    try:
        store = Watchkeeper.open(Path.cwd(), os.environ, writes=False).store
        return store.read(lambda tx: tx.tasks.labels(beginning, limit))
    except (WatchkeeperError, OSError):
        return []


def harness_names() -> list[str]:
    """Names of all harnesses."""
    from watchkeeper.compose import Watchkeeper

    try:
        return Watchkeeper.open(Path.cwd(), os.environ, writes=False).harness_names()
    except (WatchkeeperError, OSError):
        return []


def isolations(harness: str | None) -> list[str]:
    """The isolations of a harness; None: of all of them."""
    from watchkeeper.compose import Watchkeeper
    from watchkeeper.ports.harness import declared

    found: set[str] = set()
    with suppress(WatchkeeperError, OSError):
        parts = Watchkeeper.open(Path.cwd(), os.environ, writes=False)
        for name in [harness] if harness else parts.harness_names():
            with suppress(HarnessError):
                found |= set(declared(parts.harness(name)).isolations)
    return sorted(found)
