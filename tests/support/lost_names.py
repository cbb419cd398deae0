"""What a file system may hold after the power goes: calls that change files and names are recorded, and the tree is rebuilt as it may be at any cut.

Nothing is taken for durable that POSIX does not promise. What was written to a file is there after an fsync of the file. A name (made, renamed, linked or
taken away) is as it was left after an fsync of its directory. Of what happened since, each part may be there or not, in any combination; a write may be there
in part; a rename is there as a whole or not at all.

    recorder = Recorder(monkeypatch, root)         from here on calls below `root` are recorded
    recorder.promise("what was acknowledged", check)
    assert recorder.broken() == []                 each promise holds in each state after it
"""

import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

_MOST_COMBINED = 6
"""So many pending changes are tried in every combination; of more, some combinations by chance."""
_BY_CHANCE = 24


class Died(BaseException):
    """The process was killed: whatever it does from here on does not happen."""


@dataclass(eq=False)
class Node:
    """A file or directory, whatever its names."""

    inode: int
    names: dict[str, "Node"] | None = None
    """What a directory holds at this moment; None for a file."""


@dataclass(frozen=True)
class Event:
    """One change. A sync has no change and makes those of its node durable."""

    node: Node
    offset: int = 0
    data: bytes | None = None
    """What was written to a file."""
    names: tuple[tuple[Node, str, Node | None], ...] = ()
    """Directory, name, and what the name means from now on; None: nothing."""
    syncs: bool = False


Files = dict[str, bytes]
"""The files that are there after the power has gone, by their path below the root."""
Check = Callable[[Files], bool]


@dataclass
class _State:
    """A part of the changes is durable, the rest is pending."""

    durable: list[Event] = field(default_factory=list[Event])
    pending: list[Event] = field(default_factory=list[Event])


