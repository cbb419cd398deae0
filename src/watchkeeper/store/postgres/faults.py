"""What a server's errors mean, each one sentence and what to do next. No password is in any of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg

from watchkeeper.errors import DatabaseBusy, DatabaseCorrupt, DatabaseFull, DatabaseUnusable, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.store.postgres.address import Address

_READ_ONLY = "25006"
_WAITED_TOO_LONG = "55P03"
_GOES_DOWN = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})
_TOO_MANY = frozenset({"53300", "53400"})
_SERIALIZATION_FAILED = frozenset({"40001", "40P01"})
_AUTHENTICATION_FAILED = frozenset({"28000", "28P01"})
_NOT_LAID_OUT = frozenset({"42P01", "42703", "42883", "42704", "42P02", "42804", "3F000"})
_PLAN_IS_OLD = frozenset({"0A000", "26000"})
_DAMAGED = frozenset({"XX001", "XX002"})

_BEFORE_SIGN_IN = (
    (r"password authentication failed for user ", "28P01"),
    (r"no pg_hba\.conf entry for |pg_hba\.conf rejects ", "28000"),
    (r"\S+ authentication failed for user ", "28000"),
    (r"role \".*\" (does not exist|is not permitted to log in)", "28000"),
    (r"database \".*\" does not exist|no such database", "3D000"),
    (r"permission denied for database ", "42501"),
    (
        r"sorry, too many clients|too many connections for |remaining connection slots |no more connections allowed",
        "53300",
    ),
    (r"the database system is |database \".*\" is not currently accepting connections", "57P03"),
)
"""What the server says before the sign-in, where the driver gives no SQLSTATE: how the sentence begins, and its code."""

_ASKED_FOR_ONE = "fe_sendauth: no password supplied"
"""What the driver itself says where the server asks for a password."""


def describe(error: psycopg.Error) -> str:
    """The server's sentence without its details, or the driver's."""
    return error.diag.message_primary or str(error)


def spoils(error: psycopg.Error, *, writing: bool) -> bool:
    """Whether a connection on which this was said is better given up. One that cannot write is, if it was to write."""
    code = error.sqlstate or ""
    if code == _READ_ONLY:
        return writing
    return code in _GOES_DOWN | _PLAN_IS_OLD | _DAMAGED or code[:2] in {"08", "58", "XX"}


def not_connected(error: psycopg.Error, address: Address) -> WatchkeeperError:
    """Why the server refuses the connection."""
    text = address.scrub(describe(error))
    known = error.sqlstate or _code_before_sign_in(text)
    if known is not None:
        return _by_code(known, text, address)
    return DatabaseUnusable(
        f"The database server of {address} cannot be reached{_briefly(text)}.",
        hint="Nothing was changed. Look whether the server runs and whether host and port in the URL are right.",
    )


def _code_before_sign_in(text: str) -> str | None:
    """The code of an error that came without one. The driver puts the host and the port before the server's sentence, so only what follows `FATAL:` counts."""
    for sentence in re.findall(r"\bFATAL ?:\s*(.*)", text):
        for begins, code in _BEFORE_SIGN_IN:
            if re.match(begins, sentence):
                return code
    return "28P01" if re.search(rf"^(.*: )?{_ASKED_FOR_ONE}$", text, re.MULTILINE) else None


def unknown(name: str, address: Address, error: psycopg.Error) -> DatabaseUnusable:
    """The connection ended in the middle of a commit."""
    return DatabaseUnusable(
        f"The database server of {address} did not confirm: "
        f"it is not known whether '{name}' was stored{_briefly(address.scrub(describe(error)))}.",
        hint="Asking again is safe: what is stored already is not done twice.",
    )


def pooled(address: Address) -> DatabaseUnusable:
    """Each of our transactions gets another process of the server, so that nothing that is set on a connection lasts, nor a wish to be told."""
    return DatabaseUnusable(
        f"The database {address} is reached through a pooler that does not keep a connection's session (PgBouncer with pool_mode=transaction or statement).",
        hint="Nothing was changed. Set pool_mode=session for this database in the pooler, or put the server's own address into `store.url`.",
    )


def translate(error: psycopg.Error, address: Address, *, writing: bool = True) -> WatchkeeperError:
    """Our error for one of the server's, or of the driver's, before anything was stored."""
    text = address.scrub(describe(error))
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        how = "does not answer" if isinstance(error, psycopg.errors.ConnectionTimeout) else "ended the connection"
        return DatabaseUnusable(
            f"The database server of {address} {how}{_briefly(text)}.",
            hint="Nothing was changed; try again when the server is back.",
        )
    if error.sqlstate == _READ_ONLY and not writing:
        return WatchkeeperError("A transaction that reads tried to write: nothing was written.")
    return _by_code(error.sqlstate or "", text, address)


def _by_code(code: str, text: str, address: Address) -> WatchkeeperError:
    if "statement pooling mode" in text:
        return pooled(address)
    if code[:2] in {"22", "23"} or code == "P0001":
        return WatchkeeperError(f"The database refused an impossible record ({text}): nothing was written.")
    return _by_place(code, text, address) or _by_state(code, text, address)


def _by_place(code: str, text: str, address: Address) -> WatchkeeperError | None:
    """What is wrong with the URL, the rights or the layout."""
    if code in _AUTHENTICATION_FAILED:
        return DatabaseUnusable(
            f"The database server of {address} does not let '{address.user}' in ({text}).",
            hint="Look at user and password: in the URL, in PGPASSWORD or in ~/.pgpass.",
        )
    if code == "3D000":
        return DatabaseUnusable(
            f"There is no database {address} on that server.", hint=f"`createdb {address.database}` makes it."
        )
    if code == "42501":
        return DatabaseUnusable(
            f"'{address.user}' may not do this in the database {address} ({text}).",
            hint="Its owner can help: CREATE SCHEMA watchkeeper AUTHORIZATION ... gives all that is needed.",
        )
    if code in _DAMAGED:
        return DatabaseCorrupt(
            f"The database {address} is damaged ({text}).", hint="Nothing was changed. Restore a backup."
        )
    if code in _NOT_LAID_OUT:
        return DatabaseCorrupt(
            f"The database {address} is not laid out as it should be ({text}).",
            hint="Nothing was changed. Restore a backup of it.",
        )
    return None


def _by_state(code: str, text: str, address: Address) -> WatchkeeperError:
    """How the server is at the moment."""
    again = "Nothing was changed; try again."
    if code == _READ_ONLY:
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
        return DatabaseBusy(f"The database server of {address} has too many connections ({text}).", hint=again)
    if code in _SERIALIZATION_FAILED or code == _WAITED_TOO_LONG:
        return DatabaseBusy(f"The database {address} is held by another process for too long ({text}).", hint=again)
    if code == "57014":
        return DatabaseBusy(f"The database {address} took too long ({text}).", hint=again)
    if code in _GOES_DOWN:
        return DatabaseUnusable(f"The database server of {address} ended the connection ({text}).", hint=again)
    return DatabaseUnusable(f"The database {address} cannot be used ({text}).", hint=again)


def _briefly(text: str) -> str:
    """The driver's words in one line, without a full stop, in brackets."""
    line = " ".join(text.split()).rstrip(". ")
    return f" ({line[:300]})" if line else ""
