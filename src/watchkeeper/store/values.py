"""Records to columns and columns to records. Times are microseconds since 1970 in UTC; structured values are JSON.

What is read is checked once, here. A column that holds what it cannot hold makes the record unreadable, and that is said (R13).
"""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from typing import Self, TypeVar, cast

from watchkeeper.errors import DatabaseCorrupt
from watchkeeper.store.rows import Row, Value

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_SIGN = 1 << 63

E = TypeVar("E", bound=StrEnum)


def ticks(at: datetime) -> int:
    """A time as a column holds it, exactly."""
    return (at - _EPOCH) // _TICK


def ticks_or_none(at: datetime | None) -> int | None:
    """A time that may be absent."""
    return None if at is None else ticks(at)


def moment(column: int) -> datetime:
    """The time that a column holds."""
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


class Columns:
    """Reads a row from left to right, each column as what it must be.

    Used as a context: whatever turns out to be wrong inside becomes `DatabaseCorrupt`, naming the record.
    """

    __slots__ = ("_next", "_row", "_what")

    def __init__(self, row: Row, what: str) -> None:
        """Read `row`, which is called `what` in complaints."""
        self._row = row
        self._what = what
        self._next = 0

    def __enter__(self) -> Self:
        """Begin to read."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Say which record cannot be read."""
        if isinstance(error, ValueError | TypeError | KeyError | IndexError | OverflowError):
            first = self._row[0] if self._row else "?"
            raise DatabaseCorrupt(
                f"The {self._what} '{first}' in the database cannot be read.",
                hint="`wk doctor` checks the database; nothing was changed.",
            ) from error

    def value(self) -> Value:
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
