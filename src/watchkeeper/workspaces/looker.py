"""The process that looks into agents' directories: one child for each look, which is ended when it takes too long.

    daemon ──(a socket for each look)──▶ looker ──fork──▶ look ──▶ git
                      ▲                                     │
                      └────────── the answer, JSON ─────────┘

Nothing here waits for a file system but the children. A child that cannot even be killed, because a file system does not answer, keeps neither the looker nor
the daemon from ending. The looker ends when the daemon's end of its own socket is closed, however that dies.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import cast

from watchkeeper.crash import crashpoint
from watchkeeper.workspaces import answers
from watchkeeper.workspaces.git import GitWorkspace
from watchkeeper.workspaces.temporary import temporary_directory
from watchkeeper.workspaces.worktrees import GitWorktrees

MOST = 64
"""Looks at once, those that hang included."""

_AGAIN_S = 0.1
_GIT_SHARE = 0.6
"""One question to git may take so much of a look, so that it is git that is named where git is what hangs."""

_KEEP_SHARE = 0.8
"""After so much of a look nothing more is kept, so that its answer comes in time."""


def main(fd: int, deadline_s: float) -> None:
    """Serve until the daemon is gone."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.ExitStack() as stack:
        try:
            directory = stack.enter_context(temporary_directory())
        except OSError:
            directory = os.devnull  # no file can be kept then, and each answer says so
        _serve(fd, deadline_s, Path(directory))


def _serve(fd: int, deadline_s: float, directory: Path) -> None:
    control = socket.socket(fileno=fd)
    looks: dict[int, float] = {}
    reader = select.poll()
    reader.register(control, select.POLLIN)
    try:
        while True:
            if reader.poll(_AGAIN_S * 1000 if looks else None):
                data, fds, _, _ = socket.recv_fds(control, 1, 1)
                if not data:
                    return
                for each in fds:
                    _begin(looks, control, each, deadline_s, directory)
            _collect(looks, directory)
    finally:
        for pid in looks:
            _end(pid)


def _begin(looks: dict[int, float], control: socket.socket, fd: int, deadline_s: float, directory: Path) -> None:
    asker = socket.socket(fileno=fd)
    with asker:
        if len(looks) >= MOST:
            return  # the caller sees the end of the answer, and reports it
        crashpoint("look.fork.before")
        try:
            pid = os.fork()
        except OSError:
            return  # the same
        if pid:
            crashpoint("look.fork.after")
            looks[pid] = time.monotonic() + deadline_s
            return
        try:
            os.setsid()
            control.close()
            _answer(asker, deadline_s, directory / str(os.getpid()))
        finally:
            os._exit(0)


def _answer(asker: socket.socket, deadline_s: float, directory: Path) -> None:
    with asker.makefile("rb") as questions:
        question = cast("dict[str, object]", json.loads(questions.read()))
    timeout_s = deadline_s * _GIT_SHARE
    if question["do"] == "make":
        found = answers.make(GitWorktrees(timeout_s=timeout_s), question)
    else:
        with contextlib.suppress(OSError):
            directory.mkdir()
        keep_within_s = cast("float", question.get("within_s", deadline_s * _KEEP_SHARE))
        workspace = GitWorkspace(timeout_s=timeout_s, keep_within_s=keep_within_s, temporary=str(directory))
        found = answers.answer(workspace, question)
    asker.sendall(json.dumps(found).encode())


def _collect(looks: dict[int, float], directory: Path) -> None:
    """End what takes too long, and whatever a look that is over has left behind: processes, and files of its own."""
    now = time.monotonic()
    for pid, until in list(looks.items()):
        # Seen before it is reaped, so that the number of its group is still its own.
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            _end(pid)
            os.waitpid(pid, 0)
            shutil.rmtree(directory / str(pid), ignore_errors=True)
            del looks[pid]
        elif now > until:
            _end(pid)


def _end(pid: int) -> None:
    crashpoint("look.end.before")
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # noqa: TID251 - the group of our own child, which is not reaped yet (R7)
    with contextlib.suppress(ProcessLookupError):
        # It may not have made its group yet.
        os.kill(pid, signal.SIGKILL)  # noqa: TID251 - our own child, which is not reaped yet (R7)
    crashpoint("look.end.after")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
