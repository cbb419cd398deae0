"""The recovery table, over the full product of what evidence can say."""

import errno
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from watchkeeper.domain.evidence import (
    DecidedBy,
    DirectoryState,
    Evidence,
    LockState,
    Verdict,
    VerdictKind,
    judge,
)
from watchkeeper.domain.samples import AGENT, BOOT, DECISIONS, EXIT, GONE, NAMESPACE

GRACE_S = 10.0
BASE = Evidence(
    directory=DirectoryState.INTACT,
    lock=LockState.FREE,
    boot_id=BOOT,
    pid_namespace=NAMESPACE,
    since_spawn_s=60.0,
    start_grace_s=GRACE_S,
)


def every_evidence() -> Iterator[Evidence]:
    """Every combination of what each field can say."""
    records = product((None, *DECISIONS.values()), (None, AGENT), (None, EXIT), (None, GONE), ((), ("exit.json",)))
    for (decision, agent, end, gone, unreadable), directory, lock in product(records, DirectoryState, LockState):
        seen = Evidence(
            directory=directory,
            lock=lock,
            decision=decision,
            agent=agent,
            exit=end,
            gone=gone,
            unreadable=unreadable,
            start_grace_s=GRACE_S,
        )
        for boot, namespace in product((BOOT, "another", ""), (NAMESPACE, "another")):
            for since, stop in product((None, 1.0, 60.0), (False, True)):
                yield replace(seen, boot_id=boot, pid_namespace=namespace, since_spawn_s=since, stop_asked=stop)


EVERYTHING = [(evidence, judge(evidence)) for evidence in every_evidence()]


def saying(kind: VerdictKind) -> Iterator[tuple[Evidence, Verdict]]:
    """All evidence with this verdict; fails if there is none, so that no claim about it is empty."""
    found = [(evidence, verdict) for evidence, verdict in EVERYTHING if verdict.kind is kind]
    assert found
    yield from found


def test_every_verdict_is_reached_and_has_a_reason() -> None:
    """All evidence is judged, each verdict is possible, and each says why."""
    assert set(Counter(verdict.kind for _, verdict in EVERYTHING)) == set(VerdictKind)
    assert all(verdict.reason for _, verdict in EVERYTHING)


def test_what_cannot_be_read_is_unknown() -> None:
    """A directory that is not ours, or a record that cannot be read, never leads to anything else (R13)."""
    for evidence, verdict in EVERYTHING:
        if evidence.directory is not DirectoryState.INTACT or evidence.unreadable:
            assert verdict.kind is VerdictKind.UNKNOWN


def test_never_launched_only_if_no_agent_can_have_run_or_ever_will() -> None:
    """Either no process may launch any more, or the shim that might have is dead and had released none; and nothing speaks of an agent (R2)."""
    for evidence, _ in saying(VerdictKind.NEVER_LAUNCHED):
        assert evidence.decision is not None
        assert (evidence.agent, evidence.exit, evidence.gone) == (None, None, None)
        if evidence.decision.by is DecidedBy.SHIM:
            assert evidence.lock is LockState.FREE


def test_a_recorded_end_wins_over_everything_about_the_lock() -> None:
    """Where the records agree, the exit record is the end, whatever the lock says."""
    for evidence, verdict in EVERYTHING:
        readable = evidence.directory is DirectoryState.INTACT and not evidence.unreadable
        agreeing = evidence.decision is None or evidence.decision.by is DecidedBy.SHIM
        if evidence.exit is not None and readable and agreeing:
            assert verdict.kind is VerdictKind.ENDED
        else:
            assert verdict.kind is not VerdictKind.ENDED


def test_an_end_is_final_only_if_nothing_more_can_be_written() -> None:
    """Emptiness is recorded, or the lock was free after a shim's decision had been read."""
    for evidence, verdict in EVERYTHING:
        dead = evidence.lock is LockState.FREE and evidence.decision is not None
        restarted = evidence.decision is not None and evidence.boot_id not in {"", BOOT}
        ended = verdict.kind is VerdictKind.ENDED
        assert verdict.final == (ended and (evidence.gone is not None or dead or restarted))
        assert verdict.empty == (ended and restarted)


def test_the_decision_is_only_taken_where_there_is_none() -> None:
    """In the name of a stop if one was asked for, else of recovery, and then only after the grace and with the lock free."""
    for evidence, verdict in EVERYTHING:
        if verdict.kind is not VerdictKind.TAKE_DECISION:
            assert verdict.decide_by is None
            continue
        assert evidence.decision is None
        if evidence.stop_asked:
            assert verdict.decide_by is DecidedBy.STOP
        else:
            assert verdict.decide_by is DecidedBy.RECOVERY
            assert evidence.lock is LockState.FREE
            assert evidence.since_spawn_s is not None
            assert evidence.since_spawn_s >= GRACE_S


def test_death_is_only_concluded_from_a_free_lock_after_the_decision() -> None:
    """Lost and never-launched-by-a-shim need the decision, the free lock and an agent's record on this view of the machine."""
    for kind in (VerdictKind.SHIM_DIED, VerdictKind.LOST_TO_REBOOT):
        for evidence, _ in saying(kind):
            assert evidence.decision is not None
            assert evidence.decision.by is DecidedBy.SHIM
            assert evidence.lock is LockState.FREE
            assert evidence.agent is not None
            assert evidence.boot_id
            assert (evidence.boot_id == BOOT) == (kind is VerdictKind.SHIM_DIED)
    assert all(evidence.pid_namespace == NAMESPACE for evidence, _ in saying(VerdictKind.SHIM_DIED))


