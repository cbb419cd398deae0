"""Captured environments in files that only their owner reads (R17)."""

import contextlib
import errno
import os
from collections.abc import Mapping
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.errors import Refused
from watchkeeper.runtimes import atomic

_SUFFIX = ".json"
_LIMIT = 16 * 1024 * 1024
_ALPHABET = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


class FileEnvironments:
    """One file per environment, 0600, in a directory 0700 that is made when it is first needed."""

    def __init__(self, root: Path) -> None:
        """Keep them under `root`."""
        self._root = root

    def keep(self, environment_id: str, environment: Mapping[str, str]) -> None:
        """Write it durably, replacing an earlier one. Raises OSError."""
        self._root.mkdir(mode=atomic.DIRECTORY_MODE, exist_ok=True)
        with atomic.directory(self._root) as fd:
            atomic.replace(fd, _file(environment_id), atomic.encode(dict(environment)), point="environments.keep")

    def get(self, environment_id: str) -> Mapping[str, str] | None:
        """What was kept, or None if it is gone. Raises OSError if it cannot be read, EBADMSG if it is not what was kept."""
        from watchkeeper.runtimes import records  # noqa: PLC0415 - who hands a task over reads none

        name = _file(environment_id)
        try:
            with atomic.directory(self._root) as fd:
                record = records.load(atomic.read_limited(fd, name, _LIMIT))
        except FileNotFoundError:
            return None
        except records.BadRecord as error:
            raise OSError(errno.EBADMSG, "a kept environment is damaged", str(self._root / name)) from error
        environment = {key: value for key, value in record.items() if isinstance(value, str)}
        if len(environment) != len(record):
            raise OSError(errno.EBADMSG, "a kept environment is damaged", str(self._root / name))
        return environment

    def forget(self, environment_id: str) -> None:
        """Delete it, with whatever a crash left half-written of it; gone already is fine. Raises OSError."""
        whole = _file(environment_id)
        with contextlib.suppress(FileNotFoundError), atomic.directory(self._root) as fd:
            for name in os.listdir(fd):  # noqa: PTH208 - names are what is wanted
                if name == whole or name.startswith(f"{whole}."):
                    crashpoint("environments.forget.before")
                    os.unlink(name, dir_fd=fd)
                    crashpoint("environments.forget.after")
            os.fsync(fd)

    def ids(self) -> list[str]:
        """What is kept, whole or half-written: all of it contains secrets and must be deleted eventually. Raises OSError."""
        try:
            names = os.listdir(self._root)  # noqa: PTH208 - names are what is wanted
        except FileNotFoundError:
            return []
        return sorted({name.partition(_SUFFIX)[0] for name in names if _SUFFIX in name})


def _file(environment_id: str) -> str:
    """The file's name. Raises Refused for an id that could point elsewhere."""
    if not environment_id or not _ALPHABET.issuperset(environment_id):
        msg = f"'{environment_id}' cannot be the id of an environment."
        raise Refused(msg, hint="This is a bug: please report it.")
    return f"{environment_id}{_SUFFIX}"
