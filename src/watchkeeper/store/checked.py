"""Records out of JSON, each field as what it must be: a wrong type in a stored text would else be found where it does harm (R13)."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, TypeVar, Union, cast, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R", bound="DataclassInstance")
_Fits = Callable[[object], bool]


def checked(kind: type[R], data: Mapping[str, object]) -> R:
    """A record of that kind. Raises TypeError for a field that is missing, is not known or has another type."""
    made = kind(**data)
    for name, fits in _fields(kind):
        if not fits(cast("object", getattr(made, name))):
            raise TypeError(f"'{name}' is of another type")
    return made


@cache
def _fields(kind: "type[DataclassInstance]") -> tuple[tuple[str, _Fits], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, _check(hints[field.name])) for field in fields(kind))


def _check(hint: object) -> _Fits:
    """The test for a type. The type is taken apart once, not for each value."""
    origin, inner = get_origin(hint), cast("tuple[object, ...]", get_args(hint))
    if origin is tuple and inner[-1] is Ellipsis:
        each = _check(inner[0])
        return lambda value: isinstance(value, tuple) and all(map(each, cast("tuple[object, ...]", value)))
    checks = [_check(one) for one in inner]
    if origin in {Union, UnionType}:
        return lambda value: any(check(value) for check in checks)
    if origin is tuple:
        return lambda value: isinstance(value, tuple) and _all(checks, cast("tuple[object, ...]", value))
    if hint is bool:
        return lambda value: isinstance(value, bool)
    if origin is not None or not isinstance(hint, type):
        return lambda value: value is None and hint is None
    known = (int, float) if hint is float else hint
    return lambda value: isinstance(value, known) and not isinstance(value, bool)


def _all(checks: list[_Fits], items: tuple[object, ...]) -> bool:
    return len(items) == len(checks) and all(check(item) for check, item in zip(checks, items, strict=True))
