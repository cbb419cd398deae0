"""Where a database is, and how that is said without saying the password."""

from __future__ import annotations

import contextlib
from urllib.parse import quote, unquote

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from watchkeeper.domain.store_url import SECRET_PARAMETERS
from watchkeeper.errors import SettingsError

_HIDDEN = "***"


class Address:
    """A PostgreSQL URL, taken apart."""

    def __init__(self, url: str) -> None:
        """Understand `url`.

        Raises:
            SettingsError: it is not a database URL. The message does not repeat it: there may be a password in it.
        """
        self.parameters: dict[str, str] = {}
        with contextlib.suppress(ProgrammingError):
            self.parameters = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
        if not self.parameters or not url.startswith(("postgres://", "postgresql://")):
            raise SettingsError(
                "The URL of the database is not one of PostgreSQL.",
                hint="It looks like postgresql://user@host:5432/name; the password is best kept in ~/.pgpass.",
            )
        self._url = url

    def __str__(self) -> str:
        """What people may read: database and host, nothing secret."""
        database = self.parameters.get("dbname") or self.parameters.get("user") or "postgres"
        host = self.parameters.get("host") or self.parameters.get("hostaddr") or "this machine"
        port = self.parameters.get("port")
        return f"'{database}' on {host}" + (f":{port}" if port else "")

    @property
    def user(self) -> str:
        """Who signs in, as far as the URL says."""
        return self.parameters.get("user", "")

    @property
    def database(self) -> str:
        """The name of the database, as far as the URL says."""
        return self.parameters.get("dbname", "")

    def scrub(self, text: str) -> str:
        """A foreign text without our secrets, however they are written in it."""
        hidden = text.replace(self._url, str(self))
        for name in SECRET_PARAMETERS:
            secret = self.parameters.get(name)
            if secret:
                for form in {secret, quote(secret, safe=""), quote(secret), unquote(secret)}:
                    hidden = hidden.replace(form, _HIDDEN)
        return hidden
