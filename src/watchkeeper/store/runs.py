"""Rows of runs. A run is one row of `run` and one of `execution`: a conversation's process may come to carry more than one run."""

from collections.abc import Collection
from typing import cast

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.run_record import (
    LIVE_RUN_STATES,
    AgentIdentity,
    Cause,
    DirectoryIdentity,
    EarlyFail,
    Proof,
    Run,
    RunState,
)
from watchkeeper.domain.task_record import StopHow
from watchkeeper.errors import NotFound, Stale
from watchkeeper.store.facts import exit_from
from watchkeeper.store.rows import Row, RowConflict, Rows, SqlValue
from watchkeeper.store.values import Columns, readable, signed, ticks, ticks_or_none, to_json, torn, unsigned

_MOST_ROWS = 1000
"""Runs beside another that are looked at; their tasks are fewer."""

_ID, _EXECUTION, _STATE = 0, 4, 6
"""Columns of `run_whole`."""


class StoredRuns:
    """The port's `Runs`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def add(self, run: Run) -> None:
        try:
            # The claim first: it is the row that two claimants fight over.
            claimed = {"task_id": run.task_id, "run_id": run.id, "fence": run.fence, "machine": run.machine}
            _ = self._rows.run("runs_add_claim", **claimed)
            session = _session(run)
            _ = self._rows.run("runs_add_session", id=session, task_id=run.task_id, created_at=ticks(run.claimed_at))
            _ = self._rows.run(
                "runs_add_execution",
                id=run.execution_id,
                session_id=session,
                machine=run.machine,
                incarnation=run.incarnation,
                **_execution_columns(run),
            )
            _ = self._rows.run(
                "runs_add",
                id=run.id,
                task_id=run.task_id,
                number=run.number,
                fence=run.fence,
                execution_id=run.execution_id,
                cause=run.cause.value,
                claimed_at=ticks(run.claimed_at),
                **_run_columns(run),
            )
        except RowConflict as conflict:
            raise Stale(f"Task '{run.task_id}' is not free for run '{run.id}': nothing was written.") from conflict

    def get(self, run_id: str) -> Run:
        row = self._rows.one("runs_get", id=run_id)
        if row is None:
            found = self._rows.one("runs_task", id=run_id)
            if found is not None:
                raise torn("run", run_id, "its execution is missing", str(found[0]))
            raise NotFound(f"There is no run '{run_id}'.")
        return _run(row)

    def save(self, run: Run, was: Run) -> None:
        guard: dict[str, SqlValue] = {"fence": was.fence, "was_state": was.state.value}
        stale = Stale(f"Run '{was.id}' has moved on since it was read: nothing was written.")
        if run.id != was.id or run.fence != was.fence:
            raise stale
        columns = _execution_columns(run)
        # The execution's row goes first, because the database checks what the run's new state rests on.
        if columns != _execution_columns(was):
            saved = self._rows.run("runs_save_execution", id=was.execution_id, run_id=was.id, **guard, **columns)
            if saved != 1:
                raise stale
        if self._rows.run("runs_save", id=was.id, **guard, **_run_columns(run)) != 1:
            raise stale
        if run.harness_session is not None and run.harness_session != was.harness_session:
            _ = self._rows.run("runs_save_session", id=_session(was), harness_session=run.harness_session)
        if run.state is RunState.SETTLED:
            released = self._rows.one("runs_release", run_id=was.id, fence=was.fence)
            if released is None:
                raise stale
            if released[0] is not None:
                _ = self._rows.run("queue_unblock", checkout=released[0])

    def live(
        self,
        machine: str | None = None,
        states: Collection[RunState] = LIVE_RUN_STATES,
        named: Collection[str] | None = None,
    ) -> list[Run]:
        # To make a record of a row costs far more than to read the row, so rows are chosen first.
        found = self._rows.all("runs_live") if machine is None else self._rows.all("runs_live_on", machine=machine)
        others = {state.value for state in LIVE_RUN_STATES.difference(states)}  # an unknown state is met in every pass
        chosen = [row for row in found if row[_STATE] not in others]
        if named is not None:
            chosen = [row for row in chosen if row[_ID] in named or row[_EXECUTION] in named]
        return readable(self._rows, chosen, _run)

    def ids(self, machine: str, state: RunState) -> list[str]:
        """As the port says."""
        return [str(row[0]) for row in self._rows.all("runs_ids", machine=machine, state=state.value)]

    def of_task(self, task_id: str) -> list[Run]:
        # All or none: what is decided of a task from its runs must not leave one out.
        return [_run(row) for row in self._rows.all("runs_of_task", task_id=task_id)]

    def by_execution(self, execution_id: str) -> Run | None:
        """The run that an execution directory belongs to; of several the newest."""
        row = self._rows.one("runs_by_execution", execution_id=execution_id)
        return None if row is None else _run(row)

    def set_place(self, run: Run, place: str) -> None:
        if self._rows.run("runs_set_place", id=run.id, fence=run.fence, place=place) != 1:
            raise Stale(f"Run '{run.id}' has moved on since it was read: nothing was written.")

    def beside(self, run: Run, limit: int) -> list[str]:
        same = {"run_id": run.id, "machine": run.machine, "limit": _MOST_ROWS}
        found = self._rows.all("runs_live_beside", **same)
        found += self._rows.all("runs_settled_beside", since=ticks(run.claimed_at), **same)
        in_order = sorted(found, key=lambda row: cast("int", row[1]))
        return list(dict.fromkeys(str(row[0]) for row in in_order))[:limit]

    def next_fence(self) -> int:
        row = self._rows.one("runs_next_fence")
        with Columns(row or (), "fence") as column:
            return column.number()


def _session(run: Run) -> str:
    """The conversation that a run belongs to; a task has one."""
    return f"{run.task_id}.s1"


def _execution_columns(run: Run) -> dict[str, SqlValue]:
    directory, agent = run.directory, run.agent
    return {
        "device": None if directory is None else signed(directory.device),
        "inode": None if directory is None else signed(directory.inode),
        "shim_started_at": ticks_or_none(run.shim_started_at),
        "agent_pid": None if agent is None else agent.pid,
        "agent_start_ticks": None if agent is None else agent.start_ticks,
        "agent_boot_id": None if agent is None else agent.boot_id,
        "agent_started_at": None if agent is None else ticks(agent.started_at),
        "exit": None if run.exit is None else to_json(run.exit),
        "proof": None if run.proof is None else run.proof.value,
    }


def _run_columns(run: Run) -> dict[str, SqlValue]:
    early_fail = run.early_fail
    return {
        "state": run.state.value,
        "early_fail_kind": None if early_fail is None else early_fail.kind.value,
        "early_fail_reason": None if early_fail is None else early_fail.reason,
        "stop_told": None if run.stop_told is None else run.stop_told.value,
        "kind": None if run.kind is None else run.kind.value,
        "reason": run.reason,
        "harness_session": run.harness_session,
        "settled_at": ticks_or_none(run.settled_at),
        "answered_at": ticks_or_none(run.answered_at),
        "stalled_since": ticks_or_none(run.stalled_since),
        "stop_failed": run.stop_failed,
    }


def _run(row: Row) -> Run:
    with Columns(row, "run", task_id=str(row[1])) as column:
        return Run(
            id=column.text(),
            task_id=column.text(),
            number=column.number(),
            fence=column.number(),
            execution_id=column.text(),
            cause=column.choice(Cause),
            state=column.choice(RunState),
            machine=column.text(),
            incarnation=column.number(),
            claimed_at=column.time(),
            directory=_directory(column),
            shim_started_at=column.time_or_none(),
            agent=_agent(column),
            exit=exit_from(column.text_or_none()),
            early_fail=_early_fail(column),
            stop_told=column.choice_or_none(StopHow),
            proof=column.choice_or_none(Proof),
            kind=column.choice_or_none(FailureKind),
            reason=column.text(),
            harness_session=column.text_or_none(),
            settled_at=column.time_or_none(),
            answered_at=column.time_or_none(),
            stalled_since=column.time_or_none(),
            stop_failed=column.text_or_none(),
        )


def _directory(column: Columns) -> DirectoryIdentity | None:
    device, inode = column.number_or_none(), column.number_or_none()
    if device is None or inode is None:
        return None
    return DirectoryIdentity(device=unsigned(device), inode=unsigned(inode))


def _agent(column: Columns) -> AgentIdentity | None:
    pid, start_ticks = column.number_or_none(), column.number_or_none()
    boot_id, started_at = column.text_or_none(), column.time_or_none()
    if pid is None or start_ticks is None or boot_id is None or started_at is None:
        return None
    return AgentIdentity(pid=pid, start_ticks=start_ticks, boot_id=boot_id, started_at=started_at)


def _early_fail(column: Columns) -> EarlyFail | None:
    kind, reason = column.choice_or_none(FailureKind), column.text_or_none()
    return None if kind is None or reason is None else EarlyFail(kind=kind, reason=reason)
