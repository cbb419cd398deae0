"""The protocol of the execution directory as a small model, explored exhaustively.

Two shims for one execution, each of which may be late, and killed between any two of its steps; the agents they would launch; a daemon that reads the
evidence one record at a time, may die at any point of it, and acts on what the *real* `judge` says; and one restart of the machine at any time. Every
interleaving of their steps is visited. The steps are those of `docs/execution-directory.md`:

    shim    new ─lock─▶ locked ─link decide─▶ decided ─fork─▶ forked ─proc.json─▶ recorded ─release─▶ released ─exit.json─▶ exited ─gone.json─▶ gone ─▶ over
    agent   none ─fork─▶ waiting (on the pipe) ─release─▶ working ─▶ over
    daemon  idle ─read 1─▶ … ─read 5─▶ judge ─▶ idle, or publish the decision ─▶ idle
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from watchkeeper.domain.evidence import (
    DecidedBy,
    DecisionRecord,
    DirectoryState,
    Evidence,
    LockState,
    Verdict,
    VerdictKind,
    judge,
)
from watchkeeper.domain.samples import AGENT, EXIT, GONE

DECISION, LOCK, PROC, END, EMPTY = "decision", "lock", "proc", "exit", "gone"

HEALTHY_ORDER = (DECISION, LOCK, PROC, END, EMPTY)
HEALTHY_STEPS = ("new", "locked", "decided", "forked", "recorded", "released", "exited", "gone")

Decision = tuple[str, int]
"""Who decided (`shim 0`, `shim 1`, `recovery`, `stop`), and in which boot."""


class State(NamedTuple):
    """Everything there is at one moment."""

    shims: tuple[str, str] = ("new", "new")
    agents: tuple[str, str] = ("none", "none")
    lock: int | None = None
    decision: Decision | None = None
    records: frozenset[str] = frozenset()
    starts: int = 0
    boot: int = 0
    reads: tuple[object, ...] = ()
    taking: str = ""
    concluded: str = ""
    """The daemon's last word on the run, which must never turn out wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The protocol, or a mutant of it."""

    order: tuple[str, ...] = HEALTHY_ORDER
    judges: Callable[[Evidence], Verdict] = judge
    stop_asked: bool = False
    recovery_decides: bool = True
    """False: where recovery should take the decision, it believes what it read."""
    shim_locks: bool = True
    shim_respects_decision: bool = True
    records_before_release: bool = True


@dataclass(slots=True, kw_only=True)
class Exploration:
    """What an exploration found."""

    states: int
    violations: dict[str, State]
    stuck: int
    """States from which no conclusion can be reached any more."""
    verdicts: set[VerdictKind]


def explore(protocol: Protocol) -> Exploration:
    """Visit every state that can be reached, and check each."""
    start = State()
    before: dict[State, list[State]] = {start: []}
    todo = [start]
    found = Exploration(states=0, violations={}, stuck=0, verdicts=set())
    while todo:
        state = todo.pop()
        for after in _steps(protocol, state, found):
            if after not in before:
                before[after] = []
                todo.append(after)
                _check(after, found)
            before[after].append(state)
    found.states = len(before)
    found.stuck = len(before) - len(_leading_to_a_conclusion(before))
    return found


def _leading_to_a_conclusion(before: dict[State, list[State]]) -> set[State]:
    reached = {state for state in before if state.concluded}
    todo = list(reached)
    while todo:
        for earlier in before[todo.pop()]:
            if earlier not in reached:
                reached.add(earlier)
                todo.append(earlier)
    return reached


def _check(state: State, found: Exploration) -> None:
    if state.starts > 1:
        found.violations.setdefault("two agents were started", state)
    if state.concluded == "never" and state.starts:
        found.violations.setdefault("an agent was started though none ever was to be", state)
    if state.concluded in {"ended", "lost to reboot"} and "working" in state.agents:
        found.violations.setdefault("an agent works though it was said to have ended", state)


def _steps(protocol: Protocol, state: State, found: Exploration) -> Iterator[State]:
    for shim in (0, 1):
        yield from _shim_steps(protocol, state, shim, found)
        if state.agents[shim] == "working":
            yield state._replace(agents=_with(state.agents, shim, "over"))
    yield from _daemon_steps(protocol, state, found)
    if protocol.stop_asked and state.decision is None:
        yield state._replace(decision=("stop", state.boot))  # the outbox does not look before it takes the decision
    if state.boot == 0:
        yield _restarted(state)


def _restarted(state: State) -> State:
    """The machine: everything dies but what is on disk. A shim that was not started yet may still be, from the outbox."""
    return state._replace(
        shims=tuple("new" if shim == "new" else "dead" for shim in state.shims),
        agents=tuple("none" if agent == "none" else "over" for agent in state.agents),
        lock=None,
        boot=1,
        reads=(),
        taking="",
    )


def _shim_steps(protocol: Protocol, state: State, shim: int, found: Exploration) -> Iterator[State]:
    at = state.shims[shim]
    if at in {"over", "dead"}:
        return
    yield _killed(state, shim)
    match at:
        case "new" if protocol.shim_locks and state.lock is not None:
            yield _moved(state, shim, "over")
        case "new":
            yield _moved(state, shim, "locked")._replace(lock=shim if protocol.shim_locks else state.lock)
        case "locked" if state.decision is not None and protocol.shim_respects_decision:
            yield _over(state, shim)
        case "locked":
            yield _moved(state, shim, "decided")._replace(decision=(f"shim {shim}", state.boot))
        case "decided":
            yield _moved(state, shim, "forked")._replace(agents=_with(state.agents, shim, "waiting"))
        case "forked" if protocol.records_before_release:
            yield _wrote(state, shim, "recorded", PROC, found)
        case "forked":
            yield _released(_moved(state, shim, "recorded"), shim)
        case "recorded" if protocol.records_before_release:
            yield _released(_moved(state, shim, "released"), shim)
        case "recorded":
            yield _wrote(state, shim, "released", PROC, found)
        case _:
            yield from _shim_ends(state, shim, found)


