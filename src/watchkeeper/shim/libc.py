"""The C library, called as ctypes does it, by the C module under it: ctypes itself, and `struct` with it, would cost a tenth of the start.

It is loaded at the start and not when it is needed: by then the installed Python may have been replaced.
"""

import _ctypes


class _Long(_ctypes._SimpleCData):  # noqa: SLF001 # pyright: ignore[reportPrivateUsage, reportMissingTypeArgument] - what ctypes makes its own types of
    """A C long."""

    _type_ = "l"


class _Function(_ctypes.CFuncPtr):
    """A C function that returns an int and may set errno."""

    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO


def call(name: str, first: int, *others: int) -> tuple[int, int]:
    """Call a function that takes an int and then longs, or ints that are not negative; returns its int and the errno."""
    library = _ctypes.dlopen(None, 0)  # pyright: ignore[reportArgumentType] - the program itself, as in dlopen(3)
    result: int = _Function(_ctypes.dlsym(library, name))(first, *[_Long(each) for each in others])
    return result, _ctypes.get_errno()
