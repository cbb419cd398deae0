"""Remove the worktrees of tasks that have ended, each kept in a salvage before, so that nothing is lost by it (R16).

    look ─▶ TX removing ─▶ teardown, another look ─▶ salvage, removal ─▶ TX removed, or kept with the reason

What is nowhere else is removed only if a person says so (`discard`). The right to remove is on record before anything is removed (R1). After a crash the next
removal looks again at what is there, so it completes the first one or names what keeps it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from watchkeeper.app.record import apply_task
from watchkeeper.domain.model import FINAL_TASK_STATES, Task
from watchkeeper.domain.removal import may_be_alive
from watchkeeper.domain.salvage import Salvage, SalvageState
from watchkeeper.domain.side_command import SideCommand
from watchkeeper.domain.task import WorktreeRemoval
from watchkeeper.domain.worktree import Worktree, WorktreeSeen, WorktreeState, advice, obstacles
from watchkeeper.errors import NoSuchTask, Refused
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.salvages import Salvages
from watchkeeper.ports.store import Store, Tx
from watchkeeper.ports.worktrees import Worktrees

THERE = frozenset({WorktreeState.MADE, WorktreeState.REMOVING})
"""States in which something of it may be on the disk; so it may in `planned`, once a run was reserved."""


Teardown = Callable[[Task], Sequence[SideCommand]]
"""Runs the commands of a task that clear up before its worktree is removed, and returns those that did not pass."""


class WorktreeNeeded(Refused):
    """The worktree is not removed."""

    because: str = ""
    """The reason as the rest of a sentence that begins with the task; empty: the message says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeRow:
    """A worktree as it stands."""

    task_id: str
    task: Task | None
    """Its task; None: that was removed, and the worktree was kept."""
    tree: Worktree
    seen: WorktreeSeen

    @property
    def needs(self) -> tuple[str, ...]:
        """Why it is not removed, each as a part of a sentence; empty: it can go."""
        task = self.task
        if task is not None and task.state not in FINAL_TASK_STATES:
            return (f"its task is {task.state.value.replace('_', ' ')}",)
        return obstacles(self.tree, self.seen)


