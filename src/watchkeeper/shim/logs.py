"""Logs stay bounded: beyond the limit, holes are punched behind their beginning and before their newest part. Offsets and sizes never change.

What is missing from a log is on record in `dropped.json`, and only that says so: bytes of value zero may be what the agent wrote.
"""

import errno
import os

from . import json_text, records, system
from .crash import crashpoint

HEAD = 1024 * 1024
"""How much of the beginning is always kept."""

_RECORD = "dropped.json"
_BLOCK = 64 * 1024
_SOONEST_S = 1.0
_LATEST_S = 8.0
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EINTR, errno.EMFILE, errno.ENFILE})
"""What may work the next time."""


class BoundedLogs:
    """Watches the two logs of an execution."""

    def __init__(self, directory: int, limit: int, logs: dict[str, int]) -> None:
        """Keep about `limit` bytes of each on disk. `logs`: a descriptor of each, by its name."""
        self._directory = directory
        self._limit = limit
        self._logs = logs
        self._tail = max(limit - HEAD, _BLOCK)
        self._slack = max(_BLOCK, limit // 16)
        self._sizes: dict[str, int] = {}
        self._lost, self._dropped = _load(directory)
        """Ranges that were lost, and up to where each log is on record to have its hole."""
        self._punched: dict[str, int] = {}
        """The offset up to which the log holds it. Whether the log reached the offset that an earlier supervisor recorded is unknown."""
        self._owed = False
        """Something was lost that is not on record yet."""
        self._possible = True
        self.pause_s = _SOONEST_S
        """When to look again: every second while a log grows."""

    def lose(self, name: str, start: int, end: int) -> None:
        """So many bytes of a log are not there and never will be. Put on record as soon as that can be: see `owes`."""
        ranges = self._lost.setdefault(name, [])
        if ranges and ranges[-1][0] <= start <= ranges[-1][1]:
            ranges[-1][1] = max(end, ranges[-1][1])
        else:
            ranges.append([start, end])
        self._owed = True

    def files(self) -> list[int]:
        """The logs' descriptors."""
        return list(self._logs.values())

    def lost_until(self, name: str) -> int:
        """Up to where a log was lost, which may be beyond its end; 0 if it was not. What comes next belongs behind that."""
        return max((end for _, end in self._lost.get(name, ())), default=0)

    def owes(self) -> bool:
        """Record what was lost; True if that cannot be done yet."""
        if self._owed:
            try:
                self._record_if_there(self._dropped)
            except OSError:
                return True
        return False

    def is_due(self, name: str, size: int) -> bool:
        """Whether a log has grown so much since the last look that the next one is not to be waited for."""
        return size - self._sizes.get(name, 0) > self._limit

    def bound(self) -> str | None:
        """Punch what is due; returns a complaint, once, if the file system cannot."""
        grown = False
        for name in self._logs if self._possible else ():
            try:
                size = os.fstat(self._logs[name]).st_size
                grown = grown or size != self._sizes.get(name, 0)
                self._sizes[name] = size
                self._punch(name, size)
            except OSError as problem:
                if problem.errno in _PASSING:
                    continue
                self._possible = False
                self._forget(name)
                return f"the logs cannot be kept small here: {problem.strerror}"
        _ = self.owes()
        self.pause_s = _SOONEST_S if grown else min(self.pause_s * 2, _LATEST_S)
        return None

    def _punch(self, name: str, size: int) -> None:
        start = self._punched.get(name, HEAD)
        end = max((size - self._tail) // _BLOCK * _BLOCK, self._dropped.get(name, 0))
        if end - start < self._slack:
            return
        # The record comes first: bytes that are said to be dropped and are still there do no harm.
        self._record_if_there({**self._dropped, name: end})
        crashpoint("shim.punch.before")
        system.punch_hole(self._logs[name], start, end - start)
        crashpoint("shim.punch.after")
        self._punched[name] = end

    def _record_if_there(self, dropped: dict[str, int]) -> None:
        try:
            self._record(dropped)
        except FileNotFoundError:
            # The directory was deleted: the log has no reader, and it must not fill the disk meanwhile.
            self._dropped = dropped

    def _record(self, dropped: dict[str, int]) -> None:
        holes: dict[str, object] = {}
        for name in sorted({*dropped, *self._lost}):
            end = dropped.get(name, HEAD)
            punched = [[HEAD, end]] if end > HEAD else []
            beside = [each for each in self._lost.get(name, ()) if not HEAD <= each[0] <= each[1] <= end]
            holes[name] = sorted([*punched, *beside])
        records.write(self._directory, _RECORD, {name: ranges for name, ranges in holes.items() if ranges})
        self._dropped = dropped
        self._owed = False

    def _forget(self, name: str) -> None:
        """Nothing was dropped after all."""
        if self._dropped.get(name, HEAD) != self._punched.get(name, HEAD):
            try:  # noqa: SIM105 - contextlib would cost start-up time
                self._record({**self._dropped, name: self._punched.get(name, HEAD)})
            except OSError:
                pass


def _load(directory: int) -> tuple[dict[str, list[list[int]]], dict[str, int]]:
    """What an earlier supervisor put on record. What cannot be read was there only to be added to."""
    lost: dict[str, list[list[int]]] = {}
    punched: dict[str, int] = {}
    try:
        record = json_text.decode(records.read_bytes(directory, _RECORD))
    except (OSError, ValueError, RecursionError):
        return lost, punched
    for name, ranges in record.items() if json_text.is_object(record) else ():
        for each in ranges if json_text.is_list(ranges) else ():
            if json_text.is_list(each) and len(each) == 2:
                start, end = each
                if isinstance(start, int) and isinstance(end, int) and 0 <= start < end:
                    if start == HEAD:
                        punched[name] = max(end, punched.get(name, HEAD))
                    else:
                        lost.setdefault(name, []).append([start, end])
    return lost, punched
