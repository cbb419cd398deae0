"""Looks into agents' directories from a process apart, each with a deadline: a file system that does not answer costs one look, never a thread of the daemon.

What cannot be known is said inside the answer, as everywhere. A look that was given up is marked, so that nothing is launched where nothing answers.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

from watchkeeper.crash import crashpoint
from watchkeeper.domain.model import Changes
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.domain.worktree import Worktree
from watchkeeper.ports.workspace import SILENT, Checkout, Survey
from watchkeeper.ports.worktrees import Made
from watchkeeper.workspaces import answers
from watchkeeper.workspaces.git import GitWorkspace
from watchkeeper.workspaces.worktrees import GitWorktrees

DEADLINE_S = 30.0
"""How long a look may take by default."""

FORGET_S = 5.0
"""How long a repository may take to let go of files; after that it is asked again later."""

_CHUNK = 1024 * 1024
_PATIENCE_S = 0.5
"""The process apart ends a look at its deadline; so much later we no longer wait for that."""


_REST_PER_LOOK = 3.0
_LONGEST_REST_S = 0.25
"""Between two looks for changes in one directory: three times what the first took, and no longer than this. Runs that end meanwhile share the second look."""

_Answer = dict[str, object] | tuple[str, bool]
"""An answer; or why there is none, and whether the directory is what did not answer."""


class _SharedRead:
    """One look, and all who wait for it."""

    def __init__(self, behind: "_SharedRead | None") -> None:
        self.behind = behind
        self.befores: list[Mapping[str, object] | None] = []
        self.names: list[str] = []
        self.answers: list[_Answer] = []
        self.silent: tuple[str, bool] | None = None
        self.rest_s = 0.0
        """How long the next look waits after this one is over."""
        self.over = threading.Event()

    def join(self, before: Mapping[str, object] | None, name: str) -> int:
        self.befores.append(before)
        self.names.append(name)
        return len(self.befores) - 1


class ApartWorktrees(GitWorktrees):
    """Makes worktrees in another process; whatever else it does, it does in this one."""

    def __init__(self, root: Path, deadline_s: float) -> None:
        """Give the making of one up after `deadline_s`."""
        super().__init__(root)
        self._apart = ApartWorkspace(deadline_s)

    def make(self, tree: Worktree, owner: str) -> Made:
        """As `GitWorktrees.make`, with a deadline. Never raises."""
        return self._apart.make(tree, owner)

    def close(self) -> None:
        """End the process apart, and what it makes."""
        self._apart.close()


class ApartWorkspace:
    """Looks as `GitWorkspace` does, in another process. Safe to use from several threads, each of which waits for its own look only."""

    def __init__(self, deadline_s: float = DEADLINE_S, environ: Mapping[str, str] | None = None) -> None:
        """Give a look up after `deadline_s`. The process is started, with `environ`, at the first look."""
        self._deadline_s = deadline_s
        self._environ = dict(os.environ if environ is None else environ)
        self._guard = threading.Lock()
        self._next: dict[tuple[str, str], _SharedRead] = {}
        self._now: dict[tuple[str, str], _SharedRead] = {}
        self._control: socket.socket | None = None
        self._looker: subprocess.Popen[bytes] | None = None

    def identify(self, cwd: str) -> WorkingDirectory | None:
        """As `GitWorkspace.identify`. Never raises."""
        found = self._together("identify", cwd, None)
        return None if isinstance(found, tuple) else answers.directory_of(found["found"])

    def survey(self, cwd: str, name: str = "") -> Survey:
        """As `GitWorkspace.survey`. Never raises."""
        found = self._together("survey", cwd, None, name)
        return Survey(None, _unknown(found), None) if isinstance(found, tuple) else answers.survey_of(found)

    def snapshot(self, cwd: str) -> Mapping[str, object]:
        """As `GitWorkspace.snapshot`, with the place. Never raises."""
        found = self._together("snapshot", cwd, None)
        return _unknown(found) if isinstance(found, tuple) else found

    def changes(self, cwd: str, before: Mapping[str, object] | None, name: str = "") -> Changes:
        """As `GitWorkspace.changes`. Never raises."""
        found = self._together("changes", cwd, before, name)
        if isinstance(found, tuple):
            return Changes(known=False, why_unknown=found[0])
        return answers.changes_of(found)

    def forget(self, repository: str, names: Sequence[str]) -> str:
        """As `GitWorkspace.forget`. Never raises."""
        question: dict[str, object] = {"do": "forget", "cwd": repository, "names": list(names), "within_s": FORGET_S}
        found = self._ask(question, FORGET_S)
        return found[0] if isinstance(found, tuple) else str(found["why_not"])

    def checkout(self, cwd: str) -> Checkout | None:
        """As `GitWorkspace.checkout`, in this process: the caller who hands a task over waits for their own directory."""
        return GitWorkspace(self._environ).checkout(cwd)

    def make(self, tree: Worktree, owner: str) -> Made:
        """As `GitWorktrees.make`. Never raises; what was cut off at the deadline is completed by the next try."""
        question: dict[str, object] = {
            "do": "make",
            "cwd": tree.path,
            "owner": owner,
            "tree": asdict(replace(tree, made=None)),
        }
        found = self._ask(question)
        return Made(problem=found[0], passing=True) if isinstance(found, tuple) else answers.made_of(found)

    def close(self) -> None:
        """End the process apart, and all looks with it."""
        with self._guard:
            self._forget()

    def _together(self, do: str, cwd: str, before: Mapping[str, object] | None, name: str = "") -> _Answer:
        """Ask, together with all other callers that ask for the same directory while another such look is running.

        Each gets the answer of a look that began after they asked; many runs that end at once in one place cost two looks, not many.
        """
        key = (do, cwd)
        with self._guard:
            look = self._next.get(key)
            leads = look is None
            look = look or self._next.setdefault(key, _SharedRead(self._now.get(key)))
            mine = look.join(before, name)
        if leads:
            self._lead(key, look)
        look.over.wait()
        return look.answers[mine]

    def _lead(self, key: tuple[str, str], look: "_SharedRead") -> None:
        """Wait for the running look, then make the next one for all callers that have joined until then."""
        if look.behind is not None:
            look.behind.over.wait()
            _rest(look.behind.rest_s)
        with self._guard:
            del self._next[key]
            self._now[key] = look
        try:
            if look.behind is not None and look.behind.silent is not None:
                look.answers = [look.behind.silent] * len(look.befores)  # the directory had not answered until now
            else:
                began = time.monotonic()
                look.answers = self._read(key, look)
                if key[0] == "changes" and look.silent is None:
                    look.rest_s = min(_LONGEST_REST_S, _REST_PER_LOOK * (time.monotonic() - began))
        finally:
            look.behind = None
            with self._guard:
                if self._now.get(key) is look:
                    del self._now[key]
            look.over.set()

    def _read(self, key: tuple[str, str], look: "_SharedRead") -> list[_Answer]:
        question: dict[str, object] = {"do": key[0], "cwd": key[1], "befores": look.befores, "names": look.names}
        found = self._ask(question)
        if isinstance(found, tuple):
            look.silent = found if found[1] else None
            return [found] * len(look.befores)
        many = found.get("changes")
        return cast("list[_Answer]", many) if isinstance(many, list) else [found] * len(look.befores)

    def _ask(self, question: dict[str, object], within_s: float | None = None) -> _Answer:
        """The answer; or why there is none, and whether the directory is what did not answer."""
        within_s = self._deadline_s if within_s is None else min(within_s, self._deadline_s)
        try:
            ours = self._send()
        except OSError as error:
            return f"No process can be started to look at the directory: {error.strerror or error}.", False
        until = time.monotonic() + within_s + _PATIENCE_S
        with ours:
            try:
                return cast("dict[str, object]", json.loads(_talk(ours, json.dumps(question).encode(), until)))
            except TimeoutError:
                return self._silent(question, within_s), True
            except (OSError, ValueError):
                # It was ended, at its deadline or from outside, or could not begin.
                if time.monotonic() + 2 * _PATIENCE_S >= until:
                    return self._silent(question, within_s), True
                return "The look at the directory was ended before it was over.", False

    def _silent(self, question: Mapping[str, object], within_s: float) -> str:
        return f"The directory has not answered for {within_s:g} s: {question['cwd']}"

    def _send(self) -> socket.socket:
        """Hand one end of a new socket over, and return the other. A process that has died is replaced once."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                try:
                    self._hand_over(theirs)
                except OSError:
                    self.close()
                    self._hand_over(theirs)
            except OSError:
                ours.close()
                raise
        return ours

    def _hand_over(self, theirs: socket.socket) -> None:
        with self._guard:
            _ = socket.send_fds(self._running(), [b"."], [theirs.fileno()])

    def _running(self) -> socket.socket:
        if self._looker is not None and self._looker.poll() is not None:
            self._forget()
        if self._control is None:
            ours, theirs = socket.socketpair()
            with theirs:
                command = [sys.executable, "-m", "watchkeeper.workspaces.looker", str(theirs.fileno())]
                crashpoint("look.spawn.before")
                try:
                    self._looker = subprocess.Popen(
                        [*command, str(self._deadline_s)],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        pass_fds=(theirs.fileno(),),
                        cwd="/",
                        env=self._environ,
                        start_new_session=True,
                    )
                except OSError:
                    ours.close()
                    raise
                crashpoint("look.spawn.after")
            self._control = ours
        return self._control

    def _forget(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._looker is not None:
            try:
                _ = self._looker.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._looker.kill()  # it hears of nothing any more; whatever it had begun ends by its own deadline or with it
            self._looker = None


def _rest(for_s: float) -> None:
    """Let the runs that end meanwhile share the next look: no event tells that more of them will come."""
    time.sleep(for_s)


def _unknown(why: tuple[str, bool]) -> Mapping[str, object]:
    return {"kind": "unknown", "why_unknown": why[0], SILENT: why[1]}


def _talk(ours: socket.socket, question: bytes, until: float) -> bytes:
    """Ask and read the answer to its end. Raises TimeoutError when the time is over."""
    sent, got = memoryview(question), bytearray()
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        ours.settimeout(left)
        if sent:
            sent = sent[ours.send(sent[:_CHUNK]) :]
            if not sent:
                ours.shutdown(socket.SHUT_WR)
            continue
        data = ours.recv(_CHUNK)
        if not data:
            return bytes(got)
        got += data
