"""The user's own settings, changed one at a time: comments, order and all other settings stay as they are.

What is written is read back before it takes the place of what was there; a file in which anything else would have changed is not written.
"""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, cast

from watchkeeper.errors import SettingsError
from watchkeeper.runtimes import atomic

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_LIMIT = 1024 * 1024


class SettingsFile:
    """The file, which need not be there yet."""

    def __init__(self, path: Path) -> None:
        """Where it is; where that is a symlink, what it points to is written."""
        self.path = Path(os.path.realpath(path))

    def set(self, key: str, value: object) -> None:
        """Set one. Raises SettingsError; then the file is as it was."""
        import tomlkit  # noqa: PLC0415 - only who writes settings needs it

        text = self._read()
        document = tomlkit.parse(text)
        table = cast("MutableMapping[str, object]", document)
        *above, name = key.split(".")
        for part in above:
            if part not in table:
                table[part] = tomlkit.table(is_super_table=part != above[-1])
            table = cast("MutableMapping[str, object]", table[part])
        table[name] = value
        self._write(text, document.as_string(), key, value)

    def unset(self, key: str) -> bool:
        """Take one out; False if it is not set there. Raises SettingsError; then the file is as it was."""
        import tomlkit  # noqa: PLC0415 - as above

        text = self._read()
        document = tomlkit.parse(text)
        table = cast("MutableMapping[str, object]", document)
        *above, name = key.split(".")
        for part in above:
            if part not in table:
                return False
            table = cast("MutableMapping[str, object]", table[part])
        if name not in table:
            return False
        del table[name]
        self._write(text, document.as_string(), key, None)
        return True

    def _read(self) -> str:
        try:
            with atomic.directory(self.path.parent) as fd:
                raw = atomic.read_limited(fd, self.path.name, _LIMIT)
            text = raw.decode("utf-8")
            _ = tomllib.loads(text)
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"The settings in {self.path} cannot be changed: {error}.", hint="Mend the file."
            ) from error
        return text

    def _write(self, before: str, after: str, key: str, value: object) -> None:
        if _flat(tomllib.loads(before)) | {key: value} != _flat(tomllib.loads(after)) | {key: value} or (
            _flat(tomllib.loads(after)).get(key) != value
        ):
            raise SettingsError(
                f"'{key}' cannot be changed in {self.path} as the file is written.", hint="Change it by hand."
            )
        try:
            atomic.make_directory(self.path.parent)
            mode = self._mode()
            with atomic.directory(self.path.parent) as fd:
                atomic.replace(fd, self.path.name, after.encode("utf-8"), point="settings")
            if mode is not None:
                self.path.chmod(mode)
        except OSError as error:
            detail = error.strerror or os.strerror(error.errno or errno.EIO)
            raise SettingsError(f"The settings in {self.path} cannot be written: {detail}.") from error

    def _mode(self) -> int | None:
        """The rights of the file that is there; a new one is the user's alone."""
        try:
            return stat.S_IMODE(self.path.stat().st_mode)
        except FileNotFoundError:
            return None


def _flat(table: dict[str, object], above: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(cast("dict[str, object]", value), f"{above}{name}.")
        else:
            flat[f"{above}{name}"] = value
    return flat
