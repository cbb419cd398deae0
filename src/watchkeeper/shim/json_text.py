"""JSON without the price of the json package: importing it, and `re` and `enum` with it, takes longer than all the rest of a shim's start.

Reading uses the package's scanner, which is a module of its own in C. Whatever that one cannot read is left to the whole package to judge, and so is
everything where there is no such scanner.
"""

try:
    from _json import encode_basestring_ascii, make_scanner
except ImportError:
    from json.encoder import py_encode_basestring_ascii as encode_basestring_ascii

    make_scanner = None

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeGuard

_BLANKS = " \t\r\n"


class _Rules:
    """What the scanner asks about: plain values."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def is_object(value: object) -> "TypeGuard[dict[str, object]]":
    """Whether a decoded value is an object; the names in one are texts."""
    return isinstance(value, dict)


def is_list(value: object) -> "TypeGuard[list[object] | tuple[object, ...]]":
    """Whether it is a list."""
    return isinstance(value, list | tuple)


def decode(data: bytes) -> object:
    """Parse a JSON text in UTF-8. Raises ValueError, RecursionError."""
    text = data.decode("utf-8").strip(_BLANKS)
    if make_scanner is not None:
        try:
            found, end = make_scanner(_Rules)(text, 0)  # pyright: ignore[reportArgumentType] - it reads these attributes, of whatever it is given
        except Exception:  # noqa: BLE001 - whatever it is: the package will say it properly
            end = -1
        else:
            if end == len(text):
                return found
    try:
        import json  # noqa: PLC0415 - only for what is wrong, or for a Python that is different
    except ImportError:
        raise ValueError("it is not JSON") from None  # and the Python that we were started from is gone
    return json.loads(text)


def encode(value: object) -> str:
    """A value as JSON in ASCII. Raises TypeError for what JSON does not know."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, int | float):
        return repr(value)
    if is_list(value):
        return "[" + ", ".join([encode(each) for each in value]) + "]"
    if is_object(value):
        return "{" + ", ".join([f"{encode(str(key))}: {encode(each)}" for key, each in value.items()]) + "}"
    raise TypeError(f"{type(value).__name__} is not JSON serializable")
