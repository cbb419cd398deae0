"""What a run changed, from git's point of view, with nothing touched and nothing of the repository's run.

An agent may have written anything into the directory, its git configuration included. So git runs with hooks, file system
monitors, content filters and prompts off, takes no optional locks, and sees none of the GIT_ variables of its caller.

A snapshot is what differs from HEAD: for each such path, whether HEAD has it and what is there. A later snapshot against
it, and HEAD against HEAD, gives what the run changed, without what was equally dirty before.
"""

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

from watchkeeper.domain.model import Changes, FileChange
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.ports.workspace import Checkout, Survey
from watchkeeper.workspaces import identity, plain
from watchkeeper.workspaces.checkouts import checkout_by_looking, project_of
from watchkeeper.workspaces.plain import storable
from watchkeeper.workspaces.states import Hasher, State, committed_state, recorded_state, same

TIMEOUT_S = 30.0
SLOW_S = 2.0
"""A question to git that takes longer is worth a word."""

MAX_DIRTY = 5000
MAX_COMMITS = 50
MAX_CHANGED = 5000
MAX_OUTPUT = 32 * 1024 * 1024
_MOST_COMPLAINT = 64 * 1024

_SAFE = (
    "--no-optional-locks", "--literal-pathspecs",
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false",
    "-c", "core.quotePath=false", "-c", "protocol.allow=never", "-c", "safe.bareRepository=explicit",
)  # fmt: skip

_FILTER_OFF = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))

_AS_IN_HEAD: State = ["as in HEAD", None, -1, None]
"""Clean, and so the same as nothing that is dirty."""


_DETACHED = "(detached)"
"""What git calls the branch where HEAD names a commit."""

_FIELDS_BEFORE_PATH = {b"1": 7, b"u": 9, b"?": 0}
"""By the kind of a line of git's status: changed, unmerged, not tracked."""

_NOT_IN_HEAD = frozenset({b"A.", b"AM", b"AD", b".A"})
"""States in the index and in the directory of a path that HEAD does not have."""


class _Status(NamedTuple):
    """What git tells of a checkout in one answer."""

    head: str | None
    """The commit; None where there is none yet."""
    branch: str | None
    dirty: dict[str, bool]
    """Every path that differs from HEAD or is not tracked, without what is ignored, and whether HEAD has it."""


class _Unknown(Exception):  # noqa: N818 - what cannot be known
    """Why the state of the directory cannot be known, in a sentence."""


NoAnswer = _Unknown
"""Raised by the questions to git, for classes that build on `GitWorkspace`."""


