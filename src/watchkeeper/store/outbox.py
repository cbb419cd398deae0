"""Rows of the outbox. A kind of effect that is not known here was put by a newer version; it is left for that version, and does not block other effects."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import cast

from watchkeeper.domain.effects import EFFECTS, LONGEST_WAIT, Effect
from watchkeeper.domain.model import EndReason, StopHow
from watchkeeper.ports.store import OutboxRow
from watchkeeper.store.checked import checked
from watchkeeper.store.rows import Row, Rows
from watchkeeper.store.values import Columns, readable, record, ticks, to_json

_BY_KIND = {effect.kind: effect for effect in EFFECTS}
_CHOICES = {"how": StopHow, "why": EndReason}
"""The fields of effects that hold one of a closed list."""

_PAGE = 100
_RUN = re.compile(r'"run_id":\s*"([^".]+)\.')


class StoredOutbox:
    """The port's `Outbox`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def put(self, effects: Sequence[Effect], at: datetime, machine: str = "") -> None:
        for effect in effects:
            _ = self._rows.run("outbox_put", kind=effect.kind, payload=to_json(effect), at=ticks(at), machine=machine)

    def due(self, now: datetime, limit: int, machine: str = "") -> list[OutboxRow]:
        due: list[OutboxRow] = []
        after = 0
        while len(due) < limit:
            page = self._rows.all(
                "outbox_due",
                now=ticks(now),
                beyond=ticks(now + LONGEST_WAIT),
                after=after,
                machine=machine,
                limit=_PAGE,
            )
            due += [row for row in readable(self._rows, page, row_from) if row is not None]
            if len(page) < _PAGE:
                break
            after = _id(page[-1])
        return due[:limit]

    def done(self, row_id: int) -> None:
        _ = self._rows.run("outbox_done", id=row_id)

    def again(self, row_id: int, not_before: datetime) -> None:
        """It did not work: try again then. For an effect that is done meanwhile this does nothing."""
        _ = self._rows.run("outbox_again", id=row_id, not_before=ticks(not_before))

    def bind(self, machine: str) -> None:
        """What any machine may do is from now on done by this one."""
        _ = self._rows.run("outbox_bind", machine=machine)

    def next_due(self, machine: str = "") -> datetime | None:
        """When the next effect that this machine may do, and knows how to do, is due."""
        offset = 0
        while page := self._rows.all("outbox_soonest", machine=machine, limit=_PAGE, offset=offset):
            for row in readable(self._rows, page, row_from):
                if row is not None:
                    return row.not_before
            offset += _PAGE
        return None

    def pending(self) -> int:
        """How many wait, those that are not known here included."""
        with Columns(self._rows.one("outbox_pending") or (), "count") as column:
            return column.number()


def _id(row: Row) -> int:
    with Columns(row, "outbox") as column:
        return column.number()


def row_from(row: Row) -> OutboxRow | None:
    """What a row holds. Raises RecordTorn."""
    with Columns(row, "outbox", task_id=_task_of(str(row[2]))) as column:
        row_id, kind, payload = column.number(), column.text(), column.text()
        attempts, not_before = column.number(), column.time()
        effect = _effect(kind, record(payload))
    return None if effect is None else OutboxRow(id=row_id, effect=effect, attempts=attempts, not_before=not_before)


def _task_of(payload: str) -> str | None:
    """The task of a payload, as far as that can be told of a torn one."""
    found = _RUN.search(payload)
    return None if found is None else found[1]


def _effect(kind: str, payload: dict[str, object]) -> Effect | None:
    """The effect; None for a kind that is not known. Raises ValueError, TypeError."""
    known = _BY_KIND.get(kind)
    if known is None:
        return None
    for name in _CHOICES.keys() & payload.keys():
        payload[name] = _CHOICES[name](cast("str", payload[name]))
    return cast("Effect", cast("object", checked(known, payload)))
