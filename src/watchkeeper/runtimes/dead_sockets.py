"""Remove sockets without a listener, and the directories that earlier versions made for theirs.

Earlier versions kept sockets in `/tmp/watchkeeper-UID-HASH` or `$XDG_RUNTIME_DIR/watchkeeper-HASH`, one directory for each state directory there ever was.
Nothing is removed for its name alone: a directory must be our own user's and closed to others, hold nothing but sockets, each of them dead, and have been
left alone for an hour, because its owner may be about to bind there.
"""

import contextlib
import errno
import os
import re
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.runtimes.sockets import reach

_SHARED = Path("/tmp")  # noqa: S108 - what is below it is checked
_LEFT_ALONE_S = 3600.0
_HASH = "[0-9a-f]{8}"


def clear(directory: Path, environ: Mapping[str, str]) -> int:
    """Do both; returns how many sockets and directories went. Raises OSError."""
    now_s = time.time()
    return (clear_dead(directory, now_s) if directory.exists() else 0) + clear_left_over(environ, now_s)


def clear_dead(directory: Path, now_s: float) -> int:
    """Remove dead sockets from a state directory's own directory for sockets; returns how many. Raises OSError."""
    gone = 0
    for entry in _entries(directory):
        path = directory / entry.name
        if _is_old_socket(path, now_s) and is_dead(path):
            with contextlib.suppress(FileNotFoundError):
                crashpoint("sockets.clear.before")
                path.unlink()
                gone += 1
    return gone


def left_over(environ: Mapping[str, str], now_s: float) -> Iterator[Path]:
    """The unused socket directories of earlier versions. Looks only."""
    for directory in _candidates(environ):
        with contextlib.suppress(OSError):
            if _is_left_over(directory, now_s):
                yield directory


def clear_left_over(environ: Mapping[str, str], now_s: float) -> int:
    """Remove the unused socket directories of earlier versions; returns how many. What cannot be removed stays."""
    gone = 0
    for directory in left_over(environ, now_s):
        with contextlib.suppress(OSError):
            for entry in _entries(directory):
                crashpoint("sockets.left_over.before")
                (directory / entry.name).unlink()
            directory.rmdir()
            gone += 1
    return gone


def is_dead(path: Path) -> bool:
    """Whether a socket's address has no listener. Raises OSError where that cannot be determined."""
    with reach(path) as name:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK) as one:
                try:
                    one.connect(name)
                except OSError as error:
                    if error.errno == errno.EPROTOTYPE:
                        continue  # it is of the other kind: it has a listener, or the next try decides
                    return error.errno == errno.ECONNREFUSED
                return False
    return False


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    named = [(_SHARED, re.compile(f"watchkeeper-{os.geteuid()}-{_HASH}"))]
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        named.append((Path(runtime), re.compile(f"watchkeeper-{_HASH}")))
    for above, name in named:
        with contextlib.suppress(OSError):
            for entry in _entries(above):
                if name.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                    yield above / entry.name


def _is_left_over(directory: Path, now_s: float) -> bool:
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        return False
    if not _is_old(found, now_s):
        return False
    paths = [directory / entry.name for entry in _entries(directory)]
    return all(_is_old_socket(path, now_s) and is_dead(path) for path in paths)


def _is_old_socket(path: Path, now_s: float) -> bool:
    found = path.lstat()
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid() and _is_old(found, now_s)


def _is_old(found: os.stat_result, now_s: float) -> bool:
    return now_s - max(found.st_mtime, found.st_ctime) > _LEFT_ALONE_S


def _entries(directory: Path) -> "list[os.DirEntry[str]]":
    with os.scandir(directory) as found:
        return list(found)
