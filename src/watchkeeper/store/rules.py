"""Rows of the queue's rules, and of what was announced about closed lanes."""

from datetime import datetime

from watchkeeper.domain.lanes import Lane, QueueRule
from watchkeeper.store.rows import Row, Rows
from watchkeeper.store.values import Columns, readable, ticks_or_none


class StoredRules:
    """The port's `Rules`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def all(self) -> list[QueueRule]:
        return readable(self._rows, self._rows.all("rules_all"), rule_from)

    def put(self, rule: QueueRule) -> None:
        if not rule.paused and rule.max_running is None:
            _ = self._rows.run("rules_drop", scope=rule.scope, name=rule.name)
            return
        _ = self._rows.run(
            "rules_put",
            scope=rule.scope,
            name=rule.name,
            paused=int(rule.paused),
            max_running=rule.max_running,
            by=rule.by,
            at=ticks_or_none(rule.at) or 0,
        )

    def announced(self, machine: str) -> dict[int, str]:
        return dict(readable(self._rows, self._rows.all("rules_announced", machine=machine), announced_from))

    def announce(self, machine: str, lane: Lane, reason: str | None, at: datetime) -> None:
        if reason is None:
            self.forget(machine, lane.id)
        else:
            _ = self._rows.run("rules_close", machine=machine, lane=lane.id, reason=reason, at=ticks_or_none(at))

    def forget(self, machine: str, lane_id: int) -> None:
        _ = self._rows.run("rules_open", machine=machine, lane=lane_id)


def announced_from(row: Row) -> tuple[int, str]:
    """What a row holds. Raises RecordTorn."""
    with Columns(row, "lane_closed") as column:
        return column.number(), column.text()


def rule_from(row: Row) -> QueueRule:
    """What a row holds. Raises RecordTorn."""
    with Columns(row, "queue_rule", key=f"{row[0]} {row[1]}".strip()) as column:
        return QueueRule(
            scope=column.text(),
            name=column.text(),
            paused=bool(column.number()),
            max_running=column.number_or_none(),
            by=column.text(),
            at=column.time(),
        )
