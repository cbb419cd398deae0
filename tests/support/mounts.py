"""Real file systems for a benchmark that root runs in a mount namespace of its own: a mount that stops answering, and a disk of a few pages.

    python ──(unshare --mount)──▶ the same program again, which sees these mounts; its children do, and no other process does

The mount that dies is a FUSE file system with one empty directory. Its server is a thread of this process. Once it is dead it still reads each request and
answers none, so who asks waits in the kernel and cannot be killed, as on a network mount whose server is gone. When this process ends, the kernel ends the
connection, and every process that waits gets an error.
"""

import contextlib
import errno
import os
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

_FUSE = Path("/dev/fuse")
_OURS = "WATCHKEEPER_BENCHMARK_MOUNTS"

_REQUEST = struct.Struct("<IIQQIIII")
"""Length, operation, id of the request, node, user, group, process, padding."""
_ANSWER = struct.Struct("<IiQ")
"""Length, negative error number, id of the request."""
_ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")

_GETATTR, _STATFS, _INIT, _OPENDIR, _READDIR, _RELEASEDIR, _ACCESS = 3, 17, 26, 27, 28, 29, 34
_UNANSWERED = frozenset({2, 36, 42})
"""FORGET, INTERRUPT and BATCH_FORGET have no answer."""


def in_own_namespace() -> bool:
    """Whether mounts can be made that this process and its children alone see. Where they can, this program starts again in such a namespace."""
    if os.environ.get(_OURS):
        return True
    if os.geteuid() != 0 or not _FUSE.exists():
        return False
    usable = subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0
    if usable:
        os.environ[_OURS] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    return False


def small_disk(place: Path, kib: int) -> None:
    """Mount an empty disk of so many KiB at `place`."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "small", str(place)], check=True)


def unmount(place: Path, *options: str) -> None:
    """Take away what is mounted at `place`. Nothing looks at the directory first, which would wait on a dead mount."""
    subprocess.run(["umount", "-i", "-c", "-n", "-l", *options, str(place)], check=True)


class DyingMount:
    """A mounted, empty directory that answers until `die` is called."""

    def __init__(self, place: Path) -> None:
        """Mount it at `place` and answer from a thread."""
        self._place = place
        self._dead = threading.Event()
        self._fd = os.open(_FUSE, os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._fd},rootmode=40000,user_id=0,group_id=0"
        subprocess.run(
            ["mount", "-i", "-t", "fuse", "-o", options, "dying", str(place)], check=True, pass_fds=(self._fd,)
        )
        self.unanswered = 0
        """Requests that wait."""
        self._server = threading.Thread(target=self._serve, daemon=True)
        self._server.start()

    def die(self) -> None:
        """Answer nothing from now on."""
        self._dead.set()

    def close(self) -> None:
        """Cut the connection: all who wait get an error."""
        self.die()
        unmount(self._place, "-f")  # which cuts the connection
        self._server.join(10)
        os.close(self._fd)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the connection was cut
            while True:
                request = os.read(self._fd, 1 << 20)
                _, operation, number, *_ = _REQUEST.unpack_from(request)
                if self._dead.is_set():
                    self.unanswered += 1
                elif operation not in _UNANSWERED:
                    error, data = _answer(operation)
                    _ = os.write(self._fd, _ANSWER.pack(_ANSWER.size + len(data), -error, number) + data)


def _answer(operation: int) -> tuple[int, bytes]:
    """An error number, and what follows it: there is one directory, which is empty."""
    if operation == _INIT:
        return 0, struct.pack("<IIIIHHIIHH8I", 7, 31, 65536, 0, 12, 9, 65536, 1, 0, 0, *[0] * 8)
    if operation == _GETATTR:
        now = int(time.time())
        attributes = _ATTRIBUTES.pack(1, 0, 0, now, now, now, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)
        return 0, struct.pack("<QII", 0, 0, 0) + attributes
    if operation == _OPENDIR:
        return 0, bytes(16)
    if operation == _STATFS:
        return 0, struct.pack("<5Q4I24x", 1000, 1000, 1000, 0, 0, 4096, 255, 4096, 0)
    if operation in {_READDIR, _RELEASEDIR, _ACCESS}:
        return 0, b""
    # Nothing has a name here, and whatever else is asked for is not offered.
    return (errno.ENOENT if operation == 1 else errno.ENOSYS), b""
