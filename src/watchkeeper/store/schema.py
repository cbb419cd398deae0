"""The tables of every database of Watchkeeper."""

from collections.abc import Mapping

TABLES: Mapping[str, str] = {
    "meta": "id", "machine": "id", "lane": "id", "task": "seq", "spec": "task_id", "dependency": "task_id, on_id",
    "label": "task_id, name", "queue_rule": "scope, name", "lane_closed": "machine, lane", "account": "id",
    "account_state": "account, machine", "harness_state": "harness, machine", "authorisation": "seq", "session": "id",
    "execution": "id", "run": "id", "claim": "task_id", "launch": "run_id", "outcome": "run_id",
    "side_command": "run_id, kind, number", "changes_before_checks": "run_id", "message": "task_id, number", "turn": "run_id", "journal": "seq",
    "outbox": "id", "operation": "id", "tally": "state", "damage": "place, id", "removed_task": "id",
    "notice_sink": "machine, sink",
}  # fmt: skip
"""Every table, each after those that it refers to, and the order of its rows."""
