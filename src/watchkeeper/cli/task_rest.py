"""Waiting until tasks come to rest, or until nothing more happens to them unless a person acts, and what that means for an exit code."""

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchkeeper.cli import daemon
from watchkeeper.cli.follow import NET_S, Watcher
from watchkeeper.cli.render import clean
from watchkeeper.domain.model import RESTING_TASK_STATES, Task, TaskState
from watchkeeper.errors import Exit, NoSuchTask

if TYPE_CHECKING:
    from watchkeeper.app.views.standstill import Standstill
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.store import Store, Tx

CODES: dict[TaskState, Exit] = {
    TaskState.DONE: Exit.OK,
    TaskState.FAILED: Exit.TASK_FAILED,
    TaskState.NEEDS_INPUT: Exit.NEEDS_YOU,
    TaskState.HELD: Exit.NEEDS_YOU,
    TaskState.STOPPED: Exit.TASK_STOPPED,
}
"""The exit code for where a task came to rest."""

_WORST_FIRST = (
    Exit.TASK_FAILED, Exit.NEEDS_YOU, Exit.DAEMON, Exit.NOT_FOUND, Exit.TASK_STOPPED, Exit.TIMEOUT,
)  # fmt: skip

_LOOK_S = 1.0
_STEADY_S = 2.0
"""So long nothing may change before a wait is given up: a daemon itself opens some ways again, such as that of a sign-in that has changed."""

_ALONE_S = 10.0
"""So long no daemon may run before a wait is given up: one that is restarted, or that systemd starts again, is back by then."""


def at_rest(task: Task) -> bool:
    """Whether nothing happens to a task until a person acts, as its state alone tells."""
    return task.state in RESTING_TASK_STATES


def worst(codes: Iterable[Exit]) -> Exit:
    """The exit code of several tasks: failed, needs you, no daemon, removed, stopped, done."""
    found = set(codes)
    return next((code for code in _WORST_FIRST if code in found), Exit.OK)


def code_of(task: Task, still: "Standstill | None") -> Exit:
    """The exit code for how a task stands when the waiting ends."""
    if still is not None:
        return Exit.DAEMON if still.wait is None else Exit.NEEDS_YOU
    return CODES.get(task.state, Exit.TIMEOUT)


def describe(still: "Standstill") -> str:
    """Why nothing more happens to a task, in a line for people."""
    if still.wait is None:
        return f"{clean(still.detail)}; start one: wk daemon start"
    return f"{still.wait.value}: {clean(still.detail)}"


def plain(still: "Standstill | None") -> dict[str, object] | None:
    """The same as JSON values."""
    return None if still is None else {"wait": still.wait and still.wait.value, "detail": still.detail}


class Outlook:
    """Notices during a wait that none of the tasks makes progress until a person acts."""

    def __init__(self, call: "Call", store: "Store") -> None:
        """Begin."""
        self._call = call
        self._store = store
        self._next = 0.0
        self._since: float | None = None

    def standstills(self, tasks: Sequence[Task]) -> "list[Standstill]":
        """Why nothing more happens to each of them that is not at rest, once that has been so for a while; empty until then."""
        now = time.monotonic()
        if now < self._next or all(at_rest(task) for task in tasks):
            return []
        self._next = now + _LOOK_S
        found = self._read(tasks)
        if not found:
            self._since = None
            return []
        self._since = now if self._since is None else self._since
        patience_s = _ALONE_S if any(each.wait is None for each in found) else _STEADY_S
        return found if now - self._since >= patience_s else []

    def _read(self, tasks: Sequence[Task]) -> "list[Standstill] | None":
        from watchkeeper.app.views.standstill import standstill
        from watchkeeper.cli.machines import this_machine

        try:
            acts = daemon.is_there(self._call)
            return standstill(self._store, this_machine(self._call), self._call.runtime, tasks, acts=acts)
        except NoSuchTask:
            return None  # one was removed in this instant: the next look knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """How tasks stand when the waiting for them ends."""

    tasks: dict[str, Task]
    """By id, as they were last seen."""
    removed: frozenset[str]
    """Those that were removed before they came to rest."""
    still: "dict[str, Standstill]"
    """Why those that are not at rest make no progress; empty if one of them may continue."""

    def is_over(self, task_id: str) -> bool:
        """Whether nothing more is to be expected of a task."""
        return at_rest(self.tasks[task_id]) or task_id in self.removed or task_id in self.still

    def code(self, task_id: str) -> Exit:
        """The exit code of one of them."""
        if task_id in self.removed:
            return Exit.NOT_FOUND
        return code_of(self.tasks[task_id], self.still.get(task_id))


def wait_for_rest(
    call: "Call",
    store: "Store",
    begin: Sequence[Task],
    *,
    any_: bool = False,
    timeout_s: float | None = None,
    progress: Callable[[list[Task], float], None] | None = None,
) -> Rest:
    """Wait until the tasks are at rest, one of them with `any_`, or nothing more happens to any of them unless a person acts, or the time is over.

    `begin`: the tasks as they were just now.
    """
    tasks = {task.id: task for task in begin}
    removed: set[str] = set()
    still: list[Standstill] = []
    outlook = Outlook(call, store)

    def enough(now: list[Task]) -> bool:
        nonlocal still
        known = {task.id: task for task in now}
        removed.update(each for each, task in tasks.items() if each not in known and not at_rest(task))
        tasks.update(known)
        over = [at_rest(task) or each in removed for each, task in tasks.items()]
        still = outlook.standstills([task for each, task in tasks.items() if each not in removed])
        return (any if any_ else all)(over) or bool(still)

    _ = wait_for(call, store, list(tasks), enough, timeout_s, progress)
    return Rest(tasks=tasks, removed=frozenset(removed), still={each.task_id: each for each in still})


def wait_for(
    call: "Call",
    store: "Store",
    task_ids: Sequence[str],
    enough: Callable[[list[Task]], bool],
    timeout_s: float | None = None,
    progress: Callable[[list[Task], float], None] | None = None,
) -> list[Task]:
    """Wait until the tasks are as they should be, or the time is over; returns how they stand then, in the order given, without those that were removed."""
    began = time.monotonic()
    changed, mark = store.changed(0)
    daemon_watcher = daemon.DaemonWatcher(call)
    with Watcher([call.reading.state.path]) as watcher:
        tasks = there(store, task_ids)
        while not enough(tasks):
            passed_s = time.monotonic() - began
            left_s = NET_S if timeout_s is None else timeout_s - passed_s
            if left_s <= 0:
                break
            daemon_watcher.check()
            if progress is not None:
                progress(tasks, passed_s)
            watcher.wait(left_s)
            changed, mark = store.changed(mark)
            if changed:
                tasks = there(store, task_ids)
    call.terminal.clear_status()
    return tasks


def there(store: "Store", task_ids: Sequence[str]) -> list[Task]:
    """How tasks stand now, without those that were removed."""

    def read(tx: "Tx") -> list[Task]:
        found: list[Task] = []
        for task_id in task_ids:
            with contextlib.suppress(NoSuchTask):
                found.append(tx.tasks.get(task_id))
        return found

    return store.read(read)


def load(store: "Store", task_ids: Sequence[str]) -> list[Task]:
    """How tasks stand now. Raises NoSuchTask."""
    return store.read(lambda tx: [tx.tasks.get(task_id) for task_id in task_ids])
