"""Records that cannot be read: how they are collected, kept and shown."""

import threading
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple, Protocol
from weakref import WeakSet

from watchkeeper.errors import RecordTorn

START = "start"
"""The place of a task that could not be started, though all of its records can be read; its key is the task's id."""


# A named tuple, as in `settings`: every command waits for the class.
class Damage(NamedTuple):
    """A record that cannot be read."""

    place: str
    """Its table."""
    id: str
    """Its key in that table."""
    task_id: str | None
    """The task that it is about, if that is known. It is not launched."""
    reason: str
    at: datetime | None = None
    """When it was first met; None: just now."""

    @property
    def name(self) -> str:
        """Table and key in one word, as a person types it: `outbox:12`."""
        return f"{self.place}:{self.id}"

    @classmethod
    def from_error(cls, torn: RecordTorn) -> "Damage":
        """What an error tells."""
        return cls(place=torn.place, id=torn.key, task_id=torn.task_id, reason=torn.reason)


class Known(NamedTuple):
    """What the execution directories say of the database, for a new record of itself."""

    database_id: str
    fence: int
    """The largest that was given."""


class LetsGo(Protocol):
    """A store that can be told to let go of what it holds open and does not use."""

    def let_go(self) -> None:
        """Let go of a log that has lost its name, unless it is being used now: then its user does so next."""
        ...


class Met:
    """What the readers of a process have met and passed over, by table and key. Threads share one."""

    def __init__(self) -> None:
        """Nothing was met yet."""
        self._guard = threading.Lock()
        self._found: dict[tuple[str, str], Damage] = {}
        self.stores: WeakSet[LetsGo] = WeakSet()
        """The stores of this process that note here."""
        self.lost_log = False
        """The database's log was deleted while this process had it open, and what it held was saved: the process opens that database no more."""
        self.whole = ""
        """What was last said of damage that is not of single records; empty: none was met. A check of the whole database withdraws it."""

    def note(self, torn: RecordTorn) -> None:
        """Remember it; the newest word on a record counts."""
        with self._guard:
            self._found[torn.place, torn.key] = Damage.from_error(torn)

    def all(self) -> list[Damage]:
        """Everything that was met since `forget`."""
        with self._guard:
            return list(self._found.values())

    def passed_over(self, place: str) -> int:
        """How many records of a table were met since `forget`: a list lacks these."""
        return sum(each.place == place for each in self.all())

    def forget(self, damages: "list[Damage]") -> None:
        """These are on record, or read again."""
        with self._guard:
            for each in damages:
                if self._found.get((each.place, each.id)) == each:
                    del self._found[each.place, each.id]


class Damages(Protocol):
    """Rows of the table of damage, and the search for more."""

    def note(self, problem: RecordTorn) -> None:
        """A pass over many records continues without this one."""
        ...

    def all(self) -> list[Damage]:
        """What is on record."""
        ...

    def of_task(self, task_id: str) -> list[Damage]:
        """What is on record about a task."""
        ...

    def keep(self, damage: Damage, at: datetime) -> bool:
        """Put it on record: from now on its task is not claimed. True if that is news."""
        ...

    def drop(self, damage: Damage) -> None:
        """It can be read again, or was repaired."""
        ...

    def read_again(self, damage: Damage) -> Damage | None:
        """Read the record anew; None if it can be read now, or is gone."""
        ...

    def search(self) -> Iterator[Damage]:
        """Read every record there is, and yield those that cannot be read. Takes seconds for a large database."""
        ...
