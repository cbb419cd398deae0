"""How one repository borrows the objects of another."""

import os


def alternate(directory: str) -> bytes:
    """A line of `objects/info/alternates` that names a directory of objects. A newline and a leading quote have another meaning there."""
    raw = os.fsencode(directory)
    for letter, written in ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n")):
        raw = raw.replace(letter, written)
    return b'"' + raw + b'"\n'
