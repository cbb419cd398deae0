"""Which changes are notices, when a sink that failed is tried again, and what quiet hours put off."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.domain.notice import (
    FIRST_WAIT,
    LONGEST_WAIT,
    PATIENCE,
    Answer,
    Notice,
    NoticeKind,
    QuietHours,
    SinkName,
    SinkState,
    attempted,
    given_up,
    kind_of,
)
from watchkeeper.domain.notice_settings import (
    masked_address,
    quiet_minutes,
    read_kinds,
    read_quiet,
    read_services,
    read_webhook,
)
from watchkeeper.domain.task_record import TaskState
from watchkeeper.domain.wait import Wait
from watchkeeper.domain.waiting import NEEDS_A_PERSON

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STATE = SinkState(machine="m1", sink=SinkName.WEBHOOK, seq=4)
NOTICE = Notice(
    id="db-7", seq=7, kind=NoticeKind.DONE, at=NOON, task_id="t1", title="Mend it", reason="Done: 1 file changed.",
    command="wk show t1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (TaskState.NEEDS_INPUT, NoticeKind.NEEDS_YOU),
        (TaskState.HELD, NoticeKind.NEEDS_YOU),
        (TaskState.FAILED, NoticeKind.FAILED),
        (TaskState.DONE, NoticeKind.DONE),
        (TaskState.QUEUED, None),
        (TaskState.STOPPED, None),
    ],
)
def test_a_task_that_comes_to_rest_is_told_of_unless_a_person_stopped_it(
    state: TaskState, kind: NoticeKind | None
) -> None:
    assert kind_of("task.run_settled", {"state": state.value}) is kind
    assert kind_of("task.run_held", {"state": state.value}) is kind
    assert kind_of("task.edited", {"state": state.value}) is None


@pytest.mark.parametrize("wait", list(Wait))
def test_a_wait_is_told_of_if_only_a_person_ends_it_and_none_has_begun_it(wait: Wait) -> None:
    wanted = wait.value in NEEDS_A_PERSON and wait is not Wait.PAUSED
    for entry in ("task.waiting", "queue.waiting"):
        assert (kind_of(entry, {"wait": wait.value}) is NoticeKind.NEEDS_YOU) == wanted
    assert kind_of("task.ready", {"wait": wait.value}) is None


def test_a_task_that_cannot_be_read_needs_a_person() -> None:
    assert kind_of("task.torn", {}) is NoticeKind.NEEDS_YOU


def test_what_was_told_is_behind_and_leaves_no_trace_of_failures() -> None:
    failed = attempted(STATE, NOTICE, Answer(problem="it is down"), NOON)
    assert attempted(failed, NOTICE, Answer(), NOON + timedelta(minutes=1)) == SinkState(
        machine="m1", sink=SinkName.WEBHOOK, seq=7
    )


def test_a_failure_that_will_not_pass_keeps_no_later_notice_back() -> None:
    after = attempted(STATE, NOTICE, Answer(problem="it answered with 404", passing=False), NOON)
    assert given_up(STATE, after) and (after.seq, after.due_at, after.problem) == (7, None, "it answered with 404")


@given(st.lists(st.integers(0, 3 * 3600), max_size=60))
def test_attempts_come_ever_more_seldom_and_end_after_a_day(delays: list[int]) -> None:
    """Whatever more time passes between them: never before their time, at most an hour apart, given up once, after a day and no sooner."""
    state, now, waits = STATE, NOON, list[timedelta]()
    for delay in delays:
        after = attempted(state, NOTICE, Answer(problem="it is down"), now)
        if given_up(state, after):
            assert now - NOON >= PATIENCE
            return
        assert after.seq == state.seq and after.due_at is not None and after.since == NOON
        assert after.attempts == state.attempts + 1
        waits.append(after.due_at - now)
        state, now = after, after.due_at + timedelta(seconds=delay)
        assert now - NOON < PATIENCE + LONGEST_WAIT + timedelta(seconds=delay)
    assert waits == sorted(waits)
    assert all(FIRST_WAIT <= wait <= LONGEST_WAIT for wait in waits)


@pytest.mark.parametrize(
    ("written", "hour", "minute", "over"),
    [
        ("22:00-07:00", 21, 59, None),
        ("22:00-07:00", 22, 0, "2026-01-02T07:00"),
        ("22:00-07:00", 6, 59, "2026-01-01T07:00"),
        ("22:00-07:00", 7, 0, None),
        ("12:30-13:00", 12, 45, "2026-01-01T13:00"),
        ("12:30-13:00", 13, 0, None),
        ("12:30-13:00", 12, 29, None),
    ],
)
def test_quiet_hours_are_over_when_the_clock_says_so(written: str, hour: int, minute: int, over: str | None) -> None:
    zone = ZoneInfo("Europe/Rome")
    minutes = quiet_minutes(written)
    assert minutes is not None
    now = datetime(2026, 1, 1, hour, minute, tzinfo=zone)
    found = QuietHours(begin=minutes[0], end=minutes[1]).over_at(now, zone)
    assert (None if found is None else f"{found.astimezone(zone):%Y-%m-%dT%H:%M}") == over


def test_quiet_hours_end_by_the_clock_on_a_day_that_has_another_length() -> None:
    """In the night of 29 March 2026 the clocks of Rome are set forward."""
    zone = ZoneInfo("Europe/Rome")
    now = datetime(2026, 3, 28, 23, tzinfo=zone)
    found = QuietHours(begin=22 * 60, end=7 * 60).over_at(now, zone)
    assert found is not None and found - now == timedelta(hours=7)


def test_words_of_a_notice() -> None:
    assert NOTICE.head == "Done: Mend it" and NOTICE.body == "Done: 1 file changed.\nwk show t1"


@pytest.mark.parametrize("written", ["22:00", "22:00-22:00", "24:00-07:00", "22:60-07:00", 7, "22-7", ""])
def test_what_are_no_quiet_hours(written: object) -> None:
    with pytest.raises(ValueError, match="two local times"):
        read_quiet(written)


def test_settings_of_notices() -> None:
    assert read_quiet("none") is None and read_quiet("22:00-07:00") == "22:00-07:00"
    assert read_kinds("done, needs_you") == ("needs_you", "done") == read_kinds(["done", "needs_you"])
    assert read_webhook("https://example.org/hook?x=1") == "https://example.org/hook?x=1"
    assert read_services("ntfy://a  slack://b/c ntfy://a") == ("ntfy://a", "slack://b/c") and read_services([]) == ()


@pytest.mark.parametrize("wrong", ["", "never", [], [1], {"done": 1}, 7])
def test_what_are_no_kinds(wrong: object) -> None:
    with pytest.raises(ValueError, match="needs_you, failed, done"):
        read_kinds(wrong)


@pytest.mark.parametrize("wrong", ["example.org", "ftp://example.org/", "https://", "https:// a", 7])
def test_what_is_no_webhook(wrong: object) -> None:
    with pytest.raises(ValueError, match="an address such as"):
        read_webhook(wrong)


@pytest.mark.parametrize("wrong", ["my-topic", ["ntfy://a", "b"], ["ntfy://a", 7], 7])
def test_what_are_no_services(wrong: object) -> None:
    with pytest.raises(ValueError, match="Apprise"):
        read_services(wrong)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://hooks.slack.com/services/T0/B0/secret", "https://hooks.slack.com/***"),
        ("https://ada:secret@example.org:8443/", "https://example.org:8443"),
        ("http://127.0.0.1:9?token=secret", "http://127.0.0.1:9/***"),
        ("ntfy://secret", "ntfy://***"),
    ],
)
def test_tokens_in_addresses_are_not_shown(address: str, shown: str) -> None:
    assert masked_address(address) == shown and "secret" not in masked_address(address)
