"""The URL of a database: what may be one, and how it is shown.

A password that was typed as it is, with an @, /, ? or # in it, is read by drivers as a name of a host or a database, and those are shown. So a URL in which
that could have happened is refused before it is parsed, and is never shown.
"""

import re

SECRET_PARAMETERS = ("password", "sslpassword", "oauth_client_secret")
"""The parameters of a URL of PostgreSQL that hold a secret."""

_PART = r"(?:[^:/?#@%\s]|%[0-9A-Fa-f]{2})*"
_PARTS = r"(?:[^/?#@%\s]|%[0-9A-Fa-f]{2})*"
_PATH = r"(?:[^?#@%\s]|%[0-9A-Fa-f]{2})*"
_PAIR = r"[a-z_]+=(?:[^&#@%\s]|%[0-9A-Fa-f]{2})*"
# Texts, not compiled: every command imports this module, and few read a URL. `re` keeps what it compiled.
_URL = rf"postgres(?:ql)?://(?:{_PART}(?::{_PARTS})?@)?{_PARTS}(?:/{_PATH})?(?:\?(?:{_PAIR}(?:&{_PAIR})*)?)?"
_USER_AND_REST = r"(?s)(?<=://)([^/?#@:]*):.*@"
_SECRETS = rf"([?&](?:{'|'.join(SECRET_PARAMETERS)})=)[^&#]*"


def read_store(written: object) -> str | None:
    """The URL that was written; None for SQLite in the state directory. Raises ValueError with what it must be."""
    if written == "sqlite":
        return None
    if not isinstance(written, str) or not written.startswith(("postgresql://", "postgres://")):
        raise ValueError("`sqlite` or a URL such as postgresql://user@host/database")
    if re.fullmatch(_URL, written) is None:
        raise ValueError(
            "a URL such as postgresql://user@host/database; in it @ is %40, / is %2F, ? is %3F, # is %23, % is %25"
        )
    return written


def masked(value: object) -> object:
    """A value as it may be shown: the password in a URL is not."""
    if not isinstance(value, str) or "://" not in value:
        return value
    return re.sub(_SECRETS, r"\1***", re.sub(_USER_AND_REST, r"\1:***@", value))


def mistyped(value: object) -> str:
    """A text that is not a database URL, in a form that may be shown: the place of the password in it is unknown."""
    text = repr(value)
    return "something that is not shown, because a password may be in it" if ":" in text or "@" in text else text
