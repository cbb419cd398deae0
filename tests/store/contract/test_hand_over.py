"""A hand-over under a key gives one task, however often and by however many it is repeated."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from runtimes.stage import SteppedClock
from support.handing import hand_over_with
from support.records import NOON, make_profile, make_spec

from watchkeeper.app.add import Checked, Handed
from watchkeeper.domain.handover import digest
from watchkeeper.domain.model import Task, TaskState
from watchkeeper.errors import KeyTaken, NoSuchTask, Stale
from watchkeeper.ports.store import Store, Tx
from watchkeeper.runtimes.environments import FileEnvironments


class Hands:
    """A caller that hands over."""

    def __init__(self, store: Store, root: Path) -> None:
        self.store, self.root = store, root
        self.environments = FileEnvironments(root / "environments")

    def over(self, *asked: Mapping[str, object], after: tuple[str, ...] = ()) -> list[Handed]:
        """Hand these over at once; the second one may wait for the first, which is called `first`."""
        handed = [
            Checked(
                spec=make_spec(cwd=str(self.root), after=after if number else ()),
                profile=make_profile(),
                environment={"WHO": str(number)},
                by="ada",
                id=None if number else str(each.get("id", "")) or None,
                key=str(each.get("key", "")),
                key_digest=digest({"prompt": each.get("prompt")}),
            )
            for number, each in enumerate(asked)
        ]
        return hand_over_with(self.store, handed, environments=self.environments, clock=SteppedClock(NOON))

    def kept(self) -> set[str]:
        """Which environments are kept."""
        return {path.stem for path in (self.root / "environments").iterdir()}


def _end(tx: Tx, task: Task) -> None:
    """End and remove a task."""
    tx.tasks.save(replace(task, state=TaskState.STOPPED, ended_at=NOON), task)
    tx.deletion.remove_task(task.id)


@pytest.fixture
def hands(store: Store, tmp_path: Path) -> Hands:
    return Hands(store, tmp_path)


def test_the_same_gives_the_same_task(hands: Hands) -> None:
    """And only the first environment is kept."""
    (first,) = hands.over({"key": "k", "prompt": "a"})
    (again,) = hands.over({"key": "k", "prompt": "a"})
    assert not first.already and again.already
    assert again.task == first.task and again.key == "k"
    assert hands.kept() == {first.task.environment_id}
    assert hands.store.read(lambda tx: tx.tasks.key_of(first.task.id)) == "k"


def test_another_content_is_refused_by_name(hands: Hands) -> None:
    """Nothing is added, not even what was handed over with it, and no environment is kept for it."""
    (first,) = hands.over({"key": "k", "prompt": "a"})
    with pytest.raises(KeyTaken, match=rf"{first.task.id}.*another prompt"):
        hands.over({}, {"key": "k", "prompt": "b"})
    assert len(hands.store.read(lambda tx: tx.tasks.ids_like("", 9))) == 1
    assert hands.kept() == {first.task.environment_id}


def test_what_waits_for_it_waits_for_the_task_that_is_there(hands: Hands) -> None:
    (first,) = hands.over({"key": "k"})
    found, new = hands.over({"key": "k", "id": "freshone"}, {}, after=("freshone",))
    assert found.task.id == first.task.id and new.task.spec.after == (first.task.id,)


def test_a_key_is_free_when_its_task_is_removed(hands: Hands) -> None:
    """And not before; without a key everything is a new task."""
    (first,) = hands.over({"key": "k", "prompt": "a"})
    assert hands.over({})[0].task.id != hands.over({})[0].task.id
    hands.store.transact("test", lambda tx: _end(tx, first.task))
    with pytest.raises(NoSuchTask):
        hands.store.read(lambda tx: tx.tasks.get(first.task.id))
    (other,) = hands.over({"key": "k", "prompt": "b"})
    assert not other.already and other.task.id != first.task.id


def test_the_database_itself_lets_no_key_stand_for_two(hands: Hands) -> None:
    one, two = hands.over({"key": "k"}, {})
    with pytest.raises(Stale):
        hands.store.transact("test", lambda tx: tx.tasks.take_key(two.task.id, "k", "x"))
    assert hands.store.read(lambda tx: tx.tasks.keyed("k")) == (one.task.id, digest({}))


def test_ten_at_once_give_one_task(store_factory: Callable[[], Store], tmp_path: Path) -> None:
    """Each with a connection of its own."""
    stores = [store_factory() for _ in range(10)]
    (tmp_path / "environments").mkdir()
    start = Barrier(10)

    def one(store: Store) -> Handed:
        hands = Hands(store, tmp_path)
        _ = start.wait()
        return replace(hands.over({"key": "k", "prompt": "a"})[0])

    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(one, stores))
    assert len({each.task.id for each in found}) == 1
    assert sum(not each.already for each in found) == 1
    assert {path.stem for path in (tmp_path / "environments").iterdir()} == {found[0].task.environment_id}
