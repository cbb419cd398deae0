"""What a disk may hold after the power goes: SQLite's writes are recorded, and files rebuilt as they may be at any cut.

A write that was synced is there. Of those since the last sync of a file each one may be there, not there, or there in part (sectors of 512 bytes), in any
combination. Names of files are taken for durable: they are made once, before the recording begins.
"""

import random
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import apsw

SECTOR = 512


@dataclass(frozen=True)
class Event:
    """One call of SQLite to the system."""

    file: str
    kind: str
    """`write`, `truncate` or `sync`."""
    offset: int = 0
    data: bytes = b""


class _File(apsw.VFSFile):
    """Passes everything on and takes notes of what changes the file."""

    def __init__(self, vfs: "Recorder", base: str, name, flags) -> None:
        super().__init__(base, name, flags)
        self.events = vfs.events
        self.name = Path(name.filename() if isinstance(name, apsw.URIFilename) else name).name

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        super().xWrite(data, offset)
        self.events.append(Event(self.name, "write", offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        super().xTruncate(newsize)
        self.events.append(Event(self.name, "truncate", newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        super().xSync(flags)
        self.events.append(Event(self.name, "sync"))


class Recorder(apsw.VFS):
    """Another way for SQLite to reach files, which remembers what was done to them."""

    def __init__(self, name: str) -> None:
        self.events: list[Event] = []
        self.base = ""
        super().__init__(name, self.base)

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        return _File(self, self.base, name, flags)


@dataclass
class _Disk:
    """One file: what is surely there, and what may be."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[Event] = field(default_factory=list)


def _apply(content: bytearray, event: Event) -> None:
    if event.kind == "truncate":
        del content[event.offset :]
        content.extend(bytes(event.offset - len(content)))
        return
    end = event.offset + len(event.data)
    content.extend(bytes(max(0, end - len(content))))
    content[event.offset : end] = event.data


def _torn(pending: list[Event], rng: random.Random) -> list[Event]:
    """Some of the writes, some of them in part."""
    kept: list[Event] = []
    for event in pending:
        fate = rng.random()
        if fate < 0.4:
            kept.append(event)
        elif fate < 0.7 and event.kind == "write":
            kept.extend(
                Event(event.file, "write", event.offset + start, event.data[start : start + SECTOR])
                for start in range(0, len(event.data), SECTOR)
                if rng.random() < 0.5
            )
    return kept


def states(
    events: list[Event], cuts: Container[int], rng: random.Random, torn: int
) -> Iterator[tuple[int, dict[str, bytes]]]:
    """For each cut (so many events happened): the files with none, all, and `torn` times some of what was not synced."""
    disks: dict[str, _Disk] = {}
    for done, event in enumerate([*events, None]):
        if done in cuts:
            for choose in (lambda _: [], list, *[lambda pending: _torn(pending, rng)] * torn):
                files: dict[str, bytes] = {}
                for name, disk in disks.items():
                    content = bytearray(disk.synced)
                    for one in choose(disk.pending):
                        _apply(content, one)
                    files[name] = bytes(content)
                yield done, files
        if event is None:
            return
        disk = disks.setdefault(event.file, _Disk())
        if event.kind == "sync":
            for one in disk.pending:
                _apply(disk.synced, one)
            disk.pending.clear()
        else:
            disk.pending.append(event)
