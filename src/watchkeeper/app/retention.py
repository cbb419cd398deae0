"""Let go by the rules of retention: tasks that ended long ago, history of what is no longer there, notes of claims.

What may be alive, is uncertain, is awaited or is pinned stays, whatever its age: the same obstacles stand as for `wk rm`.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from watchkeeper.app.ages import Ago
from watchkeeper.app.remove import NotRemovable, Remover
from watchkeeper.domain.model import FINAL_TASK_STATES, Task
from watchkeeper.errors import NoSuchTask, RecordTorn, Stale, WatchkeeperError
from watchkeeper.ports.store import Store

FOR_EVER_DAYS = 36500
"""A retention time of this length means forever: there is nothing older to look for."""

_PAGE = 200
_HISTORY_PAGE = 2000
_OPERATIONS_FOR = timedelta(days=1)
"""No daemon asks again so long after what became of a claim."""


@dataclass(slots=True, kw_only=True)
class Swept:
    """What became of the tasks that ended before some time."""

    removed: list[Task] = field(default_factory=list["Task"])
    """Or, where nothing was to be changed, would be."""
    failed: list[tuple[str, WatchkeeperError]] = field(default_factory=list["tuple[str, WatchkeeperError]"])
    """Tasks that could not be removed because something stored about them contradicts the rest; they stay."""
    refused: list[tuple[Task, NotRemovable]] = field(default_factory=list["tuple[Task, NotRemovable]"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Lets go."""

    store: Store
    remover: Remover
    keep_tasks_days: float
    keep_history_days: float
    ago: Ago

    def tasks(
        self,
        *,
        by: str,
        older_than: timedelta | None = None,
        keep: int = 0,
        dry_run: bool = False,
        at_most: int | None = None,
    ) -> Swept:
        """Remove tasks that ended longer ago than the rule says, or than `older_than`; never the newest `keep` that ended, never pinned ones."""
        swept = Swept()
        if older_than is None and self.keep_tasks_days >= FOR_EVER_DAYS:
            return swept
        before = self.ago(older_than if older_than is not None else timedelta(days=self.keep_tasks_days))
        newest = self.store.read(lambda tx: tx.tasks.in_states(tuple(FINAL_TASK_STATES), keep)) if keep else []
        spared = {task.id for task in newest}
        for task_id in self._ended(before):
            if at_most is not None and len(swept.removed) >= at_most:
                break
            if task_id not in spared:
                self._one(swept, task_id, by=by, dry_run=dry_run)
        while not dry_run and self._again(swept, by=by, at_most=at_most):
            pass
        return swept

    def _again(self, swept: Swept, *, by: str, at_most: int | None) -> bool:
        """What was kept only by tasks that were to run after it may go when these have gone; False if nothing more went. The newest first."""
        refused, before = swept.refused, len(swept.removed)
        swept.refused = []
        for task, refusal in reversed(refused):
            if refusal.is_awaited and (at_most is None or len(swept.removed) < at_most):
                self._one(swept, task.id, by=by, dry_run=False)
            else:
                swept.refused.append((task, refusal))
        swept.refused.reverse()
        return len(swept.removed) > before

    def history(self) -> int:
        """Forget old history of what is no longer there, and notes of claims; returns how many entries of history went."""
        notes = self.ago(_OPERATIONS_FOR)
        while (
            self.store.transact(
                "forget_operations",
                lambda tx: tx.deletion.forget_operations(notes, _PAGE),
                durable=False,
            )
            == _PAGE
        ):
            pass
        before = self.ago(timedelta(days=self.keep_history_days))
        count, after = 0, 0
        while True:
            gone, on = self.store.transact(
                "forget_history",
                lambda tx, at=after: tx.deletion.forget_history(before, _HISTORY_PAGE, at),
                durable=False,
            )
            count += gone
            if on is None:
                return count
            after = on

    def _one(self, swept: Swept, task_id: str, *, by: str, dry_run: bool) -> None:
        # Another process was first, or it cannot be read and stays.
        with contextlib.suppress(NoSuchTask, RecordTorn):
            task = self.store.read(lambda tx: tx.tasks.get(task_id))
            try:
                if dry_run:
                    self.remover.require(task_id)
                else:
                    _ = self.remover.remove(task_id, by=by)
            except NotRemovable as refusal:
                swept.refused.append((task, refusal))
            except Stale as problem:
                swept.failed.append((task_id, problem))
            else:
                swept.removed.append(task)

    def _ended(self, before: datetime) -> Iterator[str]:
        """Every task that ended before, found page by page: what goes meanwhile makes none of them be passed over."""
        for state in sorted(FINAL_TASK_STATES):
            after = 0
            while page := self.store.read(lambda tx, s=state, a=after: tx.deletion.ended(s, before, _PAGE, a)):
                yield from (task_id for _, task_id in page)
                after = page[-1][0]
