"""What a run changed, from git's point of view, with nothing touched and nothing of the repository's run.

An agent may have written anything into the directory, its git configuration included: `git_program` runs nothing of it.

A snapshot is what differs from HEAD: for each such path, whether HEAD has it and what is there. A later snapshot against
it, and HEAD against HEAD, gives what the run changed, without what was equally dirty before.
"""

import os
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

from watchkeeper.domain.model import Changes, FileChange
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.ports.workspace import Checkout, Survey
from watchkeeper.workspaces import identity, plain
from watchkeeper.workspaces.checkouts import checkout_by_looking, project_of
from watchkeeper.workspaces.committed import Committed
from watchkeeper.workspaces.git_program import TIMEOUT_S, GitProgram, GitUnknown, is_hash
from watchkeeper.workspaces.kept_changes import MAX_CHANGED, MAX_COMMITS, keep, so_far
from watchkeeper.workspaces.plain import storable
from watchkeeper.workspaces.states import Hasher, State, recorded_state, same
from watchkeeper.workspaces.status import DETACHED, Status, status_of
from watchkeeper.workspaces.trees import Kept, Trees

MAX_DIRTY = 5000
MAX_IGNORED = 100
"""How many new paths are named that git ignores."""


class GitWorkspace:
    """Looks at the checkout that a directory belongs to as a whole; paths are relative to its top."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        on_slow: Callable[[str], None] | None = None,
        keep_within_s: float | None = None,
        temporary: str | None = None,
    ) -> None:
        """Look, and change nothing but references of our own.

        Args:
            environ: its PATH names the git to use; by default this process's environment.
            timeout_s: how long one question to git may take.
            on_slow: called on another thread, with a sentence, when a question takes longer than `SLOW_S`.
            keep_within_s: after this time nothing is kept any more, so that what changed is known in time all the same; None: no limit.
            temporary: the directory for our own index; None: the usual one.
        """
        self._git = GitProgram(environ, timeout_s, on_slow)
        until = None if keep_within_s is None else time.monotonic() + keep_within_s
        self._trees = Trees(self._git, until=until, temporary=temporary)

    def identify(self, cwd: str) -> WorkingDirectory | None:
        """Say which directory that is, and what is checked out there; None if it cannot be looked at. Never raises."""
        found = identity.identify(cwd)
        if found is None or found.ref != identity.REFTABLE:
            return found
        try:  # its branches are kept in a format that git alone reads
            ref = self._git.line(cwd, "symbolic-ref", "--quiet", "HEAD")
            head = self._git.line(cwd, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        except (GitUnknown, OSError, ValueError) as error:
            return replace(found, ref=None, head_file=None, unknown=_sentence(error))
        unknown = "" if ref or head else "git names neither a branch nor a commit."
        return replace(found, ref=ref, head=head, head_file=None, unknown=unknown)

    def survey(self, cwd: str, name: str = "") -> Survey:
        """Identify the directory before and after a snapshot of it; with a name keep what differs from HEAD as a tree. Never raises."""
        return self.survey_for(cwd, [name])

    def survey_for(self, cwd: str, names: Sequence[str]) -> Survey:
        """The same for several names: each keeps the same tree. Never raises."""
        first = self.identify(cwd)
        before, seen = self._observe(cwd)
        named = [name for name in names if name]
        if named and seen is not None and seen.dirty:
            before = {**before, **self._keep_before(seen, named)}
        return Survey(first, before, self.identify(cwd))

    def snapshot(self, cwd: str) -> Mapping[str, object]:
        """Say what differs from HEAD, or for a directory without git what files there are. Never raises."""
        return self._observe(cwd)[0]

    def _observe(self, cwd: str) -> tuple[Mapping[str, object], Status | None]:
        try:
            found = self._top(cwd)
            if found is None:
                return plain.snapshot(cwd), None
            seen = status_of(self._git, *found)
            return self._snapshot(seen), seen
        except (GitUnknown, OSError, ValueError) as error:
            return {"kind": "unknown", "why_unknown": _sentence(error)}, None

    def _keep_before(self, seen: Status, names: Sequence[str]) -> dict[str, object]:
        """Keep the tree of a checkout that differs from HEAD; what is recorded of it."""
        kept = self._trees.of_checkout(seen.top, seen.head, seen.dirty, seen.off)
        try:
            if kept.tree is not None:
                self._trees.name(seen.top, {(name, "before"): kept.tree for name in names}, seen.off)
        except (GitUnknown, OSError) as error:
            kept = Kept(None, str(error))
        return {"tree": kept.tree, "not_kept": kept.why_not, "left_out": list(kept.left_out)}

    def changes(self, cwd: str, before: Mapping[str, object] | None, name: str = "") -> Changes:
        """Say what differs from `before`; with a name keep what there is now as a tree. Never raises."""
        return self.changes_of_many(cwd, [before], [name])[0]

    def changes_of_many(
        self, cwd: str, befores: Sequence[Mapping[str, object] | None], names: Sequence[str] = ()
    ) -> list[Changes]:
        """Say what differs from each of these, by one look at what there is now. Never raises."""
        nothing: Mapping[str, object] = {}
        now, seen = self._observe(cwd) if any(before is not None for before in befores) else (nothing, None)
        left = self.identify(cwd)
        found = [replace(self._changes(before, now), left=left) for before in befores]
        return found if seen is None else keep(self._trees, seen, befores, found, names)

    @contextmanager
    def so_far(self, cwd: str, before: Mapping[str, object] | None) -> Generator[Changes]:
        """The port's `LiveFiles`: trees are made in a temporary repository that borrows the objects of the agent's."""
        with tempfile.TemporaryDirectory(prefix="watchkeeper-live-") as directory:
            now, seen = self._observe(cwd)
            found = self._changes(before, now)
            yield found if seen is None or before is None else so_far(self._trees, seen, before, found, directory)

    def forget(self, repository: str, names: Sequence[str]) -> str:
        """Let go of the trees that were kept under these names; why that failed, else empty. Never raises."""
        try:
            if Path(repository).is_dir():
                self._trees.forget(repository, names)
        except (GitUnknown, OSError) as error:
            return str(error)
        return ""

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
        except (GitUnknown, OSError, ValueError, KeyError, TypeError) as error:
            return Changes(known=False, why_unknown=_sentence(error))

    def checkout(self, cwd: str) -> Checkout | None:
        """Say which checkout a directory is in; None outside git. Never raises."""
        try:
            found = self._git.answer(
                cwd, ["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir"]
            )
            top, common = (os.fsdecode(line) for line in found.splitlines())
        except (GitUnknown, OSError, ValueError):
            # No git, none that is new enough, or one that does not trust the repository: two agents in one checkout would still disturb each other.
            return checkout_by_looking(cwd)
        return Checkout(top=storable(os.path.realpath(top)), project=project_of(common))

    def _snapshot(self, seen: Status) -> dict[str, object]:
        top, branch, dirty = seen.top, seen.branch, seen.dirty
        if branch == DETACHED:  # or a branch that is called so
            branch = (self._git.line(top, "symbolic-ref", "--quiet", "HEAD") or "").removeprefix("refs/heads/") or None
        names = sorted(dirty, key=os.fsencode)
        hasher = Hasher()
        return {
            "kind": "git",
            "top": top,
            "repository": seen.repository,
            "head": seen.head,
            "branch": branch,
            "dirty": {name: [dirty[name], hasher.state(Path(top, name))] for name in names[:MAX_DIRTY]},
            "truncated": len(names) > MAX_DIRTY,
            "ignored": sorted(seen.ignored, key=os.fsencode)[:MAX_DIRTY],
        }

    def _compare(self, before: Mapping[str, object], now: Mapping[str, object]) -> Changes:
        top = cast("str", now["top"])
        base, head = cast("str | None", before["head"]), cast("str | None", now["head"])
        if base is not None and not is_hash(base):
            raise GitUnknown("What is recorded of the directory from before the run cannot be read.")
        commits = self._commits(top, base, head)
        old, new = _entries(before), _entries(now)
        comparable = _comparable(before, now, old.keys() | new.keys())
        committed = Committed(self._git, top, base, head, again=comparable - old.keys())
        paths = dict(committed.changes)
        for path in comparable:
            was = old[path][1] if path in old else committed.before(path, in_head=new[path][0])
            is_now = new[path][1] if path in new else Hasher().state(Path(top, path))
            if same(was, is_now):
                paths.pop(path, None)
            else:
                paths[path] = "added" if was is None else "deleted" if is_now is None else "modified"
        files = [FileChange(path=path, change=paths[path], is_committed=path not in new) for path in sorted(paths)]
        ignored, ignored_in_all = _new_ignored(before, now)
        return Changes(
            known=True,
            files=tuple(files[:MAX_CHANGED]),
            ignored=ignored,
            ignored_in_all=ignored_in_all,
            commits=tuple(commits[:MAX_COMMITS]),
            truncated=bool(
                before["truncated"] or now["truncated"] or len(files) > MAX_CHANGED or len(commits) > MAX_COMMITS
            ),
        )

    def _top(self, cwd: str) -> tuple[str, str] | None:
        """The top of the checkout, and the directory that all checkouts of its repository share; None outside git.

        Raises:
            GitUnknown: git is missing, or there is a repository without a checkout.
        """
        if not Path(cwd).is_dir():
            raise GitUnknown("The directory is gone.")
        found = any(os.path.lexists(directory / ".git") for directory in (Path(cwd), *Path(cwd).parents))
        bare = Path(cwd, "HEAD").is_file() and Path(cwd, "objects").is_dir() and Path(cwd, "refs").is_dir()
        if not found and not bare:
            return None
        if self._git.program is None:
            raise GitUnknown("git is not installed.")
        if not found:
            raise GitUnknown("The directory is a bare repository: it has no files to compare.")
        raw = self._git.answer(cwd, ["rev-parse", "--show-toplevel", "--path-format=absolute", "--git-common-dir"])
        top, _, common = raw.removesuffix(b"\n").partition(b"\n")
        if b"\n" in common:  # a path holds one
            top = self._git.answer(cwd, ["rev-parse", "--show-toplevel"]).removesuffix(b"\n")
            common = raw.removeprefix(top + b"\n").removesuffix(b"\n")
        if not top:
            raise GitUnknown("The directory is inside a repository's own files.")
        return os.fsdecode(top), os.fsdecode(common)

    def _commits(self, top: str, base: str | None, head: str | None) -> list[str]:
        if head is None or base == head:
            return []
        bounds = [head] if base is None else [head, f"^{base}"]
        return self._git.answer(top, ["rev-list", f"--max-count={MAX_COMMITS + 1}", *bounds, "--"]).decode().split()


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


def _new_ignored(before: Mapping[str, object], now: Mapping[str, object]) -> tuple[tuple[str, ...], int]:
    """Ignored files and directories that were not there before, and how many there are; none where an older version did not record them."""
    old, new = before.get("ignored"), cast("list[str]", now["ignored"])
    if not isinstance(old, list):
        return (), 0
    known = set(cast("list[str]", old))
    if len(known) >= MAX_DIRTY:  # it was cut off, and says nothing of what sorts behind its last path
        last = max(map(os.fsencode, known))
        new = [path for path in new if os.fsencode(path) <= last]
    found = [path for path in new if path not in known]
    return tuple(found[:MAX_IGNORED]), len(found)


def _moved(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    if before["kind"] == "plain":
        return "The directory was not under git before the run and is now."
    if now["kind"] == "plain":
        return "The directory was under git before the run and no longer is."
    return "The directory belongs to another checkout than before the run."


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, GitUnknown) else f"The directory cannot be looked at: {error}."
