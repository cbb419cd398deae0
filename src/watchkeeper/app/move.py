"""What a move of everything into another database asks of the records: that no daemon works on it, and that waiting tasks keep their machine."""

from dataclasses import replace

from watchkeeper.domain.model import FINAL_TASK_STATES, Task, TaskState
from watchkeeper.errors import Refused
from watchkeeper.ports.store import Store, Tx

_PAGE = 500


def refuse_at_work(store: Store, where: str, node: str, *, shared: bool) -> None:
    """Refuse to move a database that a daemon works on, or whose agents could not reach the new one.

    Args:
        store: the database that would be moved.
        where: what people call it.
        node: the id of this machine.
        shared: whether other machines can reach the new database.

    Raises:
        Refused: a daemon holds a lease on it, or agents of another machine are running.
    """
    now, (machines, live) = store.time(), store.read(lambda tx: (tx.machines.all(), tx.runs.live()))
    names = {each.id: each.name or each.id for each in machines}
    for each in machines:
        if now is not None and each.lease_until is not None and each.lease_until > now:
            raise Refused(
                f"A daemon of {names[each.id]} works on {where}: nothing was copied.",
                hint="Stop it there: `wk daemon stop`. One that was killed is forgotten within a minute.",
            )
    others = {names.get(run.machine, run.machine) for run in live if run.machine != node}
    if others and not shared:
        raise Refused(
            f"Agents are running on {', '.join(sorted(others))}, which could not reach the database of this machine: nothing was copied."
        )


def bind(tx: Tx, node: str) -> int:
    """Bind what any machine could run or do to the machine `node`, the only one that there was; returns how many tasks were bound."""
    states = [state for state in TaskState if state not in FINAL_TASK_STATES]
    tx.outbox.bind(node)
    bound = 0
    last: str | None = None
    while page := tx.tasks.in_states(states, _PAGE, last):
        last = page[-1].id
        for task in page:
            now = _bound(task, node)
            if now != task:
                tx.tasks.save(now, task)
                bound += 1
    return bound


def _bound(task: Task, node: str) -> Task:
    kept = replace(task, environment_machine=task.environment_machine or node)
    if task.state is not TaskState.QUEUED or task.spec.machine is not None or task.environment_machine:
        return kept
    return replace(kept, spec=replace(task.spec, machine=node))