def is_there(task: Task) -> bool:
    """Whether something of the task's worktree may be on the disk, as far as records tell."""
    tree = task.spec.worktree
    if tree is None:
        return False
    return tree.state in THERE or (tree.state is WorktreeState.PLANNED and task.runs > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """Looks at worktrees and removes those that are not needed."""

    store: Store
    clock: Clock
    worktrees: Worktrees
    salvages: Salvages
    teardown: Teardown | None = None
    """None: none is run."""
    machine: str = ""
    """This machine's id where several share the database, else empty."""

    def rows(self, *, sized: bool = False) -> list[WorktreeRow]:
        """Every worktree of this machine, those of removed tasks included, oldest task first."""
        tasks = self.store.read(lambda tx: tx.tasks.some(tx.tasks.with_worktrees()))
        mine = [task for task in tasks if task.spec.machine in {None, self.machine} and is_there(task)]
        rows = [self._row(task.id, task, task.spec.worktree, sized=sized) for task in mine if task.spec.worktree]
        known, by_id = {row.tree.path for row in rows}, {task.id: task for task in mine}
        # Those of tasks that were removed, and earlier ones of tasks that continued in a new one.
        left = [kept for kept in self.worktrees.kept() if kept.tree.path not in known]
        return rows + [self._row(kept.task_id, by_id.get(kept.task_id), kept.tree, sized=sized) for kept in left]

    def row(self, task_id: str) -> WorktreeRow:
        """One worktree, by the task that it was made for. Raises NoSuchTask, Refused."""
        try:
            task = self.store.read(lambda tx: tx.tasks.get(task_id))
        except NoSuchTask:
            kept = next((each for each in self.worktrees.kept() if each.task_id == task_id), None)
            if kept is None:
                raise
            return self._row(task_id, None, kept.tree, sized=True)
        tree = task.spec.worktree
        if tree is None:
            raise Refused(f"Task {task_id} has no worktree.", hint="`wk run --worktree` makes one for a new task.")
        return self._row(task_id, task, tree, sized=True)

    def _row(self, task_id: str, task: Task | None, tree: Worktree, *, sized: bool) -> WorktreeRow:
        return WorktreeRow(task_id=task_id, task=task, tree=tree, seen=self.worktrees.look(tree, task_id, sized=sized))

    def require(self, task_id: str, *, discard: bool = False) -> None:
        """See that the worktree of a task can be removed. Changes nothing. Raises NoSuchTask, WorktreeNeeded."""
        task = self.store.read(lambda tx: tx.tasks.get(task_id))
        tree = self._require(task, discard=discard)
        self._require_salvageable(self._wanted(task_id, task.spec.title, tree, by=""))

    def remove(self, task_id: str, *, by: str, discard: bool = False) -> Salvage | None:
        """Remove the worktree of a task that has ended; returns what was kept of it, None if there was nothing to remove.

        Args:
            task_id: the task.
            by: who removes it.
            discard: also if it holds what is nowhere else.

        Raises:
            NoSuchTask: there is no such task.
            WorktreeNeeded: with every reason; nothing was removed.
        """
        task = self.store.read(lambda tx: tx.tasks.get(task_id))
        if not is_there(task):
            self._drop_plan(task)
            return None
        self._complete(task)
        task = self.store.read(lambda tx: tx.tasks.get(task_id))
        tree = self._require(task, discard=discard)
        self._record(task_id, WorktreeState.REMOVING, by)
        if task.spec.teardown and self.teardown is not None:
            tree = self._tear_down(task, self.teardown, by=by, discard=discard)
        saved = self.salvages.remove(self._wanted(task_id, task.spec.title, tree, by=by))
        if saved.problem:
            self._record(task_id, WorktreeState.MADE, by, saved.problem)
            raise _not_removed(saved.problem)
        self._record(task_id, WorktreeState.REMOVED, by)
        _ = self.worktrees.drop(tree, task_id)
        return saved.salvage

    def _tear_down(self, task: Task, teardown: Teardown, *, by: str, discard: bool) -> Worktree:
        """Clear up by the task's own commands; the worktree as it is to be removed. Raises WorktreeNeeded: one did not pass, or left something."""
        bad = teardown(task)
        try:
            if bad:
                raise _not_torn_down(task.id, bad)
            return self._require(self.store.read(lambda tx: tx.tasks.get(task.id)), discard=discard)
        except WorktreeNeeded as refusal:
            self._record(task.id, WorktreeState.MADE, by, str(refusal))
            raise

    def require_kept(self, task_id: str, *, discard: bool = False) -> WorktreeRow:
        """See that a worktree can go whose task was removed before. Changes nothing. Raises NoSuchTask, WorktreeNeeded."""
        row = self.row(task_id)
        if row.seen.problem or (row.needs and not discard):
            raise needed(row.tree, row.seen)
        self._require_salvageable(self._wanted(task_id, "", row.tree, by=""))
        return row

    def remove_kept(self, task_id: str, *, by: str, discard: bool = False) -> Salvage | None:
        """Remove a worktree whose task was removed before; returns what was kept of it. Raises NoSuchTask, WorktreeNeeded."""
        row = self.require_kept(task_id, discard=discard)
        saved = self.salvages.remove(self._wanted(task_id, "", row.tree, by=by))
        if saved.problem:
            raise _not_removed(saved.problem)
        data: dict[str, object] = {"by": by, "path": row.tree.path}
        at = self.clock.now()
        _ = self.store.transact(
            "worktree_kept_gone", lambda tx: tx.journal.append("worktree.removed", at, task_id=task_id, data=data)
        )
        return saved.salvage

    def _wanted(self, task_id: str, title: str, tree: Worktree, *, by: str) -> Salvage:
        return Salvage(
            id="", task_id=task_id, title=title, tree=tree, at=self.clock.now(), by=by, state=SalvageState.SAVING
        )

    def _require_salvageable(self, wanted: Salvage) -> None:
        """Raises WorktreeNeeded."""
        problem = self.salvages.obstacle(wanted)
        if problem:
            raise _not_removed(f"The worktree {wanted.tree.path} stays. {problem}")

    def _drop_plan(self, task: Task) -> None:
        """Let go of what a worktree would have begun with that was never made."""
        tree = task.spec.worktree
        if tree is not None and tree.state is WorktreeState.PLANNED:
            # Where the repository is gone, the name went with it.
            _ = self.worktrees.drop(tree, task.id)

    def _complete(self, task: Task) -> None:
        """A making that a crash cut off is completed first: then one look tells what there is."""
        tree = task.spec.worktree
        if tree is not None and tree.state is WorktreeState.PLANNED and task.state in FINAL_TASK_STATES:
            made = self.worktrees.make(tree, task.id)
            if made.problem:
                raise WorktreeNeeded(made.problem, hint=f"Look at {tree.path}; --keep-worktree leaves it as it is.")

    def _require(self, task: Task, *, discard: bool) -> Worktree:
        tree = task.spec.worktree
        if tree is None or not is_there(task):
            raise WorktreeNeeded(f"Task {task.id} has no worktree.")
        if task.spec.machine not in {None, self.machine}:
            raise WorktreeNeeded(
                f"The worktree of task {task.id} is on another machine.", hint="Type it there, or use --keep-worktree."
            )
        if task.state not in FINAL_TASK_STATES:
            raise WorktreeNeeded(
                f"Task {task.id} has not ended, so its worktree stays.", hint=f"`wk stop {task.id}` ends it."
            )
        runs = self.store.read(lambda tx: tx.runs.of_task(task.id))
        doubtful = [run.number for run in runs if may_be_alive(run)]
        if doubtful:
            raise WorktreeNeeded(
                f"It is not proven that run {doubtful[0]} of task {task.id} has ended completely, so its worktree stays.",
                hint="Look for its processes; --keep-worktree leaves the worktree as it is.",
            )
        seen = self.worktrees.look(tree, task.id)
        if seen.problem or (obstacles(tree, seen) and not discard):
            raise needed(tree, seen)
        return tree

    def _record(self, task_id: str, became: WorktreeState, by: str, reason: str = "") -> None:
        def work(tx: Tx) -> None:
            at = self.clock.now()
            _ = apply_task(tx, tx.tasks.get(task_id), WorktreeRemoval(became=became, by=by, at=at, reason=reason), at)

        self.store.transact(f"worktree_{became.value}", work)


def _not_torn_down(task_id: str, bad: Sequence[SideCommand]) -> WorktreeNeeded:
    """The refusal. The same removal continues the next time, because a teardown runs once."""
    refusal = WorktreeNeeded(
        f"The worktree of task {task_id} stays, because its teardown did not pass: {' '.join(one.reason for one in bad)}",
        hint=f"See `wk logs {task_id} --teardown {bad[0].number}`. The teardown runs only once: type the same again to remove the worktree anyway.",
    )
    refusal.because = f"its teardown did not pass: {' '.join(one.reason for one in bad)}".rstrip(".")
    return refusal


def _not_removed(problem: str) -> WorktreeNeeded:
    return WorktreeNeeded(problem, hint="Nothing is lost: see to that, then type it again.")


def needed(tree: Worktree, seen: WorktreeSeen) -> WorktreeNeeded:
    """The refusal, with every reason."""
    detail = "; ".join(obstacles(tree, seen))
    refusal = WorktreeNeeded(
        f"The worktree of {tree.branch} stays, because it holds {detail}.", hint=advice(tree, seen)
    )
    if seen.problem:
        refusal = WorktreeNeeded(seen.problem, hint=advice(tree, seen))
    else:
        refusal.because = f"its worktree holds {detail}"
    return refusal
