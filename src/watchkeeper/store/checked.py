"""Records out of JSON, each field as what it must be: a wrong type in a stored text would else be found where it does harm (R13)."""

from collections.abc import Callable, Mapping
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
    for name in data:
        if not _check_of(kind, name)(cast("object", getattr(made, name))):
            raise TypeError(f"'{name}' is of another type")
    return made


@cache
def _check_of(kind: "type[DataclassInstance]", name: str) -> Check:
    """The check of a field. It is made once, because every read of a task or a run needs it.

    A type that stands in quotes is looked up only here, so a record without that field does not need its module.
    """
    annotated = cast("object", kind.__dataclass_fields__[name].type)
    return _check(cast("object", get_type_hints(kind)[name]) if isinstance(annotated, str) else annotated)


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
