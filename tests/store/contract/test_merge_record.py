"""What became of a merge is kept beside the worktree, also while the task works, and nothing else of it can be changed with it."""

from dataclasses import replace

from support.records import add, make_spec, make_task, reserve

from watchkeeper.domain.merge import Merge, Merged, MergeState
from watchkeeper.domain.samples import a_merge, a_worktree
from watchkeeper.domain.worktree import WorktreeState
from watchkeeper.ports.store import Store, Tx


def test_a_merge_is_kept_as_it_stands_and_as_it_ended(store: Store) -> None:
    def begin(tx: Tx) -> None:
        _ = reserve(tx, add(tx, make_task("t1", spec=make_spec(worktree=a_worktree(WorktreeState.MADE)))))

    store.transact("begin", begin)
    ended = Merged(into="main", source="2" * 40, tip="3" * 40, by="ada")
    steps: tuple[tuple[Merge | None, Merged | None], ...] = ((a_merge(MergeState.LANDING), None), (None, ended))
    for merge, merged in steps:

        def record(tx: Tx, merge: Merge | None = merge, merged: Merged | None = merged) -> None:
            task = tx.tasks.get("t1")
            assert task.spec.worktree is not None
            tree = replace(task.spec.worktree, merge=merge, merged=merged)
            tx.tasks.save(replace(task, spec=replace(task.spec, worktree=tree)), task)

        store.transact("record", record)
        tree = store.read(lambda tx: tx.tasks.get("t1")).spec.worktree
        assert tree is not None
        assert (tree.merge, tree.merged) == (merge, merged)