class GitWorkspace:
    """Looks at the checkout that a directory belongs to as a whole; paths are relative to its top."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        on_slow: Callable[[str], None] | None = None,
    ) -> None:
        """Look, and change nothing.

        Args:
            environ: its PATH names the git to use; by default this process's environment.
            timeout_s: how long one question to git may take.
            on_slow: called on another thread, with a sentence, when a question takes longer than `SLOW_S`.
        """
        self._environ = dict(os.environ if environ is None else environ)
        self._timeout_s = timeout_s
        self._on_slow = on_slow

    def identify(self, cwd: str) -> WorkingDirectory | None:
        """Say which directory that is, and what is checked out there; None if it cannot be looked at. Never raises."""
        found = identity.identify(cwd)
        if found is None or found.ref != identity.REFTABLE:
            return found
        try:  # its branches are kept in a format that git alone reads
            ref = self._line(cwd, "symbolic-ref", "--quiet", "HEAD")
            head = self._line(cwd, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        except (_Unknown, OSError, ValueError) as error:
            return replace(found, ref=None, head_file=None, unknown=_sentence(error))
        unknown = "" if ref or head else "git names neither a branch nor a commit."
        return replace(found, ref=ref, head=head, head_file=None, unknown=unknown)

    def survey(self, cwd: str) -> Survey:
        """Identify the directory before and after a snapshot of it. Never raises."""
        return Survey(self.identify(cwd), self.snapshot(cwd), self.identify(cwd))

    def snapshot(self, cwd: str) -> Mapping[str, object]:
        """Say what differs from HEAD, or for a directory without git what files there are. Never raises."""
        try:
            top = self._top(cwd)
            return plain.snapshot(cwd) if top is None else self._snapshot(top)
        except (_Unknown, OSError, ValueError) as error:
            return {"kind": "unknown", "why_unknown": _sentence(error)}

    def changes(self, cwd: str, before: Mapping[str, object] | None) -> Changes:
        """Say what differs from `before`. Never raises."""
        return self.changes_of_many(cwd, [before])[0]

    def changes_of_many(self, cwd: str, befores: Sequence[Mapping[str, object] | None]) -> list[Changes]:
        """Say what differs from each of these, by one look at what there is now. Never raises."""
        nothing: Mapping[str, object] = {}
        now = self.snapshot(cwd) if any(before is not None for before in befores) else nothing
        left = self.identify(cwd)
        return [replace(self._changes(before, now), left=left) for before in befores]

    def _changes(self, before: Mapping[str, object] | None, now: Mapping[str, object]) -> Changes:
        if before is None:
            return Changes(known=False, why_unknown="Nothing is known of the directory from before the run.")
        try:
            for seen in (before, now):
                if "why_unknown" in seen:
                    return Changes(known=False, why_unknown=str(seen["why_unknown"]))
            if now["kind"] != before["kind"] or now.get("top") != before.get("top"):
                return Changes(known=False, why_unknown=_moved(before, now))
            return plain.compare(before, now) if now["kind"] == "plain" else self._compare(before, now)
        except (_Unknown, OSError, ValueError, KeyError, TypeError) as error:
            return Changes(known=False, why_unknown=_sentence(error))

    def checkout(self, cwd: str) -> Checkout | None:
        """Say which checkout a directory is in; None outside git. Never raises."""
        try:
            found = self._git(cwd, "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir")
            top, common = (os.fsdecode(line) for line in found.splitlines())
        except (_Unknown, OSError, ValueError):
            # No git, none that is new enough, or one that does not trust the repository: two agents in one checkout would still disturb each other.
            return checkout_by_looking(cwd)
        return Checkout(top=storable(os.path.realpath(top)), project=project_of(common))

    def _snapshot(self, top: str) -> dict[str, object]:
        seen = self._status(top)
        branch, dirty = seen.branch, seen.dirty
        if branch == _DETACHED:  # or a branch that is called so
            branch = (self._line(top, "symbolic-ref", "--quiet", "HEAD") or "").removeprefix("refs/heads/") or None
        names = sorted(dirty, key=os.fsencode)
        hasher = Hasher()
        return {
            "kind": "git",
            "top": top,
            "head": seen.head,
            "branch": branch,
            "dirty": {name: [dirty[name], hasher.state(Path(top, name))] for name in names[:MAX_DIRTY]},
            "truncated": len(names) > MAX_DIRTY,
        }

    def _compare(self, before: Mapping[str, object], now: Mapping[str, object]) -> Changes:
        top = cast("str", now["top"])
        base, head = cast("str | None", before["head"]), cast("str | None", now["head"])
        if base is not None and not _is_hash(base):
            raise _Unknown("What is recorded of the directory from before the run cannot be read.")
        committed = self._committed(top, base, head)
        commits = self._commits(top, base, head)
        old, new = _entries(before), _entries(now)
        paths = dict(committed)
        for path in _comparable(before, now, old.keys() | new.keys()):
            was = old[path][1] if path in old else self._before(top, base, path, committed.get(path), new[path][0])
            is_now = new[path][1] if path in new else Hasher().state(Path(top, path))
            if same(was, is_now):
                paths.pop(path, None)
            else:
                paths[path] = "added" if was is None else "deleted" if is_now is None else "modified"
        files = [FileChange(path=path, change=paths[path]) for path in sorted(paths)]
        return Changes(
            known=True,
            files=tuple(files[:MAX_CHANGED]),
            commits=tuple(commits[:MAX_COMMITS]),
            truncated=bool(
                before["truncated"] or now["truncated"] or len(files) > MAX_CHANGED or len(commits) > MAX_COMMITS
            ),
        )

    def _before(self, top: str, base: str | None, path: str, change: str | None, in_head: bool) -> State:  # noqa: FBT001 - a recorded fact
        """What was at a path that was clean before and is dirty now."""
        if change is None:
            return _AS_IN_HEAD if in_head else None
        if change == "added" or base is None:
            return None
        # Committed and changed again since: perhaps back to what it was.
        listed = self._git(top, "ls-tree", "-z", "-l", "--full-tree", base, "--", path)
        if not listed:
            return _AS_IN_HEAD
        mode, kind, blob, length = listed.partition(b"\t")[0].decode().split()[:4]
        if kind != "blob" or int(length) > MAX_OUTPUT:
            return _AS_IN_HEAD
        return committed_state(int(mode, 8), self._git(top, "cat-file", "blob", blob))

    def _top(self, cwd: str) -> str | None:
        """The top of the checkout, or None outside git.

        Raises:
            _Unknown: git is missing, or there is a repository without a checkout.
        """
        if not Path(cwd).is_dir():
            raise _Unknown("The directory is gone.")
        found = any(os.path.lexists(directory / ".git") for directory in (Path(cwd), *Path(cwd).parents))
        bare = Path(cwd, "HEAD").is_file() and Path(cwd, "objects").is_dir() and Path(cwd, "refs").is_dir()
        if not found and not bare:
            return None
        if self._program() is None:
            raise _Unknown("git is not installed.")
        if not found:
            raise _Unknown("The directory is a bare repository: it has no files to compare.")
        top = self._git(cwd, "rev-parse", "--show-toplevel").removesuffix(b"\n")
        if not top:
            raise _Unknown("The directory is inside a repository's own files.")
        return os.fsdecode(top)

    def _status(self, top: str) -> _Status:
        question = [
            "status",
            "--porcelain=v2",
            "--branch",
            "--no-ahead-behind",
            "-z",
            "--untracked-files=all",
            "--no-renames",
            "--ignore-submodules=all",
        ]
        return _parse_status(self._answer(self._ask(top, question, self._unfiltered(top))))

    def _unfiltered(self, top: str) -> dict[str, str]:
        """Variables that turn the repository's content filters off: they are commands of unknown origin.

        By variables, because `-c` would misread a filter whose name holds a `=`.
        """
        _, raw, _ = self._ask(top, ["config", "-z", "--name-only", "--get-regexp", r"^filter\."])
        drivers = sorted({key.rpartition(".")[0] for key in os.fsdecode(raw).split("\0") if key.count(".") > 1})
        off = [(f"{driver}.{name}", value) for driver in drivers for name, value in _FILTER_OFF]
        variables = {"GIT_CONFIG_COUNT": str(len(off))}
        for number, (key, value) in enumerate(off):
            variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return variables

    def _committed(self, top: str, base: str | None, head: str | None) -> dict[str, str]:
        """Paths that differ between two commits."""
        if base == head or head is None:
            return {}
        tree = base or self._line(top, "hash-object", "-t", "tree", "/dev/null")
        raw = self._git(
            top, "diff-tree", "-r", "-z", "--no-renames", "--name-status", "--ignore-submodules=none", str(tree), head
        )
        words = {b"A": "added", b"D": "deleted"}
        fields = raw.split(b"\0")
        pairs = zip(fields[::2], fields[1::2], strict=False)
        return {os.fsdecode(path): words.get(status[:1], "modified") for status, path in pairs}

    def _commits(self, top: str, base: str | None, head: str | None) -> list[str]:
        if head is None or base == head:
            return []
        bounds = [head] if base is None else [head, f"^{base}"]
        return self._git(top, "rev-list", f"--max-count={MAX_COMMITS + 1}", *bounds, "--").decode().split()

    def _line(self, top: str, *arguments: str) -> str | None:
        answer = self._ask(top, arguments)
        text = answer[1].decode("utf-8", "replace").strip()
        return text if answer[0] == 0 and text else None

    def _git(self, top: str, *arguments: str) -> bytes:
        return self._answer(self._ask(top, arguments))

    def _answer(self, asked: tuple[int, bytes, str]) -> bytes:
        code, out, complaint = asked
        if code != 0:
            raise _Unknown(f"git could not be asked: {complaint}" if complaint else "git could not be asked.")
        return out

    def _ask(
        self, top: str, arguments: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, str]:
        program = self._program()
        if program is None:
            raise _Unknown("git is not installed.")
        # Files, not pipes: a process that an ended git has started may hold a pipe open forever.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, self._noticed(top):
            try:
                done = subprocess.run(
                    [program, *_SAFE, *arguments],
                    check=False,
                    cwd=top,
                    env={**self._scrubbed(), **(variables or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    timeout=self._timeout_s,
                )
            except subprocess.TimeoutExpired as error:
                raise _Unknown(f"git {arguments[0]} took longer than {self._timeout_s:g} s.") from error
            if out.seek(0, os.SEEK_END) > MAX_OUTPUT:
                raise _Unknown(f"git {arguments[0]} has more to say than is read.")
            out.seek(0)
            _ = err.seek(0)
            complaint = err.read(_MOST_COMPLAINT).decode("utf-8", "replace").strip().splitlines()
            return done.returncode, out.read(), complaint[0][:300] if complaint else ""

    @contextmanager
    def _noticed(self, directory: str) -> Generator[None]:
        """Say what is waited for if the body takes long."""
        if self._on_slow is None:
            yield
            return
        timer = threading.Timer(
            SLOW_S, self._on_slow, (f"Waiting for git in {directory} (at most {self._timeout_s:g} s).",)
        )
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _program(self) -> str | None:
        return shutil.which("git", path=self._environ.get("PATH", os.defpath))

    def _scrubbed(self) -> dict[str, str]:
        kept = {name: value for name, value in self._environ.items() if not name.startswith(("GIT_", "WATCHKEEPER_"))}
        return kept | {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1"}


def _parse_status(raw: bytes) -> _Status:
    """Parse what `git status --porcelain=v2 --branch -z` prints."""
    headers: dict[str, str] = {}
    dirty: dict[str, bool] = {}
    for entry in filter(None, raw.split(b"\0")):
        kind, _, rest = entry.partition(b" ")
        if kind == b"#":
            name, _, value = rest.decode("utf-8", "replace").partition(" ")
            headers[name] = value
        elif kind in _FIELDS_BEFORE_PATH:
            path = os.fsdecode(rest.split(b" ", _FIELDS_BEFORE_PATH[kind])[-1])
            in_head = kind == b"u" or (kind == b"1" and rest[:2] not in _NOT_IN_HEAD)
            dirty[path] = dirty.get(path, False) or in_head
    head = headers.get("branch.oid", "")
    return _Status(head if _is_hash(head) else None, headers.get("branch.head"), dirty)


def _entries(seen: Mapping[str, object]) -> dict[str, tuple[bool, State]]:
    rows = cast("dict[str, list[object]]", seen["dirty"])
    return {path: (bool(row[0]), recorded_state(row[1])) for path, row in rows.items()}


def _comparable(before: Mapping[str, object], now: Mapping[str, object], paths: set[str]) -> set[str]:
    """The paths that both snapshots speak of: one that was cut off says nothing of what sorts behind its last path."""
    for seen in (before, now):
        if seen["truncated"]:
            last = max((os.fsencode(path) for path in cast("dict[str, object]", seen["dirty"])), default=b"")
            paths = {path for path in paths if os.fsencode(path) <= last}
    return paths


def _is_hash(text: str) -> bool:
    return len(text) in {40, 64} and set(text) <= set("0123456789abcdef")


def _moved(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    if before["kind"] == "plain":
        return "The directory was not under git before the run and is now."
    if now["kind"] == "plain":
        return "The directory was under git before the run and no longer is."
    return "The directory belongs to another checkout than before the run."


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, _Unknown) else f"The directory cannot be looked at: {error}."
