"""Bring a worktree back as it was before its removal.

    record `restoring` ─▶ files beside their place, own directory beside its place ─▶ branch, with its reflog ─▶ both renamed into place

Nothing that is there is replaced. Until the branch is made everything lies beside its place, so a try that fails leaves only what the next one deletes.
After it each step looks first whether it was done.
"""

import os
import tarfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

from watchkeeper.crash import crashpoint
from watchkeeper.domain.salvage import Salvage, SalvageState
from watchkeeper.workspaces import archive
from watchkeeper.workspaces.contents import Unsalvageable
from watchkeeper.workspaces.deletion import delete
from watchkeeper.workspaces.git_program import GitProgram, GitUnknown
from watchkeeper.workspaces.salvage_records import ARCHIVE, MODES, Records, read_json, sync

_MOST_MODES = 1024 * 1024 * 1024
_HEADS = "refs/heads/"
_MODE = 0o7777


class _Blob(NamedTuple):
    """A file or link of the commit."""

    path: bytes
    mode: str
    name: str


class Restorer:
    """Brings one worktree back."""

    def __init__(self, git: GitProgram, records: Records, salvage: Salvage) -> None:
        """`salvage`: as its record is now."""
        self._git, self._records, self._salvage = git, records, salvage
        tree = salvage.tree
        self._path = Path(tree.path)
        self._beside = self._path.with_name(f".{self._path.name}.{salvage.id}.restored")
        self._own = Path(tree.repository, "worktrees", salvage.name)
        self._own_beside = Path(tree.repository, f"watchkeeper-{salvage.id}.restored")
        self._place = {"GIT_DIR": tree.repository}

    def restore(self, taken: str) -> None:
        """Bring it back. `taken`: what is in the way, in a sentence. Raises Unsalvageable, GitUnknown, OSError; then what was kept is still kept."""
        if taken:
            raise Unsalvageable(taken)
        self._require_kept()
        self._records.write(replace(self._salvage, state=SalvageState.RESTORING))
        try:
            self._stage()
        except BaseException:
            with suppress(OSError, GitUnknown):
                self._give_up()
            raise
        self._branch()
        if self._salvage.present:
            _put(self._beside, self._path, "salvage.restore_files")
        if self._salvage.name:
            self._own.parent.mkdir(exist_ok=True)
            _put(self._own_beside, self._own, "salvage.restore_own")

    def _require_kept(self) -> None:
        """Raises Unsalvageable: what was kept has been deleted by another hand."""
        salvage = self._salvage
        if not (self._records.directory(salvage) / ARCHIVE).is_file():
            raise Unsalvageable(f"The archive {self._records.directory(salvage) / ARCHIVE} was deleted.")
        question = ["rev-parse", "--verify", "--quiet", f"{salvage.commit}^{{commit}}"]
        if self._git.ask(salvage.tree.repository, question, self._place)[0] != 0:
            raise Unsalvageable(f"The repository does not have {salvage.ref} any more.")

    def _give_up(self) -> None:
        """Leave nothing of a try that failed before anything was in its place."""
        if not os.path.lexists(self._path) and not self._own.exists():
            for beside in (self._beside, self._own_beside):
                if os.path.lexists(beside):
                    delete(beside)
            self._records.write(replace(self._salvage, state=SalvageState.GONE))

    def _stage(self) -> None:
        """Put everything beside its place."""
        for beside in (self._beside, self._own_beside):
            if os.path.lexists(beside):
                delete(beside)
        crashpoint("salvage.stage.before")
        with archive.opened(self._records.directory(self._salvage) / ARCHIVE) as tar:
            if self._salvage.present:
                self._require_ours(tar)
                self._files(tar)
            if self._salvage.name:
                self._own_beside.mkdir(mode=0o755)
                self._unpack(tar, archive.OWN, os.fsencode(self._own_beside))
        crashpoint("salvage.stage.after")

    def _require_ours(self, tar: tarfile.TarFile) -> None:
        """Raises Unsalvageable: between two tries something else came into the place."""
        if not os.path.lexists(self._path):
            return
        kept = next((tar.extractfile(each) for path, each in archive.members(tar, archive.FILES) if path == b".git"), None)  # fmt: skip
        is_ours = kept is not None and not self._path.is_symlink() and (self._path / ".git").is_file()
        if not is_ours or kept is None or (self._path / ".git").read_bytes() != kept.read():
            raise Unsalvageable(f"Something else is in its place now: {self._path}. Move that away first.")

    def _files(self, tar: tarfile.TarFile) -> None:
        """The worktree's files."""
        top = os.fsencode(self._beside)
        modes = read_json(self._records.directory(self._salvage) / MODES, _MOST_MODES)
        directories, files = _rows(modes, "directories"), dict(_rows(modes, "files"))
        self._beside.mkdir(mode=0o700)
        for path, _ in directories:
            os.makedirs(os.path.join(top, path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH118 - bytes
        self._blobs(top, files)
        self._unpack(tar, archive.FILES, top)
        for path, mode in sorted(directories, reverse=True):
            os.chmod(os.path.join(top, path), mode)  # noqa: PTH101, PTH118 - bytes

    def _unpack(self, tar: tarfile.TarFile, first: bytes, top: bytes) -> None:
        later: list[tuple[bytes, int]] = []
        for path, member in archive.members(tar, first):
            place = os.path.join(top, path)  # noqa: PTH118 - bytes
            archive.put(tar, member, place)
            if member.isdir():
                later.append((place, member.mode))
        for place, mode in reversed(later):
            os.chmod(place, mode)  # noqa: PTH101 - bytes

    def _blobs(self, top: bytes, modes: dict[bytes, int]) -> None:
        """What the commit holds."""
        blobs = self._listed()
        repository = self._salvage.tree.repository
        given = b"".join(each.name.encode() + b"\n" for each in blobs)
        with self._git.streamed(repository, ["cat-file", "--batch"], self._place, given=given) as running:
            for each in blobs:
                told = running.output.readline().split()
                if len(told) != 3 or told[1] != b"blob":
                    raise GitUnknown(f"the repository lost {each.name}")
                place, size = os.path.join(top, each.path), int(told[2])  # noqa: PTH118 - bytes
                if each.mode == "120000":
                    os.symlink(running.output.read(size), place)  # noqa: PTH211 - bytes
                else:
                    usual = 0o755 if each.mode == "100755" else 0o644
                    archive.write_file(place, modes.get(each.path, usual), running.output, size)
                _ = running.output.read(1)

    def _listed(self) -> list[_Blob]:
        repository, found = self._salvage.tree.repository, list[_Blob]()
        question = ["ls-tree", "-r", "-z", "--full-tree", f"{self._salvage.commit}"]
        with self._git.streamed(repository, question, self._place, given=b"") as running:
            rows = running.output.read().split(b"\0")
        for row in rows:
            told, _, path = row.partition(b"\t")
            if path.startswith(b"files/"):
                mode, kind, name = told.decode().split(" ")
                if kind == "blob":
                    found.append(_Blob(path.removeprefix(b"files/"), mode, name))
        return found

    def _branch(self) -> None:
        """Its branch at its tip, with its reflog."""
        salvage, tree = self._salvage, self._salvage.tree
        if salvage.tip is None:
            return
        ref = _HEADS + tree.branch
        code, out, _ = self._git.ask(tree.repository, ["rev-parse", "--verify", "--quiet", ref], self._place)
        if code == 0:
            if out.decode().strip() != salvage.tip:
                raise Unsalvageable(f"A branch '{tree.branch}' was made since. Rename it first.")
        else:
            crashpoint("salvage.restore_branch.before")
            note = f"watchkeeper: task {salvage.task_id}"
            unborn = "0" * len(salvage.tip)
            question = ["update-ref", "--create-reflog", "-m", note, ref, salvage.tip, unborn]
            _ = self._git.answer(tree.repository, question, self._place)
            crashpoint("salvage.restore_branch.after")
        with archive.opened(self._records.directory(salvage) / ARCHIVE) as tar:
            log = archive.log_of(tar)
        place = Path(tree.repository, "logs", ref)
        if log is not None and salvage.branch_dropped and place.is_file():
            _write_over(place, log)


def _put(beside: Path, place: Path, point: str) -> None:
    """Rename into place, unless that was done."""
    if os.path.lexists(place):
        delete(beside)
        return
    crashpoint(f"{point}.before")
    beside.rename(place)
    sync(place.parent)
    crashpoint(f"{point}.after")


def _write_over(place: Path, text: bytes) -> None:
    new = place.with_name(f"{place.name}.watchkeeper")
    crashpoint("salvage.restore_log.before")
    with new.open("wb") as out:
        _ = out.write(text)
        out.flush()
        os.fsync(out.fileno())
    new.replace(place)
    crashpoint("salvage.restore_log.after")


def _rows(data: dict[str, object], key: str) -> list[tuple[bytes, int]]:
    rows = cast("list[list[object]]", data[key])
    return [(os.fsencode(cast("str", path)), cast("int", mode) & _MODE) for path, mode in rows]
