"""Hand-overs and retries of tasks whose program and directory are of no matter."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from support.records import make_profile, make_spec

from watchkeeper.app.add import Checked, Handed, hand_over
from watchkeeper.app.retry import Again, retry
from watchkeeper.domain.model import Task
from watchkeeper.errors import NoSuchTask
from watchkeeper.ports.store import Store, Tx
from watchkeeper.runtimes.system import RandomIds


def again(store: Store, task_id: str = "t1", environment: Mapping[str, str] | None = None) -> Again:
    """A retry of a task as it stands now, also of one that is not there."""

    def read(tx: Tx) -> Again:
        try:
            spec = tx.tasks.get(task_id).spec
        except NoSuchTask:
            spec = make_spec()
        return Again(
            task_id=task_id,
            spec=spec,
            allowed=tx.outcomes.authorisation(task_id),
            environment=environment or {},
            profile=make_profile(),
            approved=None,
            place=None,
        )

    return store.read(read)


def retry_with(store: Any, wanted: Again, **parts: Any) -> Task:
    """Run a task again with these parts: `environments`, `runtime` and `clock`."""
    return retry(_joined(store, parts), wanted, by="ada")


def hand_over_with(store: Store, checked: Sequence[Checked], **parts: Any) -> list[Handed]:
    """Hand these over with these parts: `environments` and `clock`."""
    return hand_over(_joined(store, parts), checked)


def _joined(store: Store, parts: dict[str, Any]) -> Any:
    return SimpleNamespace(store=store, ids=RandomIds(), machine="", require_room=lambda: None, **parts)
