"""The records of salvages, each in a directory of its own: `record.json`, `modes.json`, and `files.tar` with what git does not keep."""

import fcntl
import json
import os
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import cast

from watchkeeper.crash import crashpoint
from watchkeeper.domain.salvage import Salvage, SalvageState
from watchkeeper.workspaces.git_program import GitUnknown
from watchkeeper.workspaces.worktrees import tree_of

RECORD = "record.json"
MODES = "modes.json"
ARCHIVE = "files.tar"
_LOCK = ".lock"
_MOST = 1024 * 1024


class Records:
    """Reads and writes them."""

    def __init__(self, root: Path) -> None:
        """`root`: the directory of all salvages. It is made when the first one is."""
        self._root = root

    def directory(self, salvage: Salvage) -> Path:
        """Where it is kept."""
        return self._root / salvage.id

    @contextmanager
    def alone(self) -> Generator[None]:
        """Let no second process remove or bring back meanwhile. Raises GitUnknown, OSError."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self._root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise GitUnknown("Another command removes a worktree or brings one back just now.") from error
            yield
        finally:
            os.close(fd)

    def begin(self, task_id: str) -> str:
        """Make the directory of a new salvage; returns its id. Raises OSError."""
        number = 1
        while True:
            name = f"{task_id}-{number}"
            try:
                (self._root / name).mkdir(mode=0o700)
            except FileExistsError:
                number += 1
            else:
                return name

    def write(self, salvage: Salvage) -> None:
        """Write its record durably, replacing an earlier one. Raises OSError."""
        tree = {**asdict(salvage.tree), "made": None}
        data = {**asdict(salvage), "tree": tree, "at": salvage.at.isoformat()}
        write_json(self.directory(salvage), RECORD, data)

    def all(self) -> list[Salvage]:
        """Every one that can be read, the oldest first."""
        found: list[Salvage] = []
        with suppress(OSError):
            for path in self._root.iterdir():
                with suppress(OSError, ValueError, KeyError, TypeError):
                    found.append(_salvage(read_json(path / RECORD, _MOST)))
        return sorted(found, key=lambda each: each.at)

    def drop(self, salvage: Salvage) -> None:
        """Delete it; its record last, so that a deletion that was cut off can be done again. Raises OSError."""
        directory = self.directory(salvage)
        for name in (ARCHIVE, MODES, RECORD):
            (directory / name).unlink(missing_ok=True)
        if directory.is_dir():
            shutil.rmtree(directory)


def write_json(directory: Path, name: str, data: Mapping[str, object]) -> None:
    """Write a file durably: a reader sees all of it or none. Raises OSError."""
    new = directory / f"{name}.new"
    crashpoint("salvage.record.before")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="ascii") as out:
        json.dump(data, out)
        out.flush()
        os.fsync(out.fileno())
    new.replace(directory / name)
    sync(directory)
    crashpoint("salvage.record.after")


def read_json(path: Path, most: int) -> dict[str, object]:
    """Raises OSError, ValueError."""
    with path.open("rb") as file:
        text = file.read(most + 1)
    if len(text) > most:
        msg = f"{path} is larger than such a file can be"
        raise ValueError(msg)
    return cast("dict[str, object]", json.loads(text))


def sync(directory: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        crashpoint("salvage.sync.before")
        os.fsync(fd)
    finally:
        os.close(fd)


def _salvage(data: dict[str, object]) -> Salvage:
    data |= {
        "tree": tree_of(data["tree"]),
        "at": datetime.fromisoformat(cast("str", data["at"])),
        "state": SalvageState(cast("str", data["state"])),
        "pushed_by": tuple(cast("list[str]", data["pushed_by"])),
        "left_out": tuple(cast("list[str]", data["left_out"])),
    }
    return Salvage(**data)  # pyright: ignore[reportArgumentType] - the fields of our own record
