"""Worktrees are kept before they are removed, and brought back.

    record `saving` ─▶ archive, commit ─▶ looked at again ─▶ record `saved` ─▶ directory renamed aside ─▶ deleted, git told, branch deleted ─▶ record `gone`

Until the record says `saved` nothing of the worktree was touched, so what was kept is dropped and kept anew. The one step after it, a rename, takes the whole
worktree out of its place; what comes then is completed by the next command, whatever died in between. What is written while the files are being kept is
found by the second look, and nothing is removed.
"""

import os
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.domain.salvage import Salvage, SalvageState, in_words, too_large
from watchkeeper.errors import describe_os_error
from watchkeeper.ports.salvages import Saved
from watchkeeper.workspaces import archive
from watchkeeper.workspaces.contents import Contents, Entry, Reader, Unsalvageable, everything_in
from watchkeeper.workspaces.deletion import delete
from watchkeeper.workspaces.git_program import GitUnknown
from watchkeeper.workspaces.plain import storable
from watchkeeper.workspaces.restoring import Restorer
from watchkeeper.workspaces.salvage_commit import Committer
from watchkeeper.workspaces.salvage_records import ARCHIVE, MODES, Records, write_json
from watchkeeper.workspaces.worktrees import GitWorktrees

CAP_BYTES = 256 * 1024 * 1024
_MARGIN_BYTES = 16 * 1024 * 1024
"""So much stays free on the disk."""

_HEADS = "refs/heads/"
_FAILURES = (GitUnknown, Unsalvageable, OSError, ValueError, KeyError, TypeError, tarfile.TarError)
_USUAL = {"file": frozenset({0o644, 0o755})}


