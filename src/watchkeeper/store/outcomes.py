"""Rows of outcomes, authorisations and launches."""

from typing import cast

from watchkeeper.domain.check_verdict import CheckVerdict
from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.model import Disposition, Outcome, OutcomeStatus, Proof, Result, Run
from watchkeeper.errors import Stale
from watchkeeper.ports.store import Authorisation, Launch
from watchkeeper.store.facts import (
    changes_from,
    exit_from,
    leftovers_from,
    profile_from,
    usage_from,
    working_directory_from,
)
from watchkeeper.store.rows import Row, RowConflict, Rows
from watchkeeper.store.values import Columns, plain_text, readable, record, ticks, ticks_or_none, to_json


class StoredOutcomes:
    """The port's `Outcomes`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def add(self, outcome: Outcome) -> None:
        said = {name: cast("object", getattr(outcome, name)) for name in (*_SAID, "result", "verdict")}
        try:
            _ = self._rows.run(
                "outcomes_add",
                run_id=outcome.run_id,
                fence=outcome.fence,
                status=outcome.status.value,
                disposition=outcome.disposition.value,
                kind=None if outcome.kind is None else outcome.kind.value,
                reason=outcome.reason,
                at=ticks(outcome.at),
                proof=outcome.proof.value,
                wake_at=ticks_or_none(outcome.wake_at),
                said=to_json(said),
                usage=to_json(outcome.usage),
                exit=None if outcome.exit is None else to_json(outcome.exit),
                changes=None if outcome.changes is None else to_json(outcome.changes),
                leftovers=to_json(outcome.leftovers),
            )
        except RowConflict as conflict:
            raise Stale(f"Run '{outcome.run_id}' has an outcome already: nothing was written.") from conflict

    def get(self, run_id: str) -> Outcome | None:
        row = self._rows.one("outcomes_get", run_id=run_id)
        return None if row is None else _outcome(row)

    def authorise(self, authorisation: Authorisation) -> None:
        """Record who allowed a task's launches. Raises Stale if the id is taken or there is no such task."""
        profile = authorisation.profile
        try:
            _ = self._rows.run(
                "outcomes_authorise",
                id=authorisation.id,
                task_id=authorisation.task_id,
                kind=authorisation.kind,
                by=authorisation.by,
                detail=authorisation.detail,
                at=ticks(authorisation.at),
                profile=None if profile is None else to_json(profile),
                fingerprint=None if profile is None else profile.fingerprint,
                directory=authorisation.directory,
                place=None if authorisation.place is None else to_json(authorisation.place),
            )
        except RowConflict as conflict:
            raise Stale(
                f"The authorisation '{authorisation.id}' cannot be recorded: nothing was written."
            ) from conflict

    def authorisation(self, task_id: str) -> Authorisation | None:
        return _authorisation(self._rows.one("outcomes_authorisation", task_id=task_id))

    def allowed_in(self, directory: str) -> Authorisation | None:
        found = readable(self._rows, self._rows.all("outcomes_allowed_in", directory=directory), authorisation_from)
        return found[0] if found else None

    def record_launch(self, run: Run, authorisation_id: str) -> None:
        """Record that a run's launch uses this authorisation. Raises Stale if the run has one already, or there is no such authorisation (R9)."""
        try:
            _ = self._rows.run(
                "outcomes_record_launch", run_id=run.id, authorisation_id=authorisation_id, at=ticks(run.claimed_at)
            )
        except RowConflict as conflict:
            raise Stale(f"The launch of run '{run.id}' cannot be recorded: nothing was written.") from conflict

    def launch(self, run_id: str) -> Launch | None:
        row = self._rows.one("outcomes_launch", run_id=run_id)
        authorisation = _authorisation(row)
        if row is None or authorisation is None:
            return None
        version = row[-1]
        return Launch(authorisation=authorisation, version=None if version is None else str(version))

    def record_version(self, run_id: str, version: str | None) -> None:
        _ = self._rows.run("outcomes_record_version", run_id=run_id, version=version)


_SAID = ("text", "harness_session", "model", "turns", "tool_calls")
"""What the agent program told of itself. It is kept as JSON because it may be anything at all, absurd numbers and broken text included."""


def _authorisation(row: Row | None) -> Authorisation | None:
    return None if row is None else authorisation_from(row)


def authorisation_from(row: Row) -> Authorisation:
    """What a row holds. Raises RecordTorn."""
    with Columns(row, "authorisation", task_id=str(row[1])) as column:
        return Authorisation(
            id=column.text(),
            task_id=column.text(),
            kind=column.text(),
            by=column.text(),
            detail=column.text(),
            at=column.time(),
            profile=profile_from(column.text_or_none(), column.text_or_none()),
            directory=column.text_or_none(),
            place=working_directory_from(column.text_or_none()),
        )


def _outcome(row: Row) -> Outcome:
    with Columns(row, "outcome", task_id=str(row[0]).rpartition(".")[0]) as column:
        return Outcome(
            run_id=column.text(),
            fence=column.number(),
            status=column.choice(OutcomeStatus),
            disposition=column.choice(Disposition),
            kind=column.choice_or_none(FailureKind),
            reason=column.text(),
            at=column.time(),
            proof=column.choice(Proof),
            wake_at=column.time_or_none(),
            **_said(column.text()),  # pyright: ignore[reportArgumentType] - the five fields of `_SAID`, the result and the verdict
            usage=usage_from(column.text()),
            exit=exit_from(column.text_or_none()),
            changes=changes_from(column.text_or_none()),
            leftovers=leftovers_from(column.text()),
        )


def _said(text: str) -> dict[str, object]:
    """What the agent program told of itself, and the class that was decided from it. Raises ValueError, TypeError."""
    said = record(text)
    said["result"] = None if said.get("result") is None else Result(plain_text(said["result"]))
    said["verdict"] = None if said.get("verdict") is None else CheckVerdict(plain_text(said["verdict"]))
    for name in ("text", "harness_session", "model"):
        if said.get(name) is not None and not isinstance(said.get(name), str):
            raise TypeError(f"'{name}' is not a text")
    return said