class Recorder:
    """Records what is done below a directory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path, *, deaf: str = "") -> None:
        """Take what is there for durable. `deaf`: syncs of a `file` or a `directory` do nothing, so that promises must be seen broken."""
        self.root, self.deaf = root.resolve(), deaf
        self.events: list[Event] = []
        self.promises: list[tuple[int, str, Check]] = []
        self._dies_at: int | None = None
        self._open: dict[int, Node] = {}
        self._tree = self._scan(self.root)
        self._at_first: dict[tuple[Node, str], Node] = {}
        self._content: dict[Node, bytes] = {}
        self._remember(self._tree, self.root)
        self._patch(monkeypatch)

    # For tests

    def promise(self, what: str, check: Check) -> None:
        """From here on this holds, whenever the power goes."""
        self.promises.append((len(self.events), what, check))

    def dies_at(self, change: int) -> None:
        """The process is killed before so many further changes; `revives` brings up the next process."""
        self._dies_at = len(self.events) + change

    def revives(self) -> None:
        """Another process continues."""
        self._dies_at = None
        self._open.clear()

    def broken(self, always: Check = lambda files: True) -> list[str]:
        """The promises that do not hold in some state after them; `always` holds in every state."""
        found: list[str] = []
        for cut, files in self.states():
            if not always(files):
                found.append(f"after {cut} changes: {sorted(files)}")
            found += [
                f"after {cut} changes: {what}" for at, what, check in self.promises if at <= cut and not check(files)
            ]
        return found

    def states(self) -> Iterator[tuple[int, Files]]:
        """For each cut (so many changes happened): every tree that may be there."""
        chance = random.Random(7)
        for cut in range(len(self.events) + 1):
            state = _split(self.events[:cut])
            for chosen in _chosen(state.pending, chance):
                yield cut, self._rebuilt(state.durable, chosen)

    # How a tree is rebuilt

    def _rebuilt(self, durable: list[Event], chosen: list[Event]) -> Files:
        kept = set(map(id, durable)) | set(map(id, chosen))
        cut_short = {id(event) for event in chosen if event.data is not None and len(chosen) % 2}
        names: dict[tuple[Node, str], Node | None] = {}
        content = {node: bytearray(data) for node, data in self._content.items()}
        for event in self.events:
            if id(event) not in kept:
                continue
            names.update({(directory, name): node for directory, name, node in event.names})
            if event.data is not None:
                data = event.data[: len(event.data) // 2] if id(event) in cut_short else event.data
                held = content.setdefault(event.node, bytearray())
                held.extend(bytes(max(0, event.offset - len(held))))
                held[event.offset : event.offset + len(data)] = data
        return dict(self._walk(self._tree, "", names, content, set()))

    def _walk(
        self,
        node: Node,
        path: str,
        names: dict[tuple[Node, str], Node | None],
        content: dict[Node, bytearray],
        seen: set[Node],
    ) -> Iterator[tuple[str, bytes]]:
        first = {name: found for (of, name), found in self._at_first.items() if of is node}
        now = {name: found for (of, name), found in names.items() if of is node}
        for name, found in sorted((first | now).items()):
            if found is None or found in seen:
                continue
            where = f"{path}{name}"
            if found.names is None:
                yield where, bytes(content.get(found, b""))
            else:
                yield f"{where}/", b""
                yield from self._walk(found, f"{where}/", names, content, seen | {node})

    # What is recorded

    def _scan(self, path: Path) -> Node:
        if path.is_dir() and not path.is_symlink():
            return Node(path.stat().st_ino, {each.name: self._scan(each) for each in path.iterdir()})
        return Node(path.lstat().st_ino)

    def _remember(self, node: Node, path: Path) -> None:
        for name, found in (node.names or {}).items():
            self._at_first[node, name] = found
            if found.names is None:
                self._content[found] = (path / name).read_bytes() if (path / name).is_file() else b""
            else:
                self._remember(found, path / name)

    def _patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("open", "write", "fsync", "rename", "replace", "link", "unlink", "mkdir", "rmdir"):
            real = getattr(os, name)
            note = getattr(self, f"_note_{'rename' if name == 'replace' else name}")
            monkeypatch.setattr(os, name, partial(note, real))

    def _place(self, path: Any, dir_fd: int | None) -> tuple[Node, str] | None:
        """The directory and the name, if that is below the root."""
        text = os.fspath(path)
        text = os.fsdecode(text)
        base = Path(f"/proc/self/fd/{dir_fd}").readlink() if dir_fd is not None else Path.cwd()
        try:
            parts = Path(os.path.normpath(base / text)).relative_to(self.root).parts
        except ValueError:
            return None
        node = self._tree
        for name in parts[:-1]:
            node = (node.names or {})[name]
        return (node, parts[-1]) if parts else None

    def _add(self, event: Event) -> None:
        self.events.append(event)
        for directory, name, node in event.names:
            assert directory.names is not None
            if node is None:
                _ = directory.names.pop(name, None)
            else:
                directory.names[name] = node

    def _before(self) -> None:
        if self._dies_at is not None and len(self.events) >= self._dies_at:
            raise Died

    def _mine(self, fd: int) -> Node | None:
        node = self._open.get(fd)
        return node if node is not None and os.fstat(fd).st_ino == node.inode else None

    def _opened(self, place: tuple[Node, str] | None, fd: int) -> None:
        if place is None:
            if Path(f"/proc/self/fd/{fd}").readlink() == self.root:
                self._open[fd] = self._tree
            else:
                _ = self._open.pop(fd, None)
            return
        directory, name = place
        node = (directory.names or {}).get(name)
        if node is None:
            node = Node(os.fstat(fd).st_ino)
            self._add(Event(node, names=((directory, name, node),)))
        self._open[fd] = node

    def _note_open(
        self, real: Callable[..., int], path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        place = self._place(path, dir_fd)
        if place is not None and flags & os.O_CREAT:
            self._before()
        fd = real(path, flags, mode, dir_fd=dir_fd)
        self._opened(place, fd)
        return fd

    def _note_write(self, real: Callable[..., int], fd: int, data: Any) -> int:
        node = self._mine(fd)
        if node is None:
            return real(fd, data)
        self._before()
        offset = os.lseek(fd, 0, os.SEEK_CUR)
        written = real(fd, data)
        self._add(Event(node, offset=offset, data=bytes(data)[:written]))
        return written

    def _note_fsync(self, real: Callable[[int], None], fd: int) -> None:
        node = self._mine(fd)
        if node is None:
            real(fd)
            return
        self._before()
        if self.deaf != ("file" if node.names is None else "directory"):
            self._add(Event(node, syncs=True))

    def _note_rename(
        self,
        real: Callable[..., None],
        source: Any,
        target: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        old, new = self._place(source, src_dir_fd), self._place(target, dst_dir_fd)
        self._before()
        real(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        if old is not None and new is not None:
            node = (old[0].names or {})[old[1]]
            self._add(Event(node, names=((*old, None), (*new, node))))

    def _note_link(self, real: Callable[..., None], source: Any, target: Any, **given: Any) -> None:
        old, new = self._place(source, given.get("src_dir_fd")), self._place(target, given.get("dst_dir_fd"))
        self._before()
        real(source, target, **given)
        if old is not None and new is not None:
            node = (old[0].names or {})[old[1]]
            self._add(Event(node, names=((*new, node),)))

    def _note_unlink(self, real: Callable[..., None], path: Any, *, dir_fd: int | None = None) -> None:
        place = self._place(path, dir_fd)
        self._before()
        real(path, dir_fd=dir_fd)
        if place is not None:
            self._add(Event((place[0].names or {})[place[1]], names=((*place, None),)))

    def _note_rmdir(self, real: Callable[..., None], path: Any, *, dir_fd: int | None = None) -> None:
        self._note_unlink(real, path, dir_fd=dir_fd)

    def _note_mkdir(
        self, real: Callable[..., None], path: Any, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> None:
        place = self._place(path, dir_fd)
        self._before()
        real(path, mode, dir_fd=dir_fd)
        if place is not None:
            node = Node(os.stat(path, dir_fd=dir_fd).st_ino, {})
            self._add(Event(node, names=((*place, node),)))


def _split(events: list[Event]) -> _State:
    """Which changes are durable: a write if its file was synced since, a change of names if each of its directories was."""
    state = _State()
    last = {event.node: at for at, event in enumerate(events) if event.syncs}
    for at, event in enumerate(events):
        if event.syncs:
            continue
        of = [event.node] if event.data is not None else [directory for directory, _, _ in event.names]
        durable = all(last.get(node, -1) > at for node in of)
        (state.durable if durable else state.pending).append(event)
    return state


def _chosen(pending: list[Event], chance: random.Random) -> Iterator[list[Event]]:
    """Some of the changes that are not durable: every combination of a few, and of many none, all, and some by chance."""
    if len(pending) <= _MOST_COMBINED:
        for many in range(len(pending) + 1):
            yield from map(list, itertools.combinations(pending, many))
        return
    yield []
    yield pending
    for _ in range(_BY_CHANCE):
        yield [event for event in pending if chance.random() < 0.5]