class GitSalvages(GitWorktrees):
    """Keeps worktrees, removes them, and brings them back."""

    def __init__(
        self,
        root: Path,
        salvage: Path,
        cap_bytes: int = CAP_BYTES,
        environ: Mapping[str, str] | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        """`root`: the directory of all worktrees. `salvage`: that of all salvages. `cap_bytes`: of what git does not keep."""
        super().__init__(root, environ, timeout_s)
        self._records = Records(salvage)
        self._salvage = salvage
        self._cap = cap_bytes

    def records(self) -> Sequence[Salvage]:
        """All that can be read."""
        return self._records.all()

    def obstacle(self, wanted: Salvage) -> str:
        """Looks at everything, and keeps nothing."""
        try:
            self._require_repository(wanted.tree)
            if self._cut_off(wanted) is None:
                self._require_free(wanted)
                if os.path.lexists(wanted.tree.path):
                    _ = self._contents(wanted)
        except _FAILURES as error:
            return _why(error)
        return ""

    def remove(self, wanted: Salvage) -> Saved:
        """One removal or undoing at a time."""
        try:
            self._require_repository(wanted.tree)
            with self._records.alone():
                cut_off = self._cut_off(wanted)
                for each in self._records.all():
                    if each.state is SalvageState.SAVING or (each.state is SalvageState.SAVED and self._is_void(each)):
                        self._forget(each)
                if cut_off is not None:
                    return self._finish(cut_off)
                return self._remove(wanted)
        except _FAILURES as error:
            return Saved(problem=f"The worktree {wanted.tree.path} was not removed: {_why(error)}")

    def _cut_off(self, wanted: Salvage) -> Salvage | None:
        """A removal of that worktree that was cut off after everything was kept. Raises Unsalvageable."""
        for each in self._records.all():
            if each.tree.path != wanted.tree.path:
                continue
            if each.state is SalvageState.RESTORING:
                raise Unsalvageable(f"An undoing of its removal was cut off: `wk undo {each.id}` completes it.")
            if each.state is SalvageState.SAVED and not self._is_void(each):
                return each
        return None

    def _is_void(self, salvage: Salvage) -> bool:
        """Whether everything is still in its place, so that what was kept stands for nothing."""
        if os.path.lexists(self._aside(salvage)):
            return False
        if salvage.present:
            return os.path.lexists(salvage.tree.path)
        return self._place_of(salvage) is not None

    def _remove(self, wanted: Salvage) -> Saved:
        there = os.path.lexists(wanted.tree.path)
        own = self._place_of(wanted)
        if not there and own is None and self._head_of(wanted.tree) is None:
            return Saved()
        self._require_free(wanted)
        saved = self._save(wanted, own, present=there)
        if there:
            crashpoint("salvage.aside.before")
            Path(saved.tree.path).rename(self._aside(saved))
            crashpoint("salvage.aside.after")
        return self._finish(saved)

    def _require_free(self, wanted: Salvage) -> None:
        """Raises Unsalvageable: it is locked, replaced, moved, or git works in it."""
        tree = wanted.tree
        if Path(tree.path).is_symlink():
            raise Unsalvageable(f"{tree.path} is a symbolic link, not the worktree that was made.")
        if os.path.lexists(tree.path) and self._marked(tree) != wanted.task_id:
            raise Unsalvageable(f"{tree.path} is not the worktree that was made for task {wanted.task_id}.")
        ref = _HEADS + tree.branch
        moved = [each.path for each in self._listed(tree) if each.branch == ref and each.path != tree.path]
        if moved:
            raise Unsalvageable(f"Its branch '{tree.branch}' is checked out in {moved[0]}: was the worktree moved?")
        own = self._place_of(wanted)
        if own is not None and (own / "locked").exists():
            reason = (own / "locked").read_text("utf-8", "replace").strip()
            raise Unsalvageable(
                f"It is locked{f' ({reason})' if reason else ''}: `git worktree unlock {tree.path}` lets it go."
            )
        common = Path(tree.repository)
        locks = [common / f"{ref}.lock", common / "packed-refs.lock"]
        if own is not None:
            locks += [own / "index.lock", own / "HEAD.lock"]
        for lock in locks:
            if lock.exists():
                raise Unsalvageable(f"git works there, or was ended there: if no git runs, delete {lock}.")

    def _place_of(self, salvage: Salvage) -> Path | None:
        """Its own directory in the repository, also if the worktree is missing. Raises OSError."""
        own = self._own(salvage.tree)
        if own is not None:
            return own
        wanted = os.path.join(salvage.tree.path, ".git")  # noqa: PTH118 - as git writes it
        with suppress(FileNotFoundError):
            for each in sorted(Path(salvage.tree.repository, "worktrees").iterdir()):
                with suppress(FileNotFoundError, NotADirectoryError):
                    if os.fsdecode((each / "gitdir").read_bytes()).rstrip("\n") == wanted:
                        return each
        return None

    def _contents(self, wanted: Salvage) -> Contents:
        """What is there. Raises Unsalvageable if not all of it can be kept."""
        top = wanted.tree.path
        own = self._place_of(wanted)
        if own is None:
            raise Unsalvageable("Its repository does not know it any more.")
        question = ["status", "--porcelain", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames"]
        raw = self._git.answer(top, question, self._git.unfiltered(top))
        ignored = {entry[3:].rstrip(b"/") for entry in raw.split(b"\0") if entry.startswith(b"!! ")}
        found = Reader(os.fsencode(top), own, Path(wanted.tree.repository), ignored).read()
        problem = too_large(found.archived_sizes(), self._cap)
        if problem:
            raise Unsalvageable(problem)
        self._require_room(found, wanted.tree.repository)
        return found

    def _require_room(self, found: Contents, repository: str) -> None:
        """Raises Unsalvageable."""
        needed = found.size() + _MARGIN_BYTES
        for place in (Path(repository), self._salvage if self._salvage.is_dir() else self._salvage.parent):
            if place.is_dir():
                there = os.statvfs(place)
                free = there.f_bavail * there.f_frsize
                if free < needed:
                    raise Unsalvageable(
                        f"To keep its files {in_words(needed)} must be free in {place}, and {in_words(free)} are."
                    )

    def _save(self, wanted: Salvage, own: Path | None, *, present: bool) -> Salvage:
        """Keep everything. Raises Unsalvageable and what the system raises; then nothing is kept."""
        salvage = replace(
            wanted,
            id=self._records.begin(wanted.task_id),
            state=SalvageState.SAVING,
            name="" if own is None else own.name,
            present=present,
            tip=self._head_of(wanted.tree),
            pushed_by=self._pushed_by(wanted.tree.repository),
        )
        try:
            self._records.write(salvage)
            saved = self._keep(salvage, own)
            self._records.write(saved)
        except BaseException:
            with suppress(*_FAILURES):
                self._forget(salvage)
            raise
        return saved

    def _keep(self, salvage: Salvage, own: Path | None) -> Salvage:
        top = os.fsencode(salvage.tree.path)
        found = self._contents(salvage) if salvage.present else Contents()
        admin = [] if own is None else everything_in(os.fsencode(own))
        log = self._log(salvage)
        directory = self._records.directory(salvage)
        trees = [(archive.FILES, top, found.archived)]
        if own is not None:
            trees.append((archive.OWN, os.fsencode(own), admin))
        archive.write(directory / ARCHIVE, trees, log)
        write_json(directory, MODES, _modes(found))
        commit = self._commit(salvage, own, log, found)
        again = self._contents(salvage) if salvage.present else Contents()
        own_again = [] if own is None else everything_in(os.fsencode(own))
        if again.all() != found.all() or own_again != admin or self._head_of(salvage.tree) != salvage.tip:
            raise Unsalvageable("Something changed while it was kept: something still works there.")
        return replace(
            salvage,
            state=SalvageState.SAVED,
            commit=commit,
            files=sum(each.kind != "directory" for each in (*found.plain, *found.archived)),
            size_bytes=found.size(),
            left_out=tuple(storable(os.fsdecode(each.path)) for each in found.sockets),
        )

    def _commit(self, salvage: Salvage, own: Path | None, log: bytes | None, found: Contents) -> str:
        place = own if own is not None else Path(salvage.tree.repository)
        committer = Committer(self._git, salvage.tree.repository, place)
        named = committer.of_branch(salvage.tip, log) if own is None else committer.named(salvage.tip, log)
        scratch = self._records.directory(salvage) / "git"
        return committer.commit(salvage, named, os.fsencode(salvage.tree.path), found.plain, scratch)

    def _log(self, salvage: Salvage) -> bytes | None:
        """The reflog of its branch."""
        try:
            return Path(salvage.tree.repository, "logs", _HEADS + salvage.tree.branch).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def _pushed_by(self, repository: str) -> tuple[str, ...]:
        """The remotes that a push would send our references to."""
        question = ["config", "-z", "--get-regexp", r"^remote\..*\.(mirror|push)$"]
        _, raw, _ = self._git.ask(repository, question, {"GIT_DIR": repository})
        found: dict[str, None] = {}
        for row in filter(None, os.fsdecode(raw).split("\0")):
            key, _, value = row.partition("\n")
            source = value.lstrip("+").partition(":")[0]
            mirror = key.endswith(".mirror") and value.lower() not in {"false", "no", "off", "0"}
            if mirror or (key.endswith(".push") and source in {"refs/*", "refs/watchkeeper/*", "*"}):
                found[storable(key.removeprefix("remote.").rpartition(".")[0])] = None
        return tuple(found)

    def _aside(self, salvage: Salvage) -> Path:
        """Where the worktree is put before it is deleted."""
        path = Path(salvage.tree.path)
        return path.with_name(f".{path.name}.{salvage.id}.removed")

    def _finish(self, salvage: Salvage) -> Saved:
        """Remove what is kept, as far as that is not done."""
        tree, aside = salvage.tree, self._aside(salvage)
        if os.path.lexists(aside):
            crashpoint("salvage.delete.before")
            delete(aside)
            crashpoint("salvage.delete.after")
        if os.path.lexists(tree.path):
            return Saved(problem=f"Something else is in the place of the removed worktree: {tree.path}.")
        if any(each.path == tree.path for each in self._listed(tree)):
            crashpoint("salvage.untell.before")
            _ = self._of_repository(tree, "worktree", "remove", "--force", tree.path)
            crashpoint("salvage.untell.after")
        self._drop_tip(salvage)
        gone = replace(
            salvage,
            state=SalvageState.GONE,
            branch_dropped=salvage.tip is not None and self._head_of(tree) is None,
        )
        self._records.write(gone)
        return Saved(gone)

    def _drop_tip(self, salvage: Salvage) -> None:
        """Delete its branch, if it was made for the task and is where it was."""
        tree, head = salvage.tree, self._head_of(salvage.tree)
        if head is None or head != salvage.tip or not self._is_ours(tree, salvage.task_id):
            return
        crashpoint("salvage.branch.before")
        _ = self._of_repository(tree, "update-ref", "-d", _HEADS + tree.branch, head)
        crashpoint("salvage.branch.after")

    def restore(self, salvage: Salvage) -> str:
        """One removal or undoing at a time."""
        try:
            self._require_repository(salvage.tree)
            with self._records.alone():
                now = next((each for each in self._records.all() if each.id == salvage.id), None)
                if now is None:
                    return f"There is no salvage {salvage.id} any more."
                if now.state is SalvageState.SAVED:
                    if self._is_void(now):
                        return f"The worktree {now.tree.path} was not removed: it is as it was."
                    finished = self._finish(now)
                    if finished.salvage is None:
                        return finished.problem
                    now = finished.salvage
                Restorer(self._git, self._records, now).restore(self._taken(now))
        except _FAILURES as error:
            return f"The worktree {salvage.tree.path} was not brought back: {_why(error)}"
        return ""

    def _taken(self, salvage: Salvage) -> str:
        """What is in the way of bringing it back, in a sentence; empty: nothing."""
        tree, ref, head = salvage.tree, _HEADS + salvage.tree.branch, self._head_of(salvage.tree)
        if salvage.state is SalvageState.RESTORING:
            return ""
        if os.path.lexists(tree.path):
            return f"Something else is in its place now: {tree.path}. Move that away first."
        if salvage.name and Path(tree.repository, "worktrees", salvage.name).exists():
            return f"git has another worktree '{salvage.name}' now. `git worktree list` names it."
        elsewhere = [each.path for each in self._listed(tree) if each.branch == ref]
        if elsewhere:
            return f"Its branch '{tree.branch}' is checked out in {elsewhere[0]} now."
        if head is not None and (salvage.branch_dropped or salvage.tip is None):
            return f"A branch '{tree.branch}' was made since. `git branch -m {tree.branch} NEW` renames it."
        if head is not None and head != salvage.tip:
            return f"Its branch '{tree.branch}' has moved from {salvage.tip} to {head} since."
        return ""

    def forget(self, salvage: Salvage) -> str:
        """One at a time, too."""
        try:
            with self._records.alone():
                self._forget(salvage)
        except _FAILURES as error:
            return f"The salvage {salvage.id} was not let go of: {_why(error)}"
        return ""

    def _forget(self, salvage: Salvage) -> None:
        """Delete its reference and its files. Where the repository has gone, the reference has gone with it. Raises GitUnknown, OSError."""
        repository = salvage.tree.repository
        if Path(repository).is_dir():
            place = {"GIT_DIR": repository}
            code, _, _ = self._git.ask(repository, ["rev-parse", "--verify", "--quiet", salvage.ref], place)
            if code == 0:
                crashpoint("salvage.forget.before")
                _ = self._git.answer(repository, ["update-ref", "-d", salvage.ref], place)
                crashpoint("salvage.forget.after")
        self._records.drop(salvage)


def _modes(found: Contents) -> dict[str, object]:
    """The permission bits that git does not keep, by paths in which bytes that are not UTF-8 are lone surrogates."""

    def row(entry: Entry) -> list[object]:
        return [os.fsdecode(entry.path), entry.mode]

    return {
        "directories": [row(each) for each in (*found.plain, *found.archived) if each.kind == "directory"],
        "files": [row(each) for each in found.plain if each.kind == "file" and each.mode not in _USUAL["file"]],
    }


def _why(error: Exception) -> str:
    detail = describe_os_error(error) if isinstance(error, OSError) else str(error)
    if isinstance(error, OSError) and error.filename:
        detail = f"{detail}: {storable(os.fsdecode(error.filename))}"
    return detail if detail.endswith(".") else f"{detail}."
