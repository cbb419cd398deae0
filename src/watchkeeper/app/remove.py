"""Remove tasks: the record goes in one transaction, which also puts down what is to be deleted; the directories go after it.

    look ─▶ one transaction: every obstacle again, rows deleted, history, an effect for each execution ─▶ effects: logs kept, directory deleted

So a crash leaves either the task as it was, or no task and effects in the outbox that name every directory that is still to go. Ids are never given again, and
the history stays until it is pruned.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from watchkeeper.app.worktrees import Keeper, WorktreeNeeded, is_there
from watchkeeper.domain.effects import RemoveExecution
from watchkeeper.domain.lock_state import LockState
from watchkeeper.domain.model import Run, Task, TaskState
from watchkeeper.domain.plain_text import clean
from watchkeeper.domain.removal import Obstacle, ObstacleKind, alive, may_be_alive, obstacles, worktree_needed
from watchkeeper.domain.salvage import Salvage
from watchkeeper.domain.waiting import Dependency
from watchkeeper.errors import Refused, describe_os_error
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.runtime import ExecutionName, Executions, PreparedExecution, Runtime
from watchkeeper.ports.store import OutboxRow, Store, Tx

MAX_ATTEMPTS = 12
"""How often the removal of an untouchable directory is tried before it is given up and journalled."""


class NotRemovable(Refused):
    """The task cannot be removed now."""

    def __init__(self, task_id: str, reasons: tuple[Obstacle, ...]) -> None:
        """Name every reason."""
        self.reasons = reasons
        hints = " ".join(dict.fromkeys(each.hint for each in reasons))
        super().__init__(f"Task '{task_id}' was not removed: {'; '.join(each.detail for each in reasons)}.", hint=hints)

    @property
    def is_awaited(self) -> bool:
        """Whether nothing but other tasks stands in the way: when these have gone, it can go."""
        return all(each.kind is ObstacleKind.AWAITED for each in self.reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What went."""

    task: Task
    executions: int
    salvage: Salvage | None = None
    """What was kept of its worktree; None: it had none, or it is kept itself."""


_SHOWN = 3
"""So many names of a scratch directory are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remover:
    """Removes tasks."""

    store: Store
    clock: Clock
    runtime: Runtime
    machine: str
    """This machine's id: only here can be seen whether something is alive."""
    keeper: Keeper | None = None
    """Removes the worktrees of tasks that are removed; None: a task that has one stays."""

    def _obstacles(self, task_id: str, *, trusting: bool, keep_worktree: bool, discard: bool) -> tuple[Obstacle, ...]:
        """Every reason against removing a task."""
        task, runs, dependents = self.store.read(lambda tx: _load(tx, task_id))
        seen = () if task.state is TaskState.RUNNING else self._seen_alive(runs)
        found = (*obstacles(task, runs, dependents, trusting=trusting), *seen)
        return found or (() if keep_worktree else (*self._worktree(task, discard=discard), *self._scratch(task)))

    def _scratch(self, task: Task) -> tuple[Obstacle, ...]:
        """Why the task's scratch directory is not removed with it; empty: it has none, or it is empty."""
        if not task.spec.scratch or task.runs == 0:
            return ()
        hint = f"Look at {task.spec.cwd}; --keep-worktree leaves it as it is."
        if self.keeper is None or task.spec.machine not in {None, self.keeper.machine}:
            return (worktree_needed("its scratch directory is there", hint),)
        try:
            names = self.keeper.worktrees.in_scratch(task.spec.cwd)
        except OSError as error:
            return (worktree_needed(f"its scratch directory cannot be read ({describe_os_error(error)})", hint),)
        if not names:
            return ()
        things = "1 thing" if len(names) == 1 else f"{len(names)} things"
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        detail = f"its scratch directory holds {things} ({clean(', '.join(names[:_SHOWN]))}{more})"
        return (
            worktree_needed(detail, f"Move or delete them, or leave {task.spec.cwd} as it is with --keep-worktree."),
        )

    def _remove_scratch(self, task_id: str) -> None:
        """Remove the task's scratch directory if it is empty. Raises NotRemovable."""
        task = self.store.read(lambda tx: tx.tasks.get(task_id))
        if self.keeper is None or not task.spec.scratch or task.runs == 0:
            return
        try:
            self.keeper.worktrees.remove_scratch(task.spec.cwd)
        except OSError as error:
            detail = f"its scratch directory cannot be removed ({describe_os_error(error)})"
            raise NotRemovable(task_id, (worktree_needed(detail, f"Look at {task.spec.cwd}."),)) from error

    def _worktree(self, task: Task, *, discard: bool) -> tuple[Obstacle, ...]:
        """Why the task's worktree is not removed with it; empty: it has none, or nothing is lost by it."""
        if not is_there(task):
            return ()
        if self.keeper is None:
            return (_worktree_stays(task.id),)
        try:
            self.keeper.require(task.id, discard=discard)
        except WorktreeNeeded as refusal:
            return (worktree_needed(refusal.because or str(refusal), refusal.hint),)
        return ()

    def require(
        self, task_id: str, *, trusting: bool = False, keep_worktree: bool = False, discard: bool = False
    ) -> None:
        """See that nothing stands against removing a task. Changes nothing.

        Raises:
            NoSuchTask: there is none.
            NotRemovable: with every reason.
        """
        reasons = self._obstacles(task_id, trusting=trusting, keep_worktree=keep_worktree, discard=discard)
        if reasons:
            raise NotRemovable(task_id, reasons)

    def remove(
        self,
        task_id: str,
        *,
        by: str,
        keep_logs: bool = False,
        trusting: bool = False,
        keep_worktree: bool = False,
        discard: bool = False,
    ) -> Removed:
        """Remove a task that has ended, its worktree first; its directories go soon after. `discard`: also if the worktree holds what is nowhere else.

        Raises:
            NoSuchTask: there is none.
            NotRemovable: with every reason.
        """
        self.require(task_id, trusting=trusting, keep_worktree=keep_worktree, discard=discard)
        salvage: Salvage | None = None
        if self.keeper is not None and not keep_worktree:
            try:
                salvage = self.keeper.remove(task_id, by=by, discard=discard)
            except WorktreeNeeded as refusal:
                raise NotRemovable(
                    task_id, (worktree_needed(refusal.because or str(refusal), refusal.hint),)
                ) from refusal
            self._remove_scratch(task_id)

        def work(tx: Tx) -> Removed:
            task, runs, dependents = _load(tx, task_id)
            again = obstacles(task, runs, dependents, trusting=trusting)
            if not again and is_there(task) and not keep_worktree:
                again = (_worktree_stays(task_id),)
            if again:
                raise NotRemovable(task_id, again)
            at = self.clock.now()
            by_id = {run.id: run for run in runs}
            around = [command.as_run(by_id[command.run_id]) for command in tx.commands.of_task(task_id)]
            tx.deletion.remove_task(task_id)
            for run in (*runs, *around):
                effect = _effect(run, keep_logs=keep_logs and run in runs)
                tx.outbox.put([effect], at, run.machine if self.store.is_shared else "")
            data: dict[str, object] = {
                "by": by,
                "title": task.spec.title,
                "executions": len(runs),
                "logs_kept": keep_logs,
            }
            _ = tx.journal.append("task.removed", at, task_id=task_id, data=data)
            return Removed(task=task, executions=len(runs), salvage=salvage)

        return self.store.transact("remove", work)

    def _seen_alive(self, runs: list[Run]) -> list[Obstacle]:
        """What is alive although its run is settled. Only doubtful ones are looked at, and only here."""
        found: list[Obstacle] = []
        for run in runs:
            if run.machine != self.machine or not may_be_alive(run):
                continue
            agent = self.runtime.living_agent(run)
            if agent is not None:
                found.append(alive(run, f"the agent (pid {agent.pid})"))
            elif self.runtime.observe(run, stop_asked=True).lock is LockState.HELD:
                found.append(alive(run, "the shim"))
        return found


