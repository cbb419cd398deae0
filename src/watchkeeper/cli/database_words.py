"""What is said of a database, by `wk store check` and `wk doctor` alike."""

from typing import TYPE_CHECKING

from watchkeeper.cli import render

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.databases import StoreFacts

_OFF_BY_S = 2.0
"""A clock that is off by less is not worth a word."""


def headline(found: "StoreFacts") -> str:
    """Which one it is."""
    name = "PostgreSQL" if found.kind == "postgresql" else "SQLite"
    return f"{name} {render.clean(found.version)}, {render.clean(found.where)}, {render.size(found.size)}"


def remarks(found: "StoreFacts") -> list[str]:
    """Notes that do not mean damage of what is stored."""
    said: list[str] = []
    if found.skew_s is not None and abs(found.skew_s) >= _OFF_BY_S:
        which = "ahead of" if found.skew_s > 0 else "behind"
        off = render.duration(abs(found.skew_s))
        said.append(f"This machine's clock is {off} {which} the database's; records hold the database's time.")
    said += [
        f"A transaction of {render.clean(each.application or each.user or 'somebody')} (server process {each.process}) is open for "
        f"{render.duration(each.open_s)}: until it ends the server cannot clear away what is outdated, and gets slower."
        for each in found.long_transactions
    ]
    return said


def server(call: "Call") -> "StoreFacts | None":
    """The facts of the database if a server keeps it. Raises DatabaseUnusable and its kinds."""
    from watchkeeper.app.views.database import facts
    from watchkeeper.compose.databases import location

    store, parts = call.reading.store, call.reading
    if not store.is_shared:
        return None
    there = location(parts.settings.store_url, parts.state, host=parts.host_name)
    return facts(store, there.detail, parts.system_clock, thorough=False)
