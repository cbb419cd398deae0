"""Bring back a worktree that was removed, and let go of what is kept of such worktrees when its time is over.

    TX read ─▶ the salvage is brought back (its own record says how far that is) ─▶ TX the task has its worktree again ─▶ the salvage is let go of

After a crash the same command continues where the first one stopped: what stands in its place already is not made again.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from watchkeeper.app.ages import Ago
from watchkeeper.app.record import apply_task
from watchkeeper.domain.model import Task
from watchkeeper.domain.salvage import FOR_EVER_DAYS, Salvage, expired, expires, latest
from watchkeeper.domain.side_command import left_behind
from watchkeeper.domain.task import WorktreeRestored
from watchkeeper.errors import NoSuchTask, NotFound, Refused
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.salvages import Salvages
from watchkeeper.ports.store import Store, Tx
from watchkeeper.ports.workspace import Workspace


class NothingToUndo(NotFound):
    """There is no removed worktree to bring back."""

    hint = "`wk undo --list` lists those that can be brought back."


class NotBroughtBack(Refused):
    """A worktree was not brought back. What is kept of it is still kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A removed worktree that can be brought back."""

    salvage: Salvage
    until: datetime | None
    """When it is let go of; None: never."""
    task: Task | None
    """Its task; None: that was removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What was brought back."""

    salvage: Salvage
    task: Task | None
    """The task that has its worktree again; None: it was removed, and stays so."""
    left: str = ""
    """Why what was kept could not be let go of, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undoer:
    """Brings worktrees back."""

    store: Store
    clock: Clock
    salvages: Salvages
    workspace: Workspace
    keep_days: float
    """How long a removed worktree is kept."""

    def kept(self) -> list[Kept]:
        """Every worktree that can be brought back, the one that was removed last first."""
        found = [each for each in self.salvages.records() if latest([each], None) is not None]
        return [
            Kept(salvage=each, until=expires(each, self.keep_days), task=self._task(each)) for each in reversed(found)
        ]

    def undo(self, named: str | None, *, by: str) -> Undone:
        """Bring back the last worktree that was removed, or the one that is named by its task or its own id.

        Raises:
            NothingToUndo: no removed worktree can be brought back.
            NotBroughtBack: something is in its place, among others; the next try starts over or continues.
        """
        salvage = latest(self.salvages.records(), named)
        if salvage is None:
            what = "No worktree was removed" if named is None else f"There is no removed worktree of '{named}'"
            raise NothingToUndo(f"{what} that could be brought back.")
        problem = self.salvages.restore(salvage)
        if problem:
            raise NotBroughtBack(problem, hint="What was kept of it is still kept: see to that, then type it again.")
        task = self._record(salvage, by)
        return Undone(salvage=salvage, task=task, left=self.salvages.forget(salvage))

    def let_go(self, ago: Ago, *, dry_run: bool = False) -> tuple[list[Salvage], list[str]]:
        """Let go of what is kept no longer; returns it, and in sentences why some of it could not go."""
        if self.keep_days >= FOR_EVER_DAYS:
            return [], []
        old = expired(self.salvages.records(), ago(timedelta(days=self.keep_days)))
        problems = [] if dry_run else [self.salvages.forget(each) for each in old]
        gone = [each for each, problem in zip(old, problems, strict=True) if not problem] if problems else old
        if gone and not dry_run:
            self.store.transact("salvage_pruned", lambda tx: self._record_pruned(tx, gone), durable=False)
        return gone, [problem for problem in problems if problem]

    def _record_pruned(self, tx: Tx, gone: list[Salvage]) -> None:
        for each in gone:
            data: dict[str, object] = {"salvage": each.id, "after_days": self.keep_days}
            _ = tx.journal.append("salvage.pruned", self.clock.now(), task_id=each.task_id, data=data)

    def _task(self, salvage: Salvage) -> Task | None:
        try:
            return self.store.read(lambda tx: tx.tasks.get(salvage.task_id))
        except NoSuchTask:
            return None

    def _record(self, salvage: Salvage, by: str) -> Task | None:
        """Record that it is there again, at its task if that is there."""
        task = self._task(salvage)
        place = None if task is None or not salvage.present else self.workspace.identify(task.spec.cwd)

        def work(tx: Tx) -> Task | None:
            at = self.clock.now()
            try:
                now = tx.tasks.get(salvage.task_id)
            except NoSuchTask:
                data: dict[str, object] = {"by": by, "path": salvage.tree.path}
                _ = tx.journal.append("worktree.restored", at, task_id=salvage.task_id, data=data)
                return None
            for after, was in left_behind(tx.commands.of_task(now.id)):
                tx.commands.save(after, was)
            return apply_task(tx, now, WorktreeRestored(place=place, by=by, at=at), at)

        return self.store.transact("worktree_restored", work)
