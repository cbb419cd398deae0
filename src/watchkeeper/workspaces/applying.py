"""Applying a patch in a user's checkout: looked at first, then all of it at once, and put back as it was if git stops half way.

paths of the patch ∩ paths that differ from HEAD ─▶ refused     git apply --check ─▶ copies of the paths ─▶ git apply ─▶ (copies back on failure)
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.errors import Refused
from watchkeeper.ports.applying import Applied, named
from watchkeeper.ports.diffs import Kept
from watchkeeper.workspaces.git_program import DIFF_OFF, GitUnknown
from watchkeeper.workspaces.plain import storable
from watchkeeper.workspaces.quiet import TIMEOUT_S, QuietGit
from watchkeeper.workspaces.replay import why
from watchkeeper.workspaces.status import status_of

_APPLY = (
    "-c",
    "apply.whitespace=nowarn",
    "-c",
    "apply.ignoreWhitespace=no",
    "apply",
    "--whitespace=nowarn",
    "--binary",
)
_SUBMODULE = b"160000"


class GitApplier:
    """The port's `Applier`."""

    def __init__(self, environ: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """`environ`: its PATH names the git to use."""
        self._git = QuietGit(environ, timeout_s)

    def checkout_of(self, directory: str) -> str:
        """The top of the checkout that holds a directory. Raises Refused."""
        with _said("The changes were not applied"):
            top = self._git.git.line(directory, "rev-parse", "--show-toplevel")
            if top is None:
                raise Refused(
                    f"{directory} is not in a git checkout.", hint="`cd` to the checkout that is to get the changes."
                )
            return os.path.realpath(top)

    def apply(
        self, kept: Kept, patch: bytes, directory: str, *, reverse: bool, three_way: bool, dry_run: bool
    ) -> Applied:
        """Apply the difference in the checkout that holds `directory`. Raises Refused."""
        top = self.checkout_of(directory)
        with _said("The changes were not applied"):
            paths = self._paths(kept)
            self._require_free(top, paths, reverse=reverse)
            options = [*_APPLY, *(["--reverse"] if reverse else []), *(["--3way"] if three_way else [])]
            code, _, complaint = self._git.ask(top, *options, "--check", "-", given=patch)
            if code and not three_way:
                raise self._refused(top, patch, options, complaint, reverse=reverse)
            shown = tuple(storable(path) for path in paths)
            if dry_run:
                if code:
                    raise self._refused(top, patch, options, complaint, reverse=reverse)
                return Applied(top, shown)
            with _put_back(top, paths) as succeeded:
                crashpoint("apply.files.before")
                code, _, complaint = self._git.ask(top, *options, "-", given=patch)
                crashpoint("apply.files.after")
                conflicts = self._unmerged(top) if three_way else ()
                if code and not conflicts:
                    # Its first line may say only what it tries next.
                    errors = [line for line in self._git.git.complaints if line.startswith("error: ")]
                    raise GitUnknown(errors[-1] if errors else complaint or "git apply failed.")
                succeeded.append(True)
            return Applied(top, shown, conflicts)

    def _paths(self, kept: Kept) -> list[str]:
        """Every path of the difference, both names of a renamed file. Raises Refused for a submodule."""
        question = [
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--ignore-submodules=none",
            *DIFF_OFF,
            kept.base,
            kept.tip,
        ]
        raw = self._git.git.answer(kept.repository, question, {"GIT_DIR": kept.repository})
        fields = raw.split(b"\0")
        paths = [os.fsdecode(path) for path in fields[1::2]]
        pairs = zip(fields[::2], paths, strict=False)
        submodules = [path for modes, path in pairs if _SUBMODULE in modes.lstrip(b":").split(b" ")[:2]]
        if submodules:
            raise Refused(
                f"The run changed submodules, which cannot be applied: {named([storable(path) for path in submodules])}.",
                hint="`wk merge` merges the commits of a task that has a branch of its own.",
            )
        return paths

    def _require_free(self, top: str, paths: Sequence[str], *, reverse: bool) -> None:
        """See that no path of the patch has changes of the user's. To take a patch out again they have to have its changes."""
        if reverse:
            return
        common = self._git.git.line(top, "rev-parse", "--path-format=absolute", "--git-common-dir") or top
        status = status_of(self._git.git, top, os.path.realpath(common))
        wanted = set(paths)
        ours = {*status.dirty, *(each for each in status.ignored if not each.endswith("/"))}
        overlap = sorted(path for path in ours if path in wanted)
        if overlap:
            raise Refused(
                f"Nothing was applied: the changes overlap with your own uncommitted ones in {named([storable(path) for path in overlap])}.",
                hint="Commit or stash those, then type it again.",
            )

    def _refused(self, top: str, patch: bytes, options: Sequence[str], complaint: str, *, reverse: bool) -> Refused:
        """Why the patch does not fit, with every path."""
        _ = self._git.ask(top, *options, "--check", "-", given=patch)
        paths = dict.fromkeys(
            line.removeprefix("error: ").partition(": ")[0]
            for line in self._git.git.complaints
            if line.endswith(
                (
                    ": patch does not apply",
                    ": already exists in working directory",
                    ": No such file or directory",
                    ": does not match index",
                )
            )
        )
        if reverse:
            detail = f"in {named(list(paths))}" if paths else complaint.removeprefix("error: ")
            return Refused(
                f"Nothing was taken out: the files in {top} are not as the changes left them ({detail}).",
                hint="`git diff` prints what they are now.",
            )
        if paths:
            return Refused(
                f"Nothing was applied: the changes do not fit the files in {top}: {named(list(paths))}.",
                hint="--3way merges them, and leaves both versions between markers where they conflict.",
            )
        return Refused(
            f"Nothing was applied in {top}: {complaint.removeprefix('error: ').rstrip('.')}.",
            hint="`git status` says what is there.",
        )

    def _unmerged(self, top: str) -> tuple[str, ...]:
        raw = self._git.git.answer(top, ["ls-files", "--unmerged", "-z"])
        paths = [os.fsdecode(entry.partition(b"\t")[2]) for entry in raw.split(b"\0") if entry]
        return tuple(storable(path) for path in dict.fromkeys(paths))


@contextmanager
def _put_back(top: str, paths: Sequence[str]) -> Generator[list[bool]]:
    """Put these files back as they are now, unless the body says that it succeeded. What a crash of the machine leaves, git shows. Raises OSError."""
    succeeded: list[bool] = []
    with tempfile.TemporaryDirectory(prefix="watchkeeper-apply-") as copies:
        kept: dict[str, Path | None] = {}
        for number, path in enumerate(paths):
            there, copy = Path(top, path), Path(copies, str(number))
            kept[path] = copy if _copied(there, copy) else None
        index = _index_of(top)
        has_index = index is not None and _copied(index, Path(copies, "index"))
        try:
            yield succeeded
        finally:
            if not succeeded:
                for path, before in kept.items():
                    _restore(Path(top, path), before)
                if index is not None and has_index:
                    _restore(index, Path(copies, "index"))


def _index_of(top: str) -> Path | None:
    mark = Path(top, ".git")
    if mark.is_dir():
        return mark / "index"
    text = mark.read_text(encoding="utf-8").strip()
    return Path(top, text.removeprefix("gitdir: ")) / "index"


def _copied(there: Path, copy: Path) -> bool:
    """Copy a file or a link with its mode. Returns False if nothing is there. Raises OSError."""
    try:
        status = there.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_ISLNK(status.st_mode) or stat.S_ISREG(status.st_mode):
        shutil.copy2(there, copy, follow_symlinks=False)
        return True
    return False


def _restore(there: Path, before: Path | None) -> None:
    """Put a copy back, or remove what was not there. Raises OSError."""
    if before is None:
        if there.is_symlink() or there.is_file():
            there.unlink()
        return
    there.parent.mkdir(parents=True, exist_ok=True)
    new = there.with_name(f".{there.name[:100]}.wk-new")
    shutil.copy2(before, new, follow_symlinks=False)
    crashpoint("apply.restore.before")
    new.replace(there)
    crashpoint("apply.restore.after")


@contextmanager
def _said(what: str) -> Generator[None]:
    """Say what went wrong in one sentence. Raises Refused."""
    try:
        yield
    except (GitUnknown, OSError, ValueError) as error:
        raise Refused(f"{what}: {why(error)}", hint="The files are as they were.") from error
