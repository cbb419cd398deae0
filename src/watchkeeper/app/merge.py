"""Bring a task's commits into another branch.

    lock ─▶ TX begun ─▶ replay on the branch as it is ─▶ checks there ─▶ TX landing ─▶ move the branch ─▶ TX merged
                            │ conflicts: TX, a person resolves them       └─ it was moved meanwhile: again, a few times

The branch moves only from the commit that was replayed on, so what another hand commits meanwhile is never overwritten. After a crash the next merge of the
repository reads from git whether the branch has moved, and records or completes that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from watchkeeper.app.merge_refusals import NAMED, MergeConflicts, nothing, restless, uncommitted
from watchkeeper.app.record import apply_task
from watchkeeper.domain.merge import SHORT, Merge, Merged, MergeState, unfinished
from watchkeeper.domain.model import FINAL_TASK_STATES, Task
from watchkeeper.domain.removal import may_be_alive
from watchkeeper.domain.task import MergeStep
from watchkeeper.domain.worktree import Worktree
from watchkeeper.errors import Elsewhere, Refused
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.integration import Branches, Replayed, Replays, Target, TipChecks
from watchkeeper.ports.store import Store, Tx
from watchkeeper.ports.worktrees import Worktrees

ROUNDS = 3
"""How often the commits are replayed because the branch has moved meanwhile."""

CHECK_DEADLINE_S = 600.0
"""How long a check may take where the task does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """What is to be merged, and how."""

    task_id: str
    by: str
    environ: Mapping[str, str]
    """The environment of the checks."""
    into: str | None = None
    """The branch; None: the one that the task's branch started at."""
    squash: bool = False
    check: bool = True
    """Run the task's checks before the branch moves."""
    message: str | None = None
    """Commit first what is not committed, with this message; None: refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """What came of it."""

    task: Task
    merged: Merged
    already: bool = False
    """The branch had the commits before."""
    checks: int = 0
    """How many checks passed at the new tip."""
    checkouts: tuple[str, ...] = ()
    """The directories whose files were changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merger:
    """Merges the branches of tasks."""

    store: Store
    clock: Clock
    worktrees: Worktrees
    branches: Branches
    replays: Replays
    checks: TipChecks
    machine: str = ""
    """This machine's id where several share the database, else empty."""
    on_step: Callable[[str], None] = lambda _: None
    """Told, in a sentence, what is done next."""

    def merge(self, request: MergeRequest) -> MergeResult:
        """Merge a task's branch.

        Raises:
            NoSuchTask: there is no such task.
            MergeConflicts: a person has to resolve conflicts.
            Refused: with the reason. The branch is as it was.
        """
        tree = self._tree(self._require(request.task_id))
        with self.branches.alone(tree, request.task_id):
            self._settle_cut_off(tree, request.by)
            task = self._require(request.task_id)
            tree = self._tree(task)
            if tree.merge is not None and tree.merge.state is MergeState.CONFLICTS:
                what, hint = unfinished(task.id, tree.merge)
                raise Refused(f"Task {task.id} is not merged: {what}.", hint=hint)
            target = self.branches.target(tree, request.into)
            self._require_committed(task, tree, request.message)
            source = self.branches.source(tree, target.commit)
            if self._is_merged(tree, target, source) and tree.merged is not None:
                return MergeResult(task=task, merged=tree.merged, already=True)
            if source == tree.base:
                raise nothing(task, tree)
            plan = Merge(
                state=MergeState.BEGUN, into=target.branch, source=source, by=request.by, squash=request.squash
            )
            return self._rounds(request, plan, target, None)

    def ready(self, task_id: str, into: str | None, message: str | None) -> tuple[Task, Worktree, Target, str]:
        """The task, its worktree, the branch to merge into and the commit of the task's branch, with nothing left uncommitted. Raises as `merge` does."""
        task = self._require(task_id)
        tree = self._tree(task)
        target = self.branches.target(tree, into)
        self._require_committed(task, tree, message)
        source = self.branches.source(tree, target.commit)
        if source == tree.base:
            raise nothing(task, tree)
        return task, tree, target, source

    def proceed(self, request: MergeRequest) -> MergeResult:
        """Continue a merge whose conflicts a person has resolved. Raises as `merge` does."""
        tree = self._tree(self._require(request.task_id))
        with self.branches.alone(tree, request.task_id):
            task = self._require(request.task_id)
            tree = self._tree(task)
            if tree.merge is None or tree.merge.state is not MergeState.CONFLICTS:
                raise Refused(
                    f"No merge of task {task.id} waits for conflicts to be resolved.",
                    hint=f"`wk merge {task.id}` begins one.",
                )
            plan = replace(tree.merge, resolved=True)
            target = self.branches.target(tree, plan.into)
            replayed = self.replays.proceed(tree, self.replays.place_for(task.id))
            return self._rounds(request, plan, target, replayed)

    def abort(self, task_id: str, *, by: str) -> Merge:
        """Give up a merge that has not ended, and return it. Raises NoSuchTask, Refused."""
        tree = self._tree_of(task_id)
        with self.branches.alone(tree, task_id):
            self._settle_cut_off(tree, by)
            tree = self._tree_of(task_id)
            if tree.merge is None:
                done = "" if tree.merged is None else f" It is merged into {tree.merged.into}."
                raise Refused(
                    f"No merge of task {task_id} is under way.{done}", hint=f"`wk show {task_id}` says where it stands."
                )
            _ = self.checks.end(task_id)
            self.replays.discard(tree, self.replays.place_for(task_id))
            self._record(task_id, MergeState.ENDED, tree.merge, by, f"{by} gave it up.")
            return tree.merge

    def _rounds(self, request: MergeRequest, plan: Merge, target: Target, replayed: Replayed | None) -> MergeResult:
        """Replay, check and move the branch, again while another hand moves it. A merge that cannot be made is ended on record."""
        try:
            if replayed is None:
                replayed, plan = self._begin(request, plan, target)
            for _ in range(ROUNDS):
                if plan.onto != target.commit and not replayed.conflicts:
                    place, onto = self.replays.place_for(request.task_id), target.commit
                    replayed = self.replays.again(self._tree_of(request.task_id), place, upstream=plan.onto, onto=onto)
                    plan = replace(plan, onto=onto)
                result = self._round(request, plan, target, replayed)
                if result is not None:
                    return result
                self._record(request.task_id, _resting(plan), plan, request.by, f"{plan.into} was moved meanwhile.")
                target = self.branches.target(self._tree_of(request.task_id), plan.into)
                self.on_step(f"{target.branch} was moved meanwhile, so the commits are replayed on it again.")
            raise restless(plan, ROUNDS)
        except MergeConflicts:
            raise
        except Refused as refusal:
            self._give_up(request, plan, str(refusal))
            raise

    def _begin(self, request: MergeRequest, plan: Merge, target: Target) -> tuple[Replayed, Merge]:
        task_id, tree = request.task_id, self._tree_of(request.task_id)
        plan = replace(plan, onto=target.commit)
        self._record(task_id, MergeState.BEGUN, plan, request.by)
        _ = self.checks.end(task_id)
        upstream, place = self._upstream(tree, target, plan.source), self.replays.place_for(task_id)
        return self.replays.replay(tree, place, source=plan.source, upstream=upstream, onto=target.commit), plan

    def _give_up(self, request: MergeRequest, plan: Merge, reason: str) -> None:
        """End it on record; what a person has resolved stays for the next try."""
        tree = self._tree_of(request.task_id)
        if tree.merge is None:
            return
        if plan.resolved:
            self._record(request.task_id, MergeState.CONFLICTS, replace(tree.merge, resolved=True), request.by, reason)
            return
        self.replays.discard(tree, self.replays.place_for(request.task_id))
        self._record(request.task_id, MergeState.ENDED, tree.merge, request.by, reason)

    def _round(self, request: MergeRequest, plan: Merge, target: Target, replayed: Replayed) -> MergeResult | None:
        """One try; None: the branch was moved by another hand."""
        task_id, tree = request.task_id, self._tree_of(request.task_id)
        place, tip = self.replays.place_for(task_id), replayed.tip
        if replayed.conflicts:
            self._record(task_id, MergeState.CONFLICTS, plan, request.by, ", ".join(replayed.conflicts[:NAMED]))
            raise MergeConflicts(task_id, plan.into, replayed.conflicts, place)
        if tip == plan.onto:
            return self._had_all(request, plan, target, place)
        if plan.squash:
            tip = self.replays.squash(tree, place, onto=plan.onto, message=self._message(task_id, plan))
        passed = self._check(request, place)
        plan = replace(plan, was=plan.onto, tip=tip)
        self._record(task_id, MergeState.LANDING, plan, request.by)
        landed = self.branches.land(tree, target, tip, f"wk merge: task {task_id}")
        if landed.moved:
            return None
        if landed.problem:
            raise Refused(landed.problem, hint=landed.hint)
        return self._merged(task_id, plan, request.by, checks=passed, checkouts=target.checkouts)

    def _had_all(self, request: MergeRequest, plan: Merge, target: Target, place: str) -> MergeResult:
        """The branch has all of it under other commits, so a person has merged it by hand."""
        tree = self._tree_of(request.task_id)
        self.replays.discard(tree, place)
        after = replace(plan, tip=target.commit)
        self._record(request.task_id, MergeState.MERGED, after, request.by)
        merged = Merged(into=plan.into, source=plan.source, tip=target.commit, by=request.by)
        return MergeResult(task=self._get(request.task_id), merged=merged, already=True)

    def _merged(
        self, task_id: str, plan: Merge, by: str, *, checks: int = 0, checkouts: tuple[str, ...] = ()
    ) -> MergeResult:
        """The branch has moved: tidy up, then record it. A crash between is seen by the next merge."""
        self.replays.discard(self._tree_of(task_id), self.replays.place_for(task_id))
        self._record(task_id, MergeState.MERGED, plan, by)
        merged = Merged(into=plan.into, source=plan.source, tip=plan.tip, by=plan.by)
        return MergeResult(task=self._get(task_id), merged=merged, checks=checks, checkouts=checkouts)

    def _settle_cut_off(self, tree: Worktree, by: str) -> None:
        """Complete or undo on record every merge into this repository that was cut off while its branch was moved. Raises Refused."""
        tasks = self.store.read(lambda tx: tx.tasks.some(tx.tasks.with_worktrees()))
        for task in tasks:
            other = task.spec.worktree
            if other is None or other.merge is None or other.merge.state is not MergeState.LANDING:
                continue
            if other.identity == tree.identity and task.spec.machine in {None, self.machine}:
                self._settle(task.id, other, other.merge, by)

    def _settle(self, task_id: str, tree: Worktree, plan: Merge, by: str) -> None:
        if self.branches.has(tree, plan.into, plan.tip):
            self.on_step(
                f"The merge of task {task_id} into {plan.into} was cut off after the branch had moved: it is recorded."
            )
            _ = self._merged(task_id, plan, by)
            return
        target = self.branches.target(tree, plan.into)
        if target.commit == plan.was:
            self.on_step(f"The merge of task {task_id} into {plan.into} was cut off: it is completed.")
            landed = self.branches.land(tree, target, plan.tip, f"wk merge: task {task_id}")
            if landed.problem:
                raise Refused(
                    f"The merge of task {task_id} was cut off and cannot be completed. {landed.problem}",
                    hint=landed.hint,
                )
            if not landed.moved:
                _ = self._merged(task_id, plan, by)
                return
        reason = f"It was cut off, and {plan.into} was moved by another hand since."
        if plan.resolved:
            self._record(task_id, MergeState.CONFLICTS, plan, by, reason)
            return
        self.replays.discard(tree, self.replays.place_for(task_id))
        self.on_step(f"The merge of task {task_id} is given up: {reason}")
        self._record(task_id, MergeState.ENDED, plan, by, reason)

    def _check(self, request: MergeRequest, place: str) -> int:
        """Run the task's checks at the new tip; how many there were. Raises Refused."""
        task = self._get(request.task_id)
        if not request.check:
            return 0
        deadline_s = task.spec.check_deadline_s or CHECK_DEADLINE_S
        for number, command in enumerate(task.spec.checks, 1):
            self.on_step(f"Check {number} of {len(task.spec.checks)} runs on the merged files: {command}")
            ended = self.checks.run(task.id, command, place, request.environ, deadline_s)
            if ended.problem:
                raise Refused(
                    f"The check '{command}' {ended.problem} on the merged files of task {task.id}, so nothing was merged.",
                    hint=f"Its output is in {self.checks.log_for(task.id)}; --no-check merges without checks.",
                )
        return len(task.spec.checks)

    def _upstream(self, tree: Worktree, target: Target, source: str) -> str:
        """The commit whose history is not replayed: after an earlier merge, what was merged then."""
        done = tree.merged
        if done is None or done.into != target.branch or not self.branches.has(tree, target.branch, done.tip):
            return target.commit
        return (
            done.source
            if source != done.source and self.branches.has(tree, tree.branch, done.source)
            else target.commit
        )

    def _is_merged(self, tree: Worktree, target: Target, source: str) -> bool:
        done = tree.merged
        if done is None or (done.into, done.source) != (target.branch, source):
            return False
        return self.branches.has(tree, target.branch, done.tip)

    def _message(self, task_id: str, plan: Merge) -> str:
        title = self._get(task_id).spec.title.strip() or f"Task {task_id}"
        return f"{title}\n\nThe work of task {task_id}, up to commit {plan.source[:SHORT]}.\n"

    def _require(self, task_id: str) -> Task:
        """The task, if its branch can be merged. Raises NoSuchTask, Refused."""
        task = self._get(task_id)
        _ = self._tree(task)
        if task.state not in FINAL_TASK_STATES:
            state = task.state.value.replace("_", " ")
            raise Refused(
                f"Task {task_id} is {state}, so its branch may still change.",
                hint=f"`wk wait {task_id}` waits for its end, `wk stop {task_id}` ends it.",
            )
        runs = self.store.read(lambda tx: tx.runs.of_task(task_id))
        doubtful = [run.number for run in runs if may_be_alive(run)]
        if doubtful:
            raise Refused(
                f"It is not proven that run {doubtful[0]} of task {task_id} has ended completely, so its branch may still change.",
                hint="Look for its processes first.",
            )
        return task

    def _tree(self, task: Task) -> Worktree:
        tree = task.spec.worktree
        if tree is None:
            raise Refused(
                f"Task {task.id} has no branch of its own: it worked in {task.spec.cwd}.",
                hint=f"`wk apply {task.id}` puts its changes into another checkout.",
            )
        if task.spec.machine not in {None, self.machine}:
            raise Elsewhere(f"The branch of task {task.id} is on another machine.", hint="Type it there.")
        return tree

    def _tree_of(self, task_id: str) -> Worktree:
        return self._tree(self._get(task_id))

    def _require_committed(self, task: Task, tree: Worktree, message: str | None) -> None:
        """See that nothing would be left behind; with a message, commit it. Raises Refused."""
        seen = self.worktrees.look(tree, task.id)
        if seen.problem:
            raise Refused(seen.problem, hint="Look at it; nothing was merged.")
        if not seen.present:
            return
        if seen.branch != tree.branch:
            now = f"the branch {seen.branch}" if seen.branch else "no branch"
            raise Refused(
                f"{now.capitalize()} is checked out in {tree.path}, not {tree.branch}, so it is not known what to merge.",
                hint=f"`git -C {tree.path} switch {tree.branch}` goes back.",
            )
        left = seen.changed + seen.hidden
        if not left:
            return
        if message is None or seen.hidden:
            raise uncommitted(task.id, tree, seen)
        self.on_step(f"Commits {len(left)} uncommitted change{'' if len(left) == 1 else 's'} of task {task.id}.")
        self.branches.commit(tree, message)

    def _get(self, task_id: str) -> Task:
        return self.store.read(lambda tx: tx.tasks.get(task_id))

    def _record(self, task_id: str, became: MergeState, merge: Merge, by: str, reason: str = "") -> None:
        def work(tx: Tx) -> None:
            at, after = self.clock.now(), replace(merge, state=became)
            step = MergeStep(became=became, merge=after, by=by, at=at, reason=reason)
            _ = apply_task(tx, tx.tasks.get(task_id), step, at)

        self.store.transact(f"merge_{became.value}", work)


def _resting(plan: Merge) -> MergeState:
    """How a merge stands on record between two tries."""
    return MergeState.CONFLICTS if plan.resolved else MergeState.BEGUN
