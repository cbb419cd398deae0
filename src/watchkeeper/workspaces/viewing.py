"""Showing the difference between two kept trees, by the user's own git and with the user's own settings, but with none of the repository's.

    repository that an agent may have written ──only its objects──▶ empty repository of our own ──git diff──▶ the user's pager

The configuration, the hooks and the attributes of the agent's repository are never read: git runs in a temporary repository that borrows its objects. So the
user's pager, colours and tools apply as everywhere, and nothing that an agent has planted does.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from watchkeeper.errors import HarnessError, Refused
from watchkeeper.ports.diffs import Kept

MAX_PATCH = 64 * 1024 * 1024

_FORMS = {"patch": (), "stat": ("--stat",), "names": ("--name-only",)}
_PLAIN = ("--no-pager", "-c", "core.quotePath=false", "-c", "color.ui=false")
_PLAIN_DIFF = (
    "--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", "-M",
)  # fmt: skip
_PATCH = ("--binary",)

_LEADS_ELSEWHERE = frozenset({
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR",
    "GIT_NAMESPACE", "GIT_PREFIX", "GIT_ATTR_SOURCE",
})  # fmt: skip
"""Variables that would make git read another repository than ours."""


class GitDiffs:
    """The port's `Diffs`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Run the git and the tools of the caller's environment."""
        self._environ = {name: value for name, value in environ.items() if name not in _LEADS_ELSEWHERE}

    def is_there(self, kept: Kept) -> bool:
        """Whether the repository still has both. Raises HarnessError where git is missing, OSError."""
        if not Path(kept.repository, "objects").is_dir():
            return False
        with self._borrowing(kept) as (git, environ, directory):
            given = f"{kept.base}\n{kept.tip}\n".encode()
            question = [git, "cat-file", "--batch-check"]
            found = subprocess.run(
                question,
                input=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                check=False,
                env=environ,
                cwd=directory,
            )
        return [line.split()[1:2] for line in found.stdout.splitlines()] == [[b"tree"], [b"tree"]]

    def show(self, kept: Kept, form: str, *, on_terminal: bool) -> int:
        """Print the difference to standard output; git's exit code. Raises HarnessError, OSError."""
        with self._borrowing(kept) as (git, environ, directory):
            question = _question(git, form, plain=not on_terminal)
            return _run([*question, kept.base, kept.tip, "--"], environ, directory)

    def patch(self, kept: Kept) -> bytes:
        """The difference as a plain patch. Raises Refused if it is too large or git fails, HarnessError, OSError."""
        with self._borrowing(kept) as (git, environ, directory), tempfile.TemporaryFile() as out:
            question = [*_question(git, "patch", plain=True), kept.base, kept.tip, "--"]
            done = subprocess.run(
                question, stdout=out, stdin=subprocess.DEVNULL, check=False, env=environ, cwd=directory
            )
            if done.returncode:
                raise Refused(f"git could not make the patch (exit code {done.returncode}).")
            if out.seek(0, os.SEEK_END) > MAX_PATCH:
                raise Refused(
                    f"The patch is larger than {MAX_PATCH >> 20} MiB, too large for a JSON document.",
                    hint="`wk diff` without --json prints it; with --stat and --json it is left out.",
                )
            out.seek(0)
            return out.read()

    def review(self, kept: Kept, tool: str | None) -> int:
        """Open the difference in a tool; its exit code. Raises HarnessError, OSError."""
        with self._borrowing(kept) as (git, environ, directory):
            named = ("-c", f'difftool.review.cmd={tool} "$LOCAL" "$REMOTE"') if tool else ()
            chosen = ("--tool", "review") if tool else ()
            question = [git, *named, "difftool", "--dir-diff", "--no-prompt", *chosen, kept.base, kept.tip, "--"]
            return _run(question, environ, directory)

    @contextmanager
    def _borrowing(self, kept: Kept) -> Generator[tuple[str, dict[str, str], str]]:
        """Git, an environment in which it works in an empty repository with the objects of another, and its directory."""
        git = shutil.which("git", path=self._environ.get("PATH", os.defpath))
        if git is None:
            raise HarnessError("git is not installed.", hint="Install git: what a run changed is kept and shown by it.")
        with tempfile.TemporaryDirectory(prefix="watchkeeper-diff-") as directory:
            ours, work = Path(directory, "repository"), Path(directory, "files")
            (ours / "objects" / "info").mkdir(parents=True)
            (ours / "refs").mkdir()
            work.mkdir()
            (ours / "HEAD").write_text("ref: refs/heads/none\n", encoding="utf-8")
            is_sha256 = len(kept.base) == 64
            extension = "[extensions]\n\tobjectFormat = sha256\n" if is_sha256 else ""
            (ours / "config").write_text(
                f"[core]\n\trepositoryFormatVersion = {int(is_sha256)}\n\tbare = false\n{extension}", encoding="utf-8"
            )
            (ours / "objects" / "info" / "alternates").write_bytes(quoted(f"{kept.repository}/objects") + b"\n")
            yield git, {**self._environ, "GIT_DIR": str(ours), "GIT_WORK_TREE": str(work)}, str(work)


def _question(git: str, form: str, *, plain: bool) -> list[str]:
    options = _FORMS[form]
    if not plain:
        return [git, "diff", *options]
    return [git, *_PLAIN, "diff", *_PLAIN_DIFF, *(_PATCH if form == "patch" else options)]


def quoted(path: str) -> bytes:
    """A path as a line of `alternates`, in which a newline and a leading quote have another meaning."""
    raw = os.fsencode(path)
    for letter, written in ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n")):
        raw = raw.replace(letter, written)
    return b'"' + raw + b'"'


def _left_to_the_program(_number: int, _frame: object) -> None:
    """A handler, because a signal that is ignored would be ignored by the program too."""


def _run(command: Sequence[str], environ: Mapping[str, str], directory: str) -> int:
    """Run it on our terminal. Ctrl-C is for the program and its pager, which decide what it means."""
    before = signal.signal(signal.SIGINT, _left_to_the_program)
    try:
        return subprocess.run(command, check=False, env=environ, cwd=directory).returncode
    finally:
        signal.signal(signal.SIGINT, before)
