"""On a server, too, what cannot be so is named, and made anew as a person chose."""

from contextlib import closing

import pytest
from support.postgres import ask
from support.records import NOON
from support.torn import fill

from watchkeeper.app.repair import search
from watchkeeper.domain.repair import Repair
from watchkeeper.ports.damage import Known
from watchkeeper.store.postgres.location import PostgresLocation
from watchkeeper.store.postgres.store import PostgresStore
from watchkeeper.store.repair import repair


@pytest.mark.parametrize(
    ("sql", "record", "what"),
    [
        ("UPDATE tally SET tasks = 7 WHERE state = 'held'", "tally:held", Repair.MEND),
        ("UPDATE meta SET fence = 1", "meta:1", Repair.MEND),
        ("DELETE FROM meta", "meta:1", Repair.MEND),
        ("UPDATE task SET unmet = 5 WHERE id = 'queued-a'", "wait:queued-a", Repair.MEND),
        ("UPDATE task SET lane = 99 WHERE id = 'queued-a'", "wait:queued-a", Repair.MEND),
        (f"UPDATE journal SET seq = {(1 << 63) - 1} WHERE seq = 1", "number:journal", Repair.MEND),
        ("UPDATE counter SET last = 0 WHERE name = 'task'", "number:task", Repair.MEND),
        ("DELETE FROM task WHERE id = 'start-a'", "claim:start-a", Repair.DROP),
        ("DELETE FROM execution WHERE id = (SELECT execution_id FROM run WHERE task_id = 'start-a')", "run:", Repair.FAIL),
        ("INSERT INTO queue_rule VALUES ('all', '', 0, 0, 'x', 0)", "queue_rule:all", Repair.DROP),
        ("UPDATE outbox SET kind = 'dance' WHERE id = (SELECT min(id) FROM outbox)", "outbox:", Repair.DROP),
    ],
)  # fmt: skip
def test_what_cannot_be_so_is_mended(postgres: PostgresStore, url: str, sql: str, record: str, what: Repair) -> None:
    postgres.transact("fill", fill)
    assert search(postgres) == []
    checks = (
        "ALTER TABLE watchkeeper.queue_rule DROP CONSTRAINT queue_rule_max_running_check; " if "rule" in sql else ""
    )
    _ = ask(url, f"SET session_replication_role = replica; SET search_path TO watchkeeper; {checks}{sql}")
    found = search(postgres)
    if checks:
        _ = ask(url, "ALTER TABLE watchkeeper.queue_rule ADD CHECK (max_running > 0) NOT VALID")
        found = search(postgres)
    damage = next(each for each in found if each.name.startswith(record))
    with closing(postgres):
        repair(
            postgres, PostgresLocation(url, "test"), damage, what, reason="torn", by="ada", at=NOON, known=Known("d" * 32, 3)
        )  # fmt: skip
        assert search(postgres) == []
