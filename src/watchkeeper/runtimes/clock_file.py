"""What the clocks said at the last look, kept in the state directory."""

import json
from datetime import datetime
from pathlib import Path
from typing import cast

from watchkeeper.domain.clocks import Jump, Reading, Watched
from watchkeeper.runtimes import atomic
from watchkeeper.runtimes.boot import boot_id

_NAME = "clock.json"
_LIMIT = 65536


class ClockFile:
    """The port's `ClockMemory`."""

    def __init__(self, state: Path) -> None:
        """Keep it in a state directory."""
        self._state = state.resolve()

    def boot_id(self) -> str:
        """The kernel's id of this boot. Raises OSError."""
        return boot_id()

    def last(self) -> Watched | None:
        """The last look; None if there was none or its record is damaged: then the journal tells. Raises OSError."""
        try:
            with atomic.directory(self._state) as fd:
                raw = atomic.read_limited(fd, _NAME, _LIMIT)
            return _parse(raw)
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def keep(self, watched: Watched) -> None:
        """Keep a look. Raises OSError."""
        reading = watched.reading
        record = {
            "boot_id": reading.boot_id,
            "boottime_s": reading.boottime_s,
            "wall": reading.wall.isoformat(),
            "jumps": [[jump.before.isoformat(), jump.after.isoformat()] for jump in watched.jumps],
        }
        with atomic.directory(self._state) as fd:
            atomic.replace(fd, _NAME, atomic.encode(record), point="clock")


def _parse(raw: bytes) -> Watched:
    record = cast("dict[str, object]", json.loads(raw))
    reading = Reading(
        boot_id=str(record["boot_id"]),
        boottime_s=float(cast("float", record["boottime_s"])),
        wall=_time(record["wall"]),
    )
    jumps = tuple(
        Jump(before=_time(before), after=_time(after))
        for before, after in cast("list[tuple[object, object]]", record["jumps"])
    )
    return Watched(reading=reading, jumps=jumps)


def _time(text: object) -> datetime:
    at = datetime.fromisoformat(str(text))
    if at.tzinfo is None:
        msg = "a time without a zone"
        raise ValueError(msg)
    return at
