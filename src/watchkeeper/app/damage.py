"""Keep on record which records cannot be read, and repair them on a person's word."""

from collections.abc import Sequence
from dataclasses import dataclass

from watchkeeper.app.claim import set_aside
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Damage, Store, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """Puts on record what was met, and takes back what can be read again."""

    store: Store
    clock: Clock

    def keep(self) -> list[Damage]:
        """Put on record what was met since the last time, if it still cannot be read; returns everything that is on record now."""
        met = self.store.met.all()
        torn, mended = self.store.read(lambda tx: self._compare(tx, met))
        known = {(each.place, each.id) for each in self.store.read(lambda tx: tx.damage.all())}
        if mended or any((each.place, each.id) not in known for each in torn):
            self.store.transact("damage", lambda tx: self._keep(tx, met))
        self.store.met.forget(met)
        return self.store.read(lambda tx: tx.damage.all())

    def search(self) -> list[Damage]:
        """Read every record, and put on record what cannot be read. Takes seconds for a large database."""
        found = self.store.read(lambda tx: list(tx.damage.search()))
        if found:
            self.store.transact("damage", lambda tx: self._keep(tx, found))
        return self.keep()

    def _keep(self, tx: Tx, met: Sequence[Damage]) -> None:
        torn, mended = self._compare(tx, met)
        at = self.clock.now()
        for each in torn:
            set_aside(tx, each, at)
        for each in mended:
            tx.damage.drop(each)
            _ = tx.journal.append("record.mended", at, task_id=each.task_id, data={"record": each.name})

    @staticmethod
    def _compare(tx: Tx, met: Sequence[Damage]) -> tuple[list[Damage], list[Damage]]:
        """Read again what was met and what is on record: what is torn, and what is on record and is not."""
        torn: dict[tuple[str, str], Damage] = {}
        mended: list[Damage] = []
        known = tx.damage.all()
        on_record = {(each.place, each.id) for each in known}
        for each in (*known, *met):
            now = tx.damage.read_again(each)
            if now is not None:
                torn[each.place, each.id] = now
            elif (each.place, each.id) in on_record and each in known:
                mended.append(each)
        return list(torn.values()), mended


def known(store: Store) -> list[Damage]:
    """What is on record, and what this process has met and no daemon has put on record yet."""
    kept = store.read(lambda tx: tx.damage.all())
    there = {(each.place, each.id) for each in kept}
    return kept + [each for each in store.met.all() if (each.place, each.id) not in there]
