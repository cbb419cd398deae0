"""Records to columns and columns to records. Times are microseconds since 1970 in UTC; structured values are JSON.

What is read is checked once, here. A column that holds what it cannot hold makes the record unreadable, and that is said (R13).
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from typing import Self, TypeVar, cast

from watchkeeper.errors import RecordTorn
from watchkeeper.store.rows import Row, Rows, SqlValue

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_SIGN = 1 << 63

_EARLIEST, _LATEST = (int(year * 365.2425 * 86_400_000_000) for year in (-1960, 8000))
"""No record is of before the year 10 or after 9970: beyond that, adding to a time fails."""

_LONGEST_KEY = 100
_LONGEST_REASON = 200

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


def ticks(at: datetime) -> int:
    """A time as a column holds it, exactly."""
    return (at - _EPOCH) // _TICK


def ticks_or_none(at: datetime | None) -> int | None:
    """A time that may be absent."""
    return None if at is None else ticks(at)


def moment(column: object) -> datetime:
    """The time that a column holds. Raises ValueError for one that is out of range, TypeError."""
    if isinstance(column, bool) or not isinstance(column, int):
        raise TypeError("not a time")
    if not _EARLIEST <= column <= _LATEST:
        raise ValueError("a time that cannot be")
    return _EPOCH + timedelta(microseconds=column)


def signed(number: int) -> int:
    """An unsigned number of 64 bits, such as an inode, in a column of 63 bits and a sign."""
    return number - (_SIGN << 1) if number >= _SIGN else number


def unsigned(column: int) -> int:
    """The number that `signed` put into a column."""
    return column + (_SIGN << 1) if column < 0 else column


def to_json(value: object) -> str:
    """A record, mapping or list as JSON text. Lone surrogates survive; numbers that JSON lacks (infinity, not-a-number) become null."""
    tree = _plain(value)
    try:
        return json.dumps(tree, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(tree), ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def from_json(text: str) -> object:
    """What a JSON text holds."""
    return cast("object", json.loads(text))


def record(text: str) -> dict[str, object]:
    """What a JSON text holds, where it must be an object. Raises ValueError."""
    tree = from_json(text)
    if not isinstance(tree, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - for the reader it is a wrong value like any other
    return cast("dict[str, object]", tree)


def plain_text(value: object) -> str:
    """A text out of JSON. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def plain_texts(value: object) -> tuple[str, ...]:
    """A list of texts out of JSON. Raises TypeError."""
    return tuple(plain_text(one) for one in cast("list[object]", value))


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Enum):
        return cast("object", value.value)
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return ticks(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(cast("object", getattr(value, field.name))) for field in fields(value)}
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        return {str(key): _plain(item) for key, item in mapping.items()}
    if isinstance(value, tuple | list | frozenset | set):
        return [_plain(item) for item in cast("tuple[object, ...]", value)]
    return str(value)


def _finite(tree: object) -> object:
    if isinstance(tree, float):
        return tree if math.isfinite(tree) else None
    if isinstance(tree, dict):
        return {key: _finite(item) for key, item in cast("dict[str, object]", tree).items()}
    if isinstance(tree, list):
        return [_finite(item) for item in cast("list[object]", tree)]
    return tree


def torn(place: str, key: object, problem: Exception | str, task_id: str | None = None) -> RecordTorn:
    """The error for a record that cannot be read. Key and reason are made fit to be stored and shown whatever bytes they hold."""
    detail = problem if isinstance(problem, str) else _describe(place, problem)
    return RecordTorn(
        place=place, key=_short(key, _LONGEST_KEY), reason=_short(detail, _LONGEST_REASON), task_id=task_id
    )


_JSON_OF = {"task": "what was asked for", "outbox": "what is to be done", "journal": "what happened"}
"""By the place of a record, what of it is JSON."""


def _describe(place: str, problem: Exception) -> str:
    """What is wrong, without the names of our code."""
    if isinstance(problem, json.JSONDecodeError):
        what = _JSON_OF.get(place, "a part of it")
        return f"{what} is not valid JSON (line {problem.lineno}, column {problem.colno})"
    if isinstance(problem, KeyError):
        return f"{problem} is missing"
    if isinstance(problem, ValueError | TypeError):
        return str(problem)
    return f"it is not laid out as such a record is ({problem})"


def _short(value: object, most: int) -> str:
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def readable(rows: Rows, found: Iterable[Row], decode: Callable[[Row], T]) -> list[T]:
    """The records of a pass over many that can be read. The others are noted, and the pass continues without them: every such pass goes through here."""
    kept: list[T] = []
    for row in found:
        try:
            kept.append(decode(row))
        except RecordTorn as problem:
            rows.met.note(problem)
    return kept


class Columns:
    """Reads a row from left to right, each column as what it must be.

    Used as a context: whatever turns out to be wrong inside becomes `RecordTorn`, naming the record.
    """

    __slots__ = ("_key", "_next", "_row", "_task", "_what")

    def __init__(self, row: Row, what: str, *, key: str | None = None, task_id: str | None = None) -> None:
        """Read `row`, which is a record of the table `what`. Without `key` its first column is its key; `task_id` says which task it is about."""
        self._row = row
        self._what = what
        self._key = key
        self._task = task_id
        self._next = 0

    def __enter__(self) -> Self:
        """Begin to read."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Say which record cannot be read."""
        if isinstance(
            error, ValueError | TypeError | KeyError | IndexError | OverflowError | AttributeError | RecursionError
        ):
            first: object = self._row[0] if self._row else "?"
            raise torn(self._what, first if self._key is None else self._key, error, self._task) from error

    def value(self) -> SqlValue:
        """The next column."""
        self._next += 1
        return self._row[self._next - 1]

    def text(self) -> str:
        """A text."""
        value = self.value()
        if not isinstance(value, str):
            raise TypeError("not a text")
        return value

    def text_or_none(self) -> str | None:
        """A text that may be absent."""
        value = self.value()
        if value is not None and not isinstance(value, str):
            raise TypeError("not a text")
        return value

    def number(self) -> int:
        """A whole number."""
        value = self.value()
        if not isinstance(value, int):
            raise TypeError("not a number")
        return value

    def number_or_none(self) -> int | None:
        """A whole number that may be absent."""
        value = self.value()
        if value is not None and not isinstance(value, int):
            raise TypeError("not a number")
        return value

    def real_or_none(self) -> float | None:
        """A number that may be absent."""
        value = self.value()
        if value is not None and not isinstance(value, int | float):
            raise TypeError("not a number")
        return value

    def time(self) -> datetime:
        """A time."""
        return moment(self.number())

    def time_or_none(self) -> datetime | None:
        """A time that may be absent."""
        value = self.number_or_none()
        return None if value is None else moment(value)

    def choice(self, kind: type[E]) -> E:
        """One of a closed list."""
        return kind(self.text())

    def choice_or_none(self, kind: type[E]) -> E | None:
        """One of a closed list, or absent."""
        value = self.text_or_none()
        return None if value is None else kind(value)
