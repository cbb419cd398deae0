"""On which machine a run is, where several share the database, and whether that machine was heard of lately.

Only what is recorded is said of a run on another machine: its directory and its processes can be looked at there alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from watchkeeper.domain.run_record import LIVE_RUN_STATES, Run, RunState
from watchkeeper.errors import RecordTorn

if TYPE_CHECKING:
    from datetime import datetime

    from watchkeeper.domain.task_record import Task
    from watchkeeper.ports.runtime import Runtime
    from watchkeeper.ports.store import MachineRecord, Store, Tx


class Whereabouts(NamedTuple):
    """A machine, as it stood when the records were read."""

    machine: str
    name: str
    reachable: bool
    since: datetime | None
    """Since when nothing was heard of it, if anything ever was."""

    @property
    def detail(self) -> str:
        """Where it is, in a few words."""
        if self.reachable:
            return f"on {self.name}"
        since = f" since {self.since:%Y-%m-%d %H:%M} UTC" if self.since is not None else ""
        return f"on {self.name}, unreachable{since}"


def of_machine(machine: MachineRecord, now: datetime) -> Whereabouts:
    """How a machine stands at a time."""
    until = machine.lease_until
    return Whereabouts(
        machine=machine.id,
        name=machine.name or machine.id,
        reachable=until is not None and until > now,
        since=until,
    )


def of_run(store: Store, tx: Tx, run: Run | None) -> Whereabouts | None:
    """Where a run is; None where there is but one machine."""
    if run is None or not store.is_shared:
        return None
    now, machine = store.time(), None
    try:
        machine = tx.machines.get(run.machine)
    except RecordTorn as problem:
        tx.damage.note(problem)
    if machine is None or now is None:
        return Whereabouts(machine=run.machine, name=run.machine, reachable=False, since=None)
    return of_machine(machine, now)


def everyone(store: Store) -> list[Whereabouts]:
    """Every machine that shares the database; none where there is but one."""
    now = store.time()
    if not store.is_shared or now is None:
        return []
    return [of_machine(machine, now) for machine in store.read(lambda tx: tx.machines.all())]


def elsewhere(run: Run, there: Whereabouts | None, runtime: Runtime | None) -> Whereabouts | None:
    """Where it is, if that is not here."""
    if there is None or runtime is None or run.machine == runtime.machine:
        return None
    return there


def observe(task: Task, run: Run, there: Whereabouts) -> tuple[str, str, None, None] | None:
    """A word and a sentence for a run that is elsewhere, from what is recorded; None for one that is settled."""
    if run.state not in LIVE_RUN_STATES:
        return None
    if not there.reachable:
        return "unreachable", there.detail, None, None
    match run.state:
        case RunState.HELD:
            return "held", f"{there.detail}: {task.reason}", None, None
        case RunState.ENDED:
            word = "ending"
        case RunState.RUNNING:
            word = "running"
        case _:
            word = "starting"
    if task.stop is not None and word != "ending":
        return "stopping", f"{there.detail}; {task.stop.by} told it to {task.stop.how.value}.", None, None
    return word, there.detail, None, None
