"""What a server's errors mean, each one sentence and what to do next. No password is in any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchkeeper.errors import DatabaseBusy, DatabaseCorrupt, DatabaseFull, DatabaseUnusable, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.store.postgres.address import Address
    from watchkeeper.store.postgres.wire import Lost, Refused

TAKEN, MISSING = "23505", "23503"
"""A unique key, a foreign key."""
WAITED_TOO_LONG = "55P03"
NO_SUCH_TABLE = "42P01"
NOT_PREPARED = "26000"
SPOILT_ALREADY = "25P02"
"""Something was refused earlier in the transaction."""

READ_ONLY = "25006"
_GOES_DOWN = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})
_TOO_MANY = frozenset({"53300", "53400"})
_IN_EACH_OTHERS_WAY = frozenset({"40001", "40P01"})
_WHO = frozenset({"28000", "28P01"})
_NOT_LAID_OUT = frozenset({NO_SUCH_TABLE, "42703", "42883", "42704", "42P02", "42804", "3F000"})
_PLAN_IS_OLD = frozenset({"0A000", NOT_PREPARED})
_DAMAGED = frozenset({"XX001", "XX002"})

_AT_THE_DOOR = (
    ("password authentication failed", "28P01"),
    ("no password supplied", "28P01"),
    ("no pg_hba.conf entry", "28000"),
    ("authentication failed", "28000"),
    ("permission denied for database", "42501"),
    ("too many clients", "53300"),
    ("too many connections", "53300"),
    ("connection slots", "53300"),
    ("starting up", "57P03"),
    ("shutting down", "57P03"),
    ("recovery", "57P03"),
    ("not accepting", "57P03"),
)
"""What a server says before it lets anybody in comes without its code."""


def spoils(sqlstate: str) -> bool:
    """Whether a connection on which this was said is better given up."""
    return sqlstate in _GOES_DOWN | _PLAN_IS_OLD | _DAMAGED | {READ_ONLY} or sqlstate[:2] in {"08", "58", "XX"}


def not_connected(lost: Lost, address: Address) -> WatchkeeperError:
    """Why nobody lets us in."""
    says = address.scrub(str(lost))
    known = next((sqlstate for words, sqlstate in _AT_THE_DOOR if words in says), None)
    if known is None and 'role "' in says and "does not exist" in says:
        known = "28000"
    if known is None and 'database "' in says and "does not exist" in says:
        known = "3D000"
    if known is not None:
        return _by_code(known, says, address)
    return DatabaseUnusable(
        f"The database server of {address} cannot be reached{_briefly(says)}.",
        hint="Nothing was changed. Look whether the server runs and whether host and port in the URL are right.",
    )


def lost(gone: Lost, address: Address) -> DatabaseUnusable:
    """The connection ended before anything was stored."""
    how = "does not answer" if gone.silent else "ended the connection"
    return DatabaseUnusable(
        f"The database server of {address} {how}{_briefly(address.scrub(str(gone)))}.",
        hint="Nothing was changed; try again when the server is back.",
    )


def unknown(name: str, address: Address, says: str) -> DatabaseUnusable:
    """The connection ended in the middle of a commit."""
    return DatabaseUnusable(
        f"The database server of {address} did not confirm: "
        f"it is not known whether '{name}' was stored{_briefly(address.scrub(says))}.",
        hint="Asking again is safe: what is stored already is not done twice.",
    )


def pooled(address: Address) -> DatabaseUnusable:
    """Each of our transactions gets another process of the server, so that nothing that is set on a connection lasts, nor a wish to be told."""
    return DatabaseUnusable(
        f"The database {address} is reached through a pooler that does not keep a connection's session (PgBouncer with pool_mode=transaction or statement).",
        hint="Nothing was changed. Set pool_mode=session for this database in the pooler, or put the server's own address into `store.url`.",
    )


def translate(refused: Refused, address: Address, *, writing: bool = True) -> WatchkeeperError:
    """Our error for one of the server's."""
    if refused.sqlstate == READ_ONLY and not writing:
        return WatchkeeperError("A transaction that reads tried to write: nothing was written.")
    return _by_code(refused.sqlstate, address.scrub(str(refused)), address)


def _by_code(code: str, says: str, address: Address) -> WatchkeeperError:
    if "statement pooling mode" in says:
        return pooled(address)
    if code[:2] in {"22", "23"} or code == "P0001":
        return WatchkeeperError(f"The database refused an impossible record ({says}): nothing was written.")
    return _by_place(code, says, address) or _by_state(code, says, address)


def _by_place(code: str, says: str, address: Address) -> WatchkeeperError | None:
    """What is wrong with the URL, the rights or the layout."""
    if code in _WHO:
        return DatabaseUnusable(
            f"The database server of {address} does not let '{address.user}' in ({says}).",
            hint="Look at user and password: in the URL, in PGPASSWORD or in ~/.pgpass.",
        )
    if code == "3D000":
        return DatabaseUnusable(
            f"There is no database {address} on that server.", hint=f"`createdb {address.database}` makes it."
        )
    if code == "42501":
        return DatabaseUnusable(
            f"'{address.user}' may not do this in the database {address} ({says}).",
            hint="Its owner can help: CREATE SCHEMA watchkeeper AUTHORIZATION ... gives all that is needed.",
        )
    if code in _DAMAGED:
        return DatabaseCorrupt(
            f"The database {address} is damaged ({says}).", hint="Nothing was changed. Restore a backup."
        )
    if code in _NOT_LAID_OUT:
        return DatabaseCorrupt(
            f"The database {address} is not laid out as it should be ({says}).",
            hint="Nothing was changed. Restore a backup of it.",
        )
    return None


def _by_state(code: str, says: str, address: Address) -> WatchkeeperError:
    """How the server is at the moment."""
    again = "Nothing was changed; try again."
    if code == READ_ONLY:
        return DatabaseUnusable(
            f"The database {address} cannot be written: it is read-only.",
            hint="Nothing was changed. It may be a standby, or its disk is full; the next try connects anew.",
        )
    if code == "53100":
        return DatabaseFull(
            f"The disk of the database {address} is full: nothing was changed.",
            hint="Free some space on the server, then do it again.",
        )
    if code in _TOO_MANY:
        return DatabaseBusy(f"The database server of {address} has too many connections ({says}).", hint=again)
    if code in _IN_EACH_OTHERS_WAY or code == WAITED_TOO_LONG:
        return DatabaseBusy(f"The database {address} is held by somebody else for too long ({says}).", hint=again)
    if code == "57014":
        return DatabaseBusy(f"The database {address} took too long ({says}).", hint=again)
    if code in _GOES_DOWN:
        return DatabaseUnusable(f"The database server of {address} ended the connection ({says}).", hint=again)
    return DatabaseUnusable(f"The database {address} cannot be used ({says}).", hint=again)


def _briefly(says: str) -> str:
    """The driver's words in one line, without a full stop, in brackets."""
    line = " ".join(says.split()).rstrip(". ")
    return f" ({line[:300]})" if line else ""
