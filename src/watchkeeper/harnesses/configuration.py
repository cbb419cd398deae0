"""Read the configuration files of agent programs: bounded, regular files only, never for writing."""

import json
import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

MAX_BYTES = 4 * 1024 * 1024
"""A larger file is not a configuration that a person wrote."""

Table = Mapping[str, object]
"""A table of TOML, or an object of JSON."""


class Unreadable(Exception):  # noqa: N818 - what became of a file; the caller decides whether that is an error
    """A configuration file is there and cannot be used. Says why, in a sentence that names it."""


def read_toml(path: Path) -> Table:
    """What a TOML file holds; empty if there is no file.

    Raises:
        Unreadable: it is there, and cannot be read or parsed.
    """
    try:
        return cast("Table", tomllib.loads(_read(path, MAX_BYTES).decode()))
    except (ValueError, RecursionError) as problem:
        raise Unreadable(f"{path} is not valid TOML: {_first_line(problem)}.") from problem


def read_json(path: Path, *, at_most: int = MAX_BYTES) -> Table:
    """The object that a JSON file holds; empty if there is no file, or an empty one. `at_most`: in bytes.

    Raises:
        Unreadable: it is there, and cannot be read or parsed, or does not hold an object.
    """
    text = _read(path, at_most)
    try:
        found = cast("object", json.loads(text.decode("utf-8-sig"))) if text.strip() else cast("object", {})
    except (ValueError, RecursionError) as problem:
        raise Unreadable(f"{path} is not valid JSON: {_first_line(problem)}.") from problem
    if not isinstance(found, dict):
        raise Unreadable(f"{path} does not hold a JSON object.")
    return cast("Table", found)


def table_at(table: Table, *names: str) -> Table:
    """The table below these names; empty if there is none."""
    for name in names:
        found = table.get(name)
        table = cast("Table", found) if isinstance(found, dict) else {}
    return table


def text_at(table: Table, name: str) -> str:
    """The text by this name; empty if there is none."""
    found = table.get(name)
    return found if isinstance(found, str) else ""


def merged(*layers: Table) -> Table:
    """Later layers win over earlier ones, table by table."""
    result: dict[str, object] = {}
    for layer in layers:
        for name, value in layer.items():
            below = result.get(name)
            both = isinstance(below, dict) and isinstance(value, dict)
            result[name] = merged(cast("Table", below), cast("Table", value)) if both else value
    return result


def _read(path: Path, at_most: int) -> bytes:
    """The bytes of a regular file; none if it is missing or a device such as /dev/null. A pipe is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except (OSError, ValueError) as problem:
        raise Unreadable(f"{path} cannot be read: {_why(problem)}.") from problem
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISCHR(mode):
            return b""
        if not stat.S_ISREG(mode):
            raise Unreadable(f"{path} is not a file.")
        with os.fdopen(os.dup(descriptor), "rb") as opened:
            found = opened.read(at_most + 1)
    except OSError as problem:
        raise Unreadable(f"{path} cannot be read: {_why(problem)}.") from problem
    finally:
        os.close(descriptor)
    if len(found) > at_most:
        raise Unreadable(f"{path} is larger than {at_most} bytes.")
    return found


def _why(problem: Exception) -> str:
    return (problem.strerror if isinstance(problem, OSError) else None) or str(problem)


def _first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0].rstrip(".")
