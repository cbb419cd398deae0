"""Many tasks at once: chosen by what holds of them, once a person has agreed to their number; and what could not be stopped is shown everywhere."""

import pytest
from support.cli import Wk

from watchkeeper.app.record import apply_run
from watchkeeper.cli import render
from watchkeeper.domain.model import DirectoryIdentity, TaskState
from watchkeeper.domain.run_events import (
    Prepared,
    StopFailed,
)
from watchkeeper.errors import Exit
from watchkeeper.ports.store import Tx

S = TaskState


@pytest.fixture
def queue(wk: Wk) -> dict[str, str]:
    """Four tasks that wait, by what holds of them."""
    return {
        "red": wk.add("a", "--label", "red", "--project", "p"),
        "red and big": wk.add("b", "--label", "red", "--label", "big", "--project", "q"),
        "big": wk.add("c", "--label", "big", "--project", "q"),
        "plain": wk.add("d"),
    }


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        (["--label", "red"], {"red", "red and big"}),
        (["--label", "red", "--label", "big"], {"red and big"}),
        (["--label", "big", "--project", "q"], {"red and big", "big"}),
        (["--label", "red", "--project", "q", "--state", "queued"], {"red and big"}),
        (["--all"], {"red", "red and big", "big", "plain"}),
        (["--label", "red", "--state", "running"], set[str]()),
    ],
)
@pytest.mark.parametrize("verb", ["stop", "kill", "cancel"])
def test_all_that_was_typed_must_hold(
    wk: Wk, queue: dict[str, str], verb: str, options: list[str], chosen: set[str]
) -> None:
    """Each of them is reported; nothing else is touched; as JSON it is a list."""
    answer = wk(verb, *options, "--yes", "--json")
    assert answer.code == Exit.OK, answer.err
    assert len(answer.json) == len(chosen)
    assert {name for name, task_id in queue.items() if wk.task(task_id).state is S.STOPPED} == chosen


@pytest.mark.parametrize("verb", ["stop", "kill", "cancel", "retry", "rm"])
def test_without_a_terminal_nobody_agrees(wk: Wk, queue: dict[str, str], verb: str) -> None:
    """It is refused, with the count and the way to say so; nothing was done."""
    if verb in {"retry", "rm"}:
        for task_id in queue.values():
            wk.become(task_id, S.STOPPED)
    before = {name: wk.task(task_id).state for name, task_id in queue.items()}
    answer = wk(verb, "--label", "red")
    assert answer.code == Exit.REFUSED
    assert f"{'Remove' if verb == 'rm' else verb.capitalize()} 2 tasks?" in answer.err and "--yes" in answer.err
    assert before == {name: wk.task(task_id).state for name, task_id in queue.items()}


@pytest.mark.parametrize(("said", "stopped"), [(b"y\n", 4), (b"n\n", 0), (b"\n", 0)])
def test_a_person_is_asked_and_no_is_the_default(
    wk: Wk, queue: dict[str, str], monkeypatch: pytest.MonkeyPatch, said: bytes, stopped: int
) -> None:
    """With the number of tasks, on a terminal."""
    monkeypatch.setattr(render, "_is_terminal", lambda _: True)
    answer = wk("stop", "--all", "--no-wait", stdin=said)
    assert "Stop 4 tasks? (--dry-run lists them) [y/N]" in answer.err and "wk ls" not in answer.err
    assert answer.code == (Exit.OK if stopped else Exit.REFUSED)
    assert sum(wk.task(task_id).state is S.STOPPED for task_id in queue.values()) == stopped


def test_what_ended_is_removed_and_tried_again_by_what_holds_of_it(wk: Wk, queue: dict[str, str]) -> None:
    """Only that to which it can be done is counted: what is done is not tried again, what waits is not removed."""
    wk.become(queue["red"], S.FAILED)
    wk.become(queue["big"], S.DONE)
    assert [task["id"] for task in wk("retry", "--all", "--yes", "--json").json] == [queue["red"]]
    wk.become(queue["red"], S.FAILED)
    gone = wk("rm", "--project", "p", "--project", "q", "--yes", "--json").json
    assert {each["id"] for each in gone if each["removed"]} == {queue["red"], queue["big"]}
    assert wk("rm", "--all", "--yes").code == Exit.OK, "there is none left, and that is no failure"


def test_ids_and_what_holds_are_not_mixed(wk: Wk, queue: dict[str, str]) -> None:
    """And one of them there must be."""
    mixed = wk("stop", queue["red"], "--all")
    assert mixed.code == Exit.USAGE and "Give ids, or --all/--label/--state/--project, not both." in mixed.err
    assert wk("kill").code == Exit.USAGE


@pytest.mark.parametrize(
    ("verb", "done"),
    [("stop", "stopped"), ("kill", "killed"), ("cancel", "cancelled"), ("retry", "retried"), ("rm", "removed")],
)
def test_where_nothing_matches_the_verb_is_named(wk: Wk, verb: str, done: str) -> None:
    """In the help too."""
    assert f"No matching task can be {done}." in wk(verb, "--label", "none").err
    assert f"Every task that can be {done}." in " ".join(wk(verb, "--help").out.split())
    if verb in {"stop", "kill"}:
        assert "No task matches: nothing is running or waiting." in wk(verb, "--all").err


@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_what_needs_a_person_would_be_stopped(wk: Wk, queue: dict[str, str], verb: str) -> None:
    """Its word is a verb already."""
    wk.become(queue["red"], S.NEEDS_INPUT)
    assert f"{queue['red']}  needs you; would be stopped, and" in wk(verb, "--dry-run", queue["red"]).out


def test_one_that_fails_keeps_none_of_the_others(wk: Wk, queue: dict[str, str]) -> None:
    """Each is tried, the exit code tells of the failure."""
    answer = wk("stop", queue["red"], "zzzz", queue["plain"])
    assert answer.code == Exit.NOT_FOUND
    assert wk.task(queue["red"]).state is wk.task(queue["plain"]).state is S.STOPPED


def test_a_stop_that_failed_is_said_everywhere(wk: Wk) -> None:
    """`ls`, `show` and `status` name the reason, as text and as JSON, until the end is on record."""
    task_id = wk.add("one")
    run_id = wk.claim()
    reason = "Its shim does not answer."
    parts = wk.parts

    def fail(tx: Tx) -> None:
        at = parts.clock.now()
        run = apply_run(tx, tx.runs.get(run_id), Prepared(directory=DirectoryIdentity(device=1, inode=1)), at)
        _ = apply_run(tx, run, StopFailed(reason=reason), at)

    parts.store.transact("test", fail)
    listed, shown, health = wk("ls"), wk("show", task_id), wk("status")
    assert "stop failed" in listed.out and reason in listed.out
    assert f"stop failed: {reason}" in shown.out
    assert f"stop failed: {reason}" in health.out
    (row,) = wk("ls", "--json").json
    assert (row["shown"], row["why"], row["run"]["stop_failed"]) == ("stop failed", reason, reason)
    assert wk("status", "--json").json["needs_you"][0]["run"]["stop_failed"] == reason


def test_a_slow_database_is_waited_for_where_nothing_is_alive(wk: Wk, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no agent to end in a hurry, so the wish is recorded, and no error of the database is shown."""
    from watchkeeper.cli import direct

    task_id = wk.add("one")
    monkeypatch.setattr(direct, "DATABASE_S", 0.0)
    monkeypatch.setattr(direct, "_EACH_S", 0.0)
    answer = wk("stop", task_id)
    assert (answer.code, wk.task(task_id).state) == (Exit.OK, S.STOPPED), answer.err