def test_alive_and_waiting_need_somebody_or_some_time() -> None:
    """Alive: a lock that is held and an agent's record. Waiting: a held lock, or an undecided launch that is young."""
    for evidence, _ in saying(VerdictKind.ALIVE):
        assert evidence.lock is LockState.HELD
        assert evidence.agent is not None
    for evidence, _ in saying(VerdictKind.WAITING):
        young = evidence.since_spawn_s is None or evidence.since_spawn_s < GRACE_S
        assert evidence.lock is LockState.HELD or (evidence.decision is None and young)


SHIM = replace(BASE, decision=DECISIONS[DecidedBy.SHIM])
WORKED = replace(SHIM, agent=AGENT)


@pytest.mark.parametrize(
    ("evidence", "kind"),
    [
        pytest.param(replace(BASE, since_spawn_s=None), VerdictKind.WAITING, id="no shim was started"),
        pytest.param(replace(BASE, since_spawn_s=9.9), VerdictKind.WAITING, id="within the grace"),
        pytest.param(replace(BASE, since_spawn_s=-3600.0), VerdictKind.WAITING, id="the clock was set back"),
        pytest.param(replace(BASE, since_spawn_s=10.0), VerdictKind.TAKE_DECISION, id="the grace has passed"),
        pytest.param(replace(BASE, lock=LockState.HELD), VerdictKind.WAITING, id="a shim is at it"),
        pytest.param(SHIM, VerdictKind.NEVER_LAUNCHED, id="the shim died before it released the agent"),
        pytest.param(replace(SHIM, boot_id="another"), VerdictKind.NEVER_LAUNCHED, id="the same, before a restart"),
        pytest.param(WORKED, VerdictKind.SHIM_DIED, id="the shim was killed"),
        pytest.param(replace(WORKED, boot_id="another"), VerdictKind.LOST_TO_REBOOT, id="the machine was restarted"),
        pytest.param(replace(WORKED, boot_id=""), VerdictKind.UNKNOWN, id="the boot is not known"),
        pytest.param(replace(WORKED, pid_namespace="another"), VerdictKind.UNKNOWN, id="another pid namespace"),
        pytest.param(replace(WORKED, gone=GONE), VerdictKind.UNKNOWN, id="gone without an end"),
        pytest.param(replace(WORKED, lock=LockState.HELD, gone=GONE), VerdictKind.ALIVE, id="read while it was ending"),
    ],
)
def test_rows_of_the_recovery_table(evidence: Evidence, kind: VerdictKind) -> None:
    """The rows that people reason about, one by one."""
    assert judge(evidence).kind is kind


@pytest.mark.parametrize("by", [DecidedBy.RECOVERY, DecidedBy.STOP])
@pytest.mark.parametrize("lock", [LockState.HELD, LockState.FREE, LockState.UNKNOWN])
def test_a_decision_not_to_launch_needs_no_lock(by: DecidedBy, lock: LockState) -> None:
    """A late shim that holds the lock for a moment can no longer launch."""
    evidence = replace(BASE, decision=DECISIONS[by], lock=lock)
    assert judge(evidence).kind is VerdictKind.NEVER_LAUNCHED
    assert judge(replace(evidence, agent=AGENT)).kind is VerdictKind.UNKNOWN


SENTENCES = {
    "Cannot be read: exit.json.",
    "Stopped before it started.",
    "The agent ended.",
    "The agent is running.",
    "The agent was never started.",
    "The agent was started in another pid namespace; its processes cannot be seen from here.",
    "The execution directory cannot be read.",
    "The execution directory is missing.",
    "The execution directory is not the one that was prepared.",
    "The machine was restarted while the agent worked.",
    "The records contradict each other: it was decided not to launch, and an agent was launched.",
    "The records contradict each other: nothing is left of the agent, and its end is not on record.",
    "The shim died before it let the agent start.",
    "The shim has not started yet.",
    "The shim is starting.",
    "The shim never started.",
    "The shim was killed while the agent worked.",
    "Whether its shim is alive cannot be found out.",
    "Whether the machine was restarted since cannot be found out.",
}


def test_each_sentence_is_one_of_these() -> None:
    """And each of these is the sentence of some evidence."""
    assert {verdict.reason for _, verdict in EVERYTHING} == SENTENCES


@pytest.mark.parametrize(
    ("number", "detail"),
    [
        (None, ""),
        (errno.ENOSPC, ": there was no room left on the disk (ENOSPC)"),
        (errno.EIO, ": the system refused what it needs (EIO)"),
        (9999, ": the system refused what it needs (9999)"),
    ],
)
def test_a_launch_that_never_was_says_why_the_system_refused_it(number: int | None, detail: str) -> None:
    """The decision's own word counts more than what was seen besides."""
    decision = replace(DECISIONS[DecidedBy.RECOVERY], errno=None)
    found = judge(replace(BASE, decision=decision, refused=number))
    assert (found.kind, found.reason) == (VerdictKind.NEVER_LAUNCHED, f"The agent was never started{detail}.")
    own = judge(replace(BASE, decision=replace(decision, errno=errno.ENOSPC), refused=number))
    assert own.reason == "The agent was never started: there was no room left on the disk (ENOSPC)."


def test_an_agent_that_ended_without_room_for_its_output_says_so() -> None:
    """Until nothing more will be written."""
    ended = replace(BASE, lock=LockState.HELD, decision=DECISIONS[DecidedBy.SHIM], exit=EXIT, no_room=True)
    assert judge(ended).reason == "The agent ended; the rest of its output waits for room on the disk."
    assert judge(replace(ended, gone=GONE)).reason == judge(replace(ended, no_room=False)).reason == "The agent ended."
