"""Parsing of the records in an execution directory, strictly: a record says exactly what its page says, or it is unreadable.

Format 1 of `docs/execution-directory.md`. Keys that we do not know are ignored; a key that is missing, of another type or out of range makes the record
unreadable, and nothing is guessed in its place (R13).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Never, TypeVar, cast

from watchkeeper.domain.evidence import DecidedBy, DecisionRecord, GoneFact
from watchkeeper.domain.model import AgentIdentity, EndReason, ExitFact, Leftover
from watchkeeper.ports.runtime import PreparedExecution
from watchkeeper.runtimes import atomic

FORMAT = 1
"""The version of the directory's layout that this code writes and reads."""

SPEC = "spec.json"
DECISION = "decide"
LOCK = "lock"
AGENT = "proc.json"
EXIT = "exit.json"
GONE = "gone.json"
REFUSED = "refused.json"
BEFORE = "before.json"
DROPPED = "dropped.json"
REQUEST = "request.json"
TOKEN = "token"  # noqa: S105 - the name of the file
PROMPT = "prompt"
SHIM_ERRORS = "shim.err"

_LARGEST_PID = 1 << 22
_LARGEST = 1 << 63

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


class BadRecord(Exception):  # noqa: N818 - an answer about a file, not a failure of the program
    """A record does not say what such a record says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecIdentity:
    """Who an execution directory is for."""

    database_id: str
    task_id: str
    run_id: str
    fence: int
    execution_id: str

    @classmethod
    def for_run(cls, database_id: str, run: PreparedExecution) -> "SpecIdentity":
        """The identity that a run's directory must have."""
        return cls(
            database_id=database_id,
            task_id=run.task_id,
            run_id=run.id,
            fence=run.fence,
            execution_id=run.execution_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecExcerpt:
    """The part of a spec that the supervisor reads back."""

    identity: SpecIdentity
    socket: str
    log_limit_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision with the identity of the process that published it."""

    record: DecisionRecord
    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRecord:
    """The agent's identity with that of its shim."""

    agent: AgentIdentity
    pid_namespace: str
    shim_pid: int
    shim_start_ticks: int
    hears_requests: bool = False
    """Whether its shim looks for a request on record; one of an earlier version does not."""


def load(data: bytes) -> Mapping[str, object]:
    """Parse a JSON object whose checksum, if it has one, fits. Raises BadRecord for anything else, NaN, infinities and doubled keys included."""
    try:
        data = atomic.unsealed(data)
    except ValueError as error:
        raise BadRecord(str(error)) from error
    try:
        value: object = json.loads(data.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        msg = "it is not JSON"
        raise BadRecord(msg) from error
    if not isinstance(value, dict):
        msg = "it is not a JSON object"
        raise BadRecord(msg)
    return cast("Mapping[str, object]", value)


def parse_environment(data: bytes) -> dict[str, str]:
    """The agent's environment in `spec.json`. Raises BadRecord."""
    environment = load(data).get("environment")
    if not isinstance(environment, dict):
        msg = "it holds no environment"
        raise BadRecord(msg)
    return {name: value for name, value in cast("dict[str, object]", environment).items() if isinstance(value, str)}


def parse_log_limit(data: bytes) -> int:
    """How many bytes of each log are kept, in `spec.json`; 0 if it does not say. Raises BadRecord."""
    limit = load(data).get("log_limit_bytes")
    return limit if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else 0


def parse_asked(data: bytes) -> tuple[str, ...]:
    """The names in `spec.json` of the variables that were asked for; none in one of an earlier version. Raises BadRecord."""
    asked = load(data).get("asked")
    if not isinstance(asked, list):
        return ()
    return tuple(name for name in cast("list[object]", asked) if isinstance(name, str))


def parse_spec(data: bytes) -> SpecExcerpt:
    """Parse `spec.json`. Raises BadRecord."""
    record = load(data)
    if integer(record, "format") != FORMAT:
        msg = "it is of another format"
        raise BadRecord(msg)
    return SpecExcerpt(
        identity=SpecIdentity(
            database_id=text(record, "database"),
            task_id=text(record, "task"),
            run_id=text(record, "run"),
            fence=integer(record, "fence"),
            execution_id=text(record, "execution"),
        ),
        socket=text(record, "socket"),
        log_limit_bytes=integer(record, "log_limit_bytes") if "log_limit_bytes" in record else 64 * 1024 * 1024,
    )


def parse_decision(data: bytes) -> Decision:
    """Parse `decide`. Raises BadRecord."""
    record = load(data)
    time(record, "at")
    return Decision(
        record=DecisionRecord(
            by=word(record, "by", DecidedBy),
            boot_id=text(record, "boot_id"),
            pid_namespace=text(record, "pid_namespace"),
            errno=_optional(record, "errno", integer) if "errno" in record else None,
        ),
        pid=_pid(record, "pid"),
        start_ticks=integer(record, "start_ticks"),
    )


def parse_refused(data: bytes) -> int:
    """Parse `refused.json`: the error with which the system refused the launch. Raises BadRecord."""
    return integer(load(data), "errno")


def parse_agent(data: bytes) -> AgentRecord:
    """Parse `proc.json`. Raises BadRecord."""
    record = load(data)
    return AgentRecord(
        agent=AgentIdentity(
            pid=_pid(record, "pid"),
            start_ticks=integer(record, "start_ticks"),
            boot_id=text(record, "boot_id"),
            started_at=time(record, "started_at"),
        ),
        pid_namespace=text(record, "pid_namespace"),
        shim_pid=_pid(record, "shim_pid"),
        shim_start_ticks=integer(record, "shim_start_ticks"),
        hears_requests=record.get("hears_requests") is True,
    )


def parse_exit(data: bytes) -> ExitFact:
    """Parse `exit.json`. Raises BadRecord."""
    record = load(data)
    reason = word(record, "reason", EndReason)
    status = _optional(record, "status", integer)
    if (status is None) is not (reason is EndReason.SPAWN_FAILED):
        msg = "its status does not go with its reason"
        raise BadRecord(msg)
    return ExitFact(
        status=status,
        reason=reason,
        at=time(record, "at"),
        elapsed_s=_number(record, "elapsed_s"),
        errno=_optional(record, "errno", integer),
        max_rss_kib=_optional(record, "max_rss_kib", integer),
        step=_if_there(record, "step"),
        path=_if_there(record, "path"),
    )


def parse_gone(data: bytes) -> GoneFact:
    """Parse `gone.json`. Raises BadRecord."""
    record = load(data)
    time(record, "at")
    proof = text(record, "proof")
    if proof not in {"proven", "unproven"}:
        msg = "it names a proof that is not known"
        raise BadRecord(msg)
    leftovers = tuple(_leftover(item) for item in _list(record, "leftovers"))
    return GoneFact(proven=proof == "proven", leftovers=leftovers)


def parse_dropped(data: bytes, log: str) -> list[tuple[int, int]]:
    """Parse `dropped.json` for one log: ranges of bytes, each start before its end. Raises BadRecord."""
    record = load(data)
    ranges: list[tuple[int, int]] = []
    for item in _list(record, log) if log in record else []:
        pair = cast("list[object]", item) if isinstance(item, list) else []
        match pair:
            case [int(start), int(end)] if 0 <= start < end and not isinstance(start, bool):
                ranges.append((start, end))
            case _:
                msg = f"'{log}' is not a list of ranges"
                raise BadRecord(msg)
    return ranges


def moment(seconds: float) -> datetime:
    """A moment that a file system tells."""
    return datetime.fromtimestamp(seconds, UTC)


def _refuse(constant: str) -> Never:
    msg = f"{constant} is not JSON"
    raise ValueError(msg)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) != len(pairs):
        msg = "a key is there twice"
        raise ValueError(msg)
    return record


def _value(record: Mapping[str, object], key: str) -> object:
    if key not in record:
        msg = f"'{key}' is missing"
        raise BadRecord(msg)
    return record[key]


def _optional(record: Mapping[str, object], key: str, parse: Callable[[Mapping[str, object], str], T]) -> T | None:
    return None if _value(record, key) is None else parse(record, key)


def _if_there(record: Mapping[str, object], key: str) -> str | None:
    """A text that records of earlier versions lack."""
    return _optional(record, key, text) if key in record else None


def text(record: Mapping[str, object], key: str) -> str:
    """A text that is not empty. Raises BadRecord."""
    value = _value(record, key)
    if not isinstance(value, str) or not value:
        msg = f"'{key}' is not text"
        raise BadRecord(msg)
    return value


def integer(record: Mapping[str, object], key: str) -> int:
    """A whole number of zero or more. Raises BadRecord."""
    value = _value(record, key)
    # bool is a kind of int in Python, and never a number in a record.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LARGEST:
        msg = f"'{key}' is not a whole number"
        raise BadRecord(msg)
    return value


def _pid(record: Mapping[str, object], key: str) -> int:
    value = integer(record, key)
    if not 0 < value <= _LARGEST_PID:
        msg = f"'{key}' is not a pid"
        raise BadRecord(msg)
    return value


def _number(record: Mapping[str, object], key: str) -> float:
    value = _value(record, key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < _LARGEST:
        msg = f"'{key}' is not a number"
        raise BadRecord(msg)
    return float(value)


def time(record: Mapping[str, object], key: str) -> datetime:
    """A moment, in UTC. Raises BadRecord."""
    try:
        at = datetime.fromisoformat(text(record, key))
        if at.tzinfo is not None:
            return at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        msg = f"'{key}' is not a time"
        raise BadRecord(msg) from error
    msg = f"'{key}' does not say its time zone"
    raise BadRecord(msg)


def word(record: Mapping[str, object], key: str, words: type[E]) -> E:
    """One of a closed list. Raises BadRecord."""
    try:
        return words(text(record, key))
    except ValueError as error:
        msg = f"'{key}' is a word that is not known"
        raise BadRecord(msg) from error


def _list(record: Mapping[str, object], key: str) -> list[object]:
    value = _value(record, key)
    if not isinstance(value, list):
        msg = f"'{key}' is not a list"
        raise BadRecord(msg)
    return cast("list[object]", value)


def _leftover(item: object) -> Leftover:
    if not isinstance(item, dict):
        msg = "a leftover is not an object"
        raise BadRecord(msg)
    record = cast("Mapping[str, object]", item)
    command = _value(record, "command")
    if not isinstance(command, str):
        msg = "'command' is not text"
        raise BadRecord(msg)
    return Leftover(pid=_pid(record, "pid"), command=command)
