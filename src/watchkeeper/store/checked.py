"""Records out of JSON, each field as what it must be: a wrong type in a stored text would else be found where it does harm (R13)."""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, TypeVar, Union, cast, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R", bound="DataclassInstance")


def checked(kind: type[R], data: Mapping[str, object]) -> R:
    """A record of that kind. Raises TypeError for a field that is missing, is not known or has another type."""
    made = kind(**data)
    for name, hint in _hints(kind):
        if not _fits(cast("object", getattr(made, name)), hint):
            raise TypeError(f"'{name}' is of another type")
    return made


@cache
def _hints(kind: "type[DataclassInstance]") -> tuple[tuple[str, object], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, cast("object", hints[field.name])) for field in fields(kind))


def _fits(value: object, hint: object) -> bool:
    if isinstance(hint, type) and get_origin(hint) is None:
        if hint is float:
            return isinstance(value, int | float) and not isinstance(value, bool)
        return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))
    origin, inner = get_origin(hint), cast("tuple[object, ...]", get_args(hint))
    if origin in {Union, UnionType}:
        return any(_fits(value, one) for one in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        items = cast("tuple[object, ...]", value)
        if inner[-1] is Ellipsis:
            return all(_fits(item, inner[0]) for item in items)
        return len(items) == len(inner) and all(_fits(item, one) for item, one in zip(items, inner, strict=True))
    return value is None and hint is None
