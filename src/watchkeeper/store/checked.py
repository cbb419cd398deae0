"""Records out of JSON, each field as what it must be: a wrong type in a stored text would else be found where it does harm (R13)."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

R = TypeVar("R", bound="DataclassInstance")
Check: TypeAlias = Callable[[object], bool]


def checked(kind: type[R], data: Mapping[str, object]) -> R:
    """A record of that kind. Raises TypeError for a field that is missing, is not known or has another type."""
    made = kind(**data)
    for name, fits in _checks(kind):
        if not fits(cast("object", getattr(made, name))):
            raise TypeError(f"'{name}' is of another type")
    return made


@cache
def _checks(kind: "type[DataclassInstance]") -> tuple[tuple[str, Check], ...]:
    """The check of each field. They are made once, because every read of a task or a run needs them."""
    hints = get_type_hints(kind)
    return tuple((field.name, _check(cast("object", hints[field.name]))) for field in fields(kind))


def _check(hint: object) -> Check:
    if isinstance(hint, type) and get_origin(hint) is None:
        if hint is float:
            return lambda value: isinstance(value, int | float) and not isinstance(value, bool)
        if hint is int:
            return lambda value: isinstance(value, int) and not isinstance(value, bool)
        return lambda value: isinstance(value, hint)
    origin, inner = get_origin(hint), cast("tuple[object, ...]", get_args(hint))
    if origin is tuple:
        return _check_tuple(inner)
    if origin in {Union, UnionType}:
        checks = tuple(_check(one) for one in inner)
        return lambda value: any(fits(value) for fits in checks)
    return lambda value: value is None and hint is None


def _check_tuple(inner: tuple[object, ...]) -> Check:
    checks = tuple(_check(one) for one in inner if one is not Ellipsis)

    def fits(value: object) -> bool:
        if not isinstance(value, tuple):
            return False
        items = cast("tuple[object, ...]", value)
        if inner[-1] is Ellipsis:
            return all(map(checks[0], items))
        return len(items) == len(checks) and all(fits_item(item) for item, fits_item in zip(items, checks, strict=True))

    return fits
