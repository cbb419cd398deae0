"""Records are read strictly: what is not exactly right is not read at all."""

import json
from datetime import UTC, datetime

import pytest

from watchkeeper.domain.evidence import DecidedBy
from watchkeeper.domain.model import EndReason, Leftover
from watchkeeper.runtimes import records
from watchkeeper.runtimes.records import BadRecord

DECISION = {
    "by": "shim",
    "boot_id": "b",
    "pid_namespace": "pid:[1]",
    "pid": 5,
    "start_ticks": 6,
    "at": "2026-01-02T03:04:05+00:00",
}
AGENT = {
    "pid": 5,
    "start_ticks": 6,
    "boot_id": "b",
    "pid_namespace": "n",
    "shim_pid": 4,
    "shim_start_ticks": 3,
    "started_at": "2026-01-02T03:04:05Z",
}
EXIT = {
    "status": 9,
    "reason": "kill",
    "errno": None,
    "at": "2026-01-02T03:04:05Z",
    "elapsed_s": 2,
    "max_rss_kib": 7,
    "user_s": 0.1,
    "system_s": 0.1,
}
GONE = {"proof": "proven", "how": "echild", "at": "2026-01-02T03:04:05Z", "leftovers": [], "killed": 0}
SPEC = {"format": 1, "database": "d", "task": "t", "run": "r", "fence": 3, "execution": "e", "socket": "/s"}

PARSERS = {
    "decide": (records.parse_decision, DECISION),
    "proc.json": (records.parse_agent, AGENT),
    "exit.json": (records.parse_exit, EXIT),
    "gone.json": (records.parse_gone, GONE),
    "spec.json": (records.parse_spec, SPEC),
}
NEEDED = [
    (name, key)
    for name, (_, record) in PARSERS.items()
    for key in record
    if (name, key)
    not in {("exit.json", "user_s"), ("exit.json", "system_s"), ("gone.json", "how"), ("gone.json", "killed")}
]


def encoded(record: object) -> bytes:
    return json.dumps(record).encode()


def test_good_records_are_read_whole() -> None:
    """Every field that the domain wants arrives, times in UTC."""
    decision = records.parse_decision(encoded(DECISION))
    assert (decision.record.by, decision.pid, decision.start_ticks) == (DecidedBy.SHIM, 5, 6)
    agent = records.parse_agent(encoded(AGENT))
    assert (agent.agent.pid, agent.agent.start_ticks, agent.shim_pid, agent.shim_start_ticks) == (5, 6, 4, 3)
    assert agent.agent.started_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    ended = records.parse_exit(encoded(EXIT))
    assert (ended.signal, ended.reason, ended.elapsed_s, ended.max_rss_kib) == (9, EndReason.KILL, 2.0, 7)
    gone = records.parse_gone(encoded(GONE | {"leftovers": [{"pid": 8, "start_ticks": 1, "command": "x"}]}))
    assert gone.proven
    assert gone.leftovers == (Leftover(pid=8, command="x"),)
    spec = records.parse_spec(encoded(SPEC))
    assert (spec.identity.run_id, spec.identity.fence, spec.socket) == ("r", 3, "/s")


def test_unknown_keys_are_ignored() -> None:
    """A later shim of the same format may say more."""
    for parse, record in PARSERS.values():
        parse(encoded(record | {"more": [1, {"x": None}]}))


@pytest.mark.parametrize("name", PARSERS)
def test_a_record_cut_anywhere_is_unreadable(name: str) -> None:
    """No prefix of a record passes for a record."""
    parse, record = PARSERS[name]
    whole = encoded(record)
    for cut in range(len(whole)):
        with pytest.raises(BadRecord):
            parse(whole[:cut])


@pytest.mark.parametrize(("name", "key"), NEEDED)
def test_a_missing_or_mistyped_key_is_unreadable(name: str, key: str) -> None:
    """Nothing is guessed in place of a key that is missing, or of a wrong type or range."""
    parse, record = PARSERS[name]
    with pytest.raises(BadRecord, match=key):
        parse(encoded({k: v for k, v in record.items() if k != key}))
    for wrong in (True, -1, 1.5, "", "no such word", [1], {}, 10**30):
        if (name, key) == ("exit.json", "elapsed_s") and wrong == 1.5:
            continue
        if (
            wrong == "no such word"
            and isinstance(record[key], str)
            and key not in {"by", "reason", "proof", "at", "started_at"}
        ):
            continue
        with pytest.raises(BadRecord):
            parse(encoded(record | {key: wrong}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"\xff{}",
        b"[" * 100_000,
        encoded(DECISION)[:-1] + b', "by": "stop"}',
        b'{"a": NaN}',
        b"{} {}",
    ],
    ids=["empty", "null", "list", "text", "not utf-8", "deep", "doubled key", "NaN", "two"],
)
def test_what_is_not_one_json_object_is_unreadable(data: bytes) -> None:
    """JSON that means different things to different readers is not a record."""
    with pytest.raises(BadRecord):
        records.parse_decision(data)


def test_a_status_goes_with_its_reason() -> None:
    """Only a failed spawn has no wait status."""
    failed = records.parse_exit(encoded(EXIT | {"status": None, "reason": "spawn_failed", "errno": 2}))
    assert (failed.status, failed.errno) == (None, 2)
    assert (failed.step, failed.path) == (None, None)  # as earlier versions wrote it
    named = {"status": None, "reason": "spawn_failed", "errno": 2, "step": "chdir", "path": "/a"}
    told = records.parse_exit(encoded(EXIT | named))
    assert (told.step, told.path) == ("chdir", "/a")
    assert records.parse_exit(encoded(EXIT | {"step": None, "path": None})).step is None
    with pytest.raises(BadRecord):
        records.parse_exit(encoded(EXIT | {"status": None}))


def test_times_must_say_their_zone() -> None:
    """A local time could be off by a day."""
    with pytest.raises(BadRecord, match="zone"):
        records.parse_exit(encoded(EXIT | {"at": "2026-01-02T03:04:05"}))


def test_dropped_ranges() -> None:
    """Ranges are read for the log that was asked for, and only if each is one."""
    data = encoded({"stdout.log": [[0, 5], [9, 12]]})
    assert records.parse_dropped(data, "stdout.log") == [(0, 5), (9, 12)]
    assert records.parse_dropped(data, "stderr.log") == []
    for wrong in ([[5, 5]], [[-1, 2]], [[1]], [1], 3, [[1, 2.5]], [[False, 2]]):
        with pytest.raises(BadRecord):
            records.parse_dropped(encoded({"stdout.log": wrong}), "stdout.log")