Forget = Callable[[str, Sequence[str]], str]
"""Lets go of the files that a repository keeps under names; says why that failed, else nothing."""


def forget_files(executions: Executions, forget: Forget, run: PreparedExecution) -> str:
    """Let go of the files that a repository keeps of a run; why that failed, else empty. Its directory names the repository, so it goes after them."""
    repository = executions.repository(run)
    problem = "" if repository is None else forget(repository, [run.execution_id])
    return f"{repository} still keeps the files of the run: {problem}" if problem else ""


def discard(
    store: Store, clock: Clock, executions: Executions, forget: Forget, row: OutboxRow, effect: RemoveExecution
) -> bool:
    """Delete a removed execution's directory, its logs kept before if that was asked for. False: it is not to be touched now, so try again.

    The files that its repository keeps of it go first.

    After a bounded number of tries the removal is given up, and the journal records that.

    Raises:
        OSError: the system failed; try again.
    """
    name = ExecutionName.from_effect(effect)
    problem = forget_files(executions, forget, name)
    if problem and row.attempts + 1 < MAX_ATTEMPTS:
        return False
    try:
        if effect.keep_logs:
            executions.keep_logs(name)
        executions.remove(name)
    except Refused as refusal:
        if row.attempts + 1 < MAX_ATTEMPTS:
            return False
        problem = f"{problem} {refusal}".strip()

    def work(tx: Tx) -> None:
        tx.outbox.done(row.id)
        if problem:
            data: dict[str, object] = {"execution": effect.execution_id, "reason": problem}
            _ = tx.journal.append("execution.left", clock.now(), task_id=effect.task_id, data=data)

    store.transact("done_remove_execution", work)
    return True


def _worktree_stays(task_id: str) -> Obstacle:
    return worktree_needed("its worktree is there", f"`wk worktree show {task_id}` says what it holds.")


def _load(tx: Tx, task_id: str) -> tuple[Task, list[Run], list[Dependency]]:
    task = tx.tasks.get(task_id)
    dependents = [Dependency(task_id=name, state=tx.tasks.get(name).state) for name in tx.waits.dependents(task_id)]
    return task, tx.runs.of_task(task_id), dependents


def _effect(run: Run, *, keep_logs: bool) -> RemoveExecution:
    return RemoveExecution(
        run_id=run.id,
        task_id=run.task_id,
        fence=run.fence,
        execution_id=run.execution_id,
        device=None if run.directory is None else run.directory.device,
        inode=None if run.directory is None else run.directory.inode,
        keep_logs=keep_logs,
    )
