"""Put records that cannot be read on record, so that they are named where people look, and look whether the database as a whole is sound."""

from collections.abc import Callable

from watchkeeper.app.damage import Damaged
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.errors import DatabaseCorrupt, RecordTorn
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Damage, Store

_AGAIN_S = 30.0
"""So often what is on record is read again."""
_CHECK_S = 3600.0
_SEARCH_S = 86400.0
_FIRST_SEARCH_S = 60.0
"""Reading every record takes seconds of a large database: not while a daemon has its hands full with starting."""


class DamageLoop(Loop):
    """Looks for damage."""

    name = "damage"

    def __init__(
        self, log: Log, every_s: float, store: Store, clock: Clock, damaged: Damaged, tell: Callable[[str], None]
    ) -> None:
        """`tell` is given what is wrong with the database as a whole, so that it is said also when nothing can be read; empty: nothing is."""
        super().__init__(log, every_s)
        self._store = store
        self._clock = clock
        self._damaged = damaged
        self._report = tell
        self._read_s = self._checked_s = float("-inf")
        self._search_at_s = clock.boottime_s() + _FIRST_SEARCH_S
        self._named: set[str] = set()

    def tick(self) -> Ticked:
        """Look at what was met. Costs nothing while there is nothing."""
        now_s = self._clock.boottime_s()
        if self._store.met.whole or now_s - self._checked_s >= _CHECK_S:
            self._check()
            self._checked_s = now_s
        if now_s >= self._search_at_s:
            self._search_at_s = now_s + _SEARCH_S
            self._say(self._damaged.search())
        elif self._store.met.all() or now_s - self._read_s >= _AGAIN_S:
            self._read_s = now_s
            self._say(self._damaged.keep())
        return Ticked()

    def _check(self) -> None:
        self._store.met.whole = ""
        try:
            self._store.check()
        except RecordTorn:
            return  # a single record, which is on record by itself
        except DatabaseCorrupt as damaged:
            self.log.problem("database damaged", damaged)
            self._report(str(damaged))
        else:
            self._report("")

    def _say(self, damages: list[Damage]) -> None:
        names = {each.name for each in damages}
        for each in damages:
            if each.name not in self._named:
                self.log.info("record torn", record=each.name, task=each.task_id, detail=each.reason)
        self._named = names