def _shim_ends(state: State, shim: int, found: Exploration) -> Iterator[State]:
    match state.shims[shim]:
        case "released" if state.agents[shim] == "over":
            yield _wrote(state, shim, "exited", END, found)
        case "exited":
            yield _wrote(state, shim, "gone", EMPTY, found)
        case "gone":
            yield _over(state, shim)
        case _:
            return


def _moved(state: State, shim: int, to: str) -> State:
    return state._replace(shims=_with(state.shims, shim, to))


def _over(state: State, shim: int) -> State:
    return _moved(state, shim, "over")._replace(lock=None if state.lock == shim else state.lock)


def _killed(state: State, shim: int) -> State:
    """The kernel drops its lock; a child that waits on the pipe reads end of file and exits; an agent that works may work on."""
    agents = _with(state.agents, shim, "over") if state.agents[shim] == "waiting" else state.agents
    lock = None if state.lock == shim else state.lock
    return _moved(state, shim, "dead")._replace(lock=lock, agents=agents)


def _released(state: State, shim: int) -> State:
    return state._replace(agents=_with(state.agents, shim, "working"), starts=min(2, state.starts + 1))


def _wrote(state: State, shim: int, to: str, record: str, found: Exploration) -> State:
    if state.concluded:
        found.violations.setdefault("a record was written after the daemon took the records for final", state)
    return _moved(state, shim, to)._replace(records=state.records | {record})


def _daemon_steps(protocol: Protocol, state: State, found: Exploration) -> Iterator[State]:
    if state.taking:
        decision = state.decision or (state.taking, state.boot)
        yield state._replace(taking="", decision=decision)
        yield state._replace(taking="")
        return
    if len(state.reads) < len(protocol.order):
        yield state._replace(reads=(*state.reads, _read(state, protocol.order[len(state.reads)])))
        return
    verdict = _judged(protocol, state.reads, state.boot)
    found.verdicts.add(verdict.kind)
    yield _acted(protocol, state._replace(reads=()), verdict, found)


def _read(state: State, what: str) -> object:
    match what:
        case "decision":
            return state.decision
        case "lock":
            return state.lock is not None
        case _:
            return what in state.records


@cache
def _judged(protocol: Protocol, reads: tuple[object, ...], boot: int) -> Verdict:
    seen = dict(zip(protocol.order, reads, strict=True))
    decision = seen[DECISION]
    record = None
    if isinstance(decision, tuple):
        by, decided_in = decision
        who = DecidedBy.SHIM if by.startswith("shim") else DecidedBy(by)
        record = DecisionRecord(by=who, boot_id=f"boot {decided_in}", pid_namespace="ours")
    evidence = Evidence(
        directory=DirectoryState.INTACT,
        lock=LockState.HELD if seen[LOCK] else LockState.FREE,
        decision=record,
        agent=AGENT if seen[PROC] else None,
        exit=EXIT if seen[END] else None,
        gone=GONE if seen[EMPTY] else None,
        boot_id=f"boot {boot}",
        pid_namespace="ours",
        since_spawn_s=60.0,
        start_grace_s=0.0,
        stop_asked=protocol.stop_asked,
    )
    return protocol.judges(evidence)


def _acted(protocol: Protocol, state: State, verdict: Verdict, found: Exploration) -> State:
    match verdict.kind:
        case VerdictKind.TAKE_DECISION if verdict.decide_by is not None:
            if protocol.recovery_decides:
                return state._replace(taking=verdict.decide_by.value)
            return _concluded(state, "never", found)
        case VerdictKind.NEVER_LAUNCHED:
            return _concluded(state, "never", found)
        case VerdictKind.ENDED:
            if "over" not in state.agents or not state.starts:
                found.violations.setdefault("an end was seen that was none", state)
            if verdict.empty and (state.decision is None or state.decision[1] == state.boot):
                found.violations.setdefault(
                    "a restart was said to prove that nothing is left, and there was none", state
                )
            return _concluded(state, "ended", found) if verdict.final else state
        case VerdictKind.SHIM_DIED | VerdictKind.LOST_TO_REBOOT:
            if state.decision is None or state.shims[int(state.decision[0][-1])] != "dead":
                found.violations.setdefault("a shim was said to be dead that was not", state)
            word = "lost to reboot" if verdict.kind is VerdictKind.LOST_TO_REBOOT else "lost"
            return _concluded(state, word, found)
        case VerdictKind.UNKNOWN:
            found.violations.setdefault("healthy evidence was unknown", state)
            return state
        case _:
            return state


def _concluded(state: State, word: str, found: Exploration) -> State:
    same = {"lost", "lost to reboot"}
    if state.concluded and state.concluded != word and not {state.concluded, word} <= same:
        found.violations.setdefault("the last word was not the last", state)
    return state._replace(concluded=word)


def _with(pair: tuple[str, str], which: int, value: str) -> tuple[str, str]:
    return (value, pair[1]) if which == 0 else (pair[0], value)
