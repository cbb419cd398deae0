"""Every byte of every record of an execution torn: nothing that was changed is believed, and nothing is concluded from it."""

import random
from collections.abc import Callable
from typing import cast

import pytest

from watchkeeper.runtimes import atomic, records
from watchkeeper.runtimes.records import BadRecord
from watchkeeper.shim import json_text
from watchkeeper.shim import records as of_shim

AT = "2026-03-01T12:00:00.123456+00:00"
RECORDS: dict[str, tuple[dict[str, object], Callable[[bytes], object]]] = {
    "spec.json": (
        {
            "format": 1, "database": "d", "task": "t1", "run": "t1.1", "fence": 7, "execution": "x1", "socket": "/s",
            "environment": {"A": "1"}, "asked": ["A"],
        },
        lambda data: (records.parse_spec(data), records.parse_environment(data), records.parse_asked(data)),
    ),
    "decide": (
        {"by": "shim", "boot_id": "b", "pid_namespace": "4026531836", "pid": 12, "start_ticks": 99, "at": AT},
        records.parse_decision,
    ),
    "proc.json": (
        {
            "pid": 13, "start_ticks": 100, "boot_id": "b", "started_at": AT, "pid_namespace": "4026531836",
            "shim_pid": 12, "shim_start_ticks": 99,
        },
        records.parse_agent,
    ),
    "exit.json": (
        {
            "status": 0, "reason": "exited", "at": AT, "elapsed_s": 1.5, "errno": None, "max_rss_kib": 3, "step": None,
            "path": None,
        },
        records.parse_exit,
    ),
    "gone.json": ({"at": AT, "proof": "proven", "leftovers": [{"pid": 14, "command": "sleep"}]}, records.parse_gone),
    "dropped.json": ({"stdout.log": [[0, 10]]}, lambda data: records.parse_dropped(data, "stdout.log")),
    "before.json": ({"head": "abc", "files": {}}, records.load),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_no_flipped_bit_is_believed(name: str) -> None:
    """It reads as it was written, or not at all. What is flipped in the name of the checksum's key leaves the rest as it was."""
    record, parse = RECORDS[name]
    whole = atomic.encode(record)
    meant = parse(whole)
    chance = random.Random(name)
    for place in range(len(whole)):
        torn = bytearray(whole)
        torn[place] ^= 1 << chance.randrange(8)
        try:
            found = parse(bytes(torn))
        except BadRecord:
            continue
        if name == "before.json":
            found = {key: value for key, value in cast("dict[str, object]", found).items() if key in record}
        assert found == meant, (place, bytes(torn))


@pytest.mark.parametrize("name", RECORDS)
def test_no_part_is_believed(name: str) -> None:
    """Cut off at any length it is unreadable; only the line's end may be missing from what is read as older."""
    record, parse = RECORDS[name]
    whole = atomic.encode(record)
    for length in range(len(whole)):
        with pytest.raises(BadRecord):
            _ = parse(whole[:length])


@pytest.mark.parametrize("name", RECORDS)
def test_records_without_a_checksum_are_read(name: str) -> None:
    """Those of an earlier version."""
    record, parse = RECORDS[name]
    older = json_text.encode(record).encode() + b"\n"
    assert parse(older) == parse(atomic.encode(record))


@pytest.mark.parametrize("record", [{}, {"a": 1}, {"text": '"crc32": "'}, {"crc32": "mine"}])
def test_shim_and_daemon_seal_alike(record: dict[str, object]) -> None:
    """Each reads what the other wrote; whatever texts are in it."""
    text = json_text.encode(record).encode()
    assert of_shim.sealed(text) == atomic.sealed(text)
    assert of_shim.unsealed(atomic.sealed(text)) == atomic.unsealed(of_shim.sealed(text)) == text
    assert records.load(of_shim.sealed(text)) == record


def test_a_flipped_digit_of_a_status_is_no_signal() -> None:
    """A status of 0 became "signal 28, proven"."""
    whole = atomic.encode(RECORDS["exit.json"][0])
    torn = whole.replace(b'"status": 0', b'"status": 28')
    with pytest.raises(BadRecord, match="checksum"):
        _ = records.parse_exit(torn)
