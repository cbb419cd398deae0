"""The commit that holds what git keeps of a worktree, made by `git fast-import`: every byte as it is on the disk, no filter, no index, no lock of the user's.

    files/…        the worktree's files and links
    index/N/…      what was staged and is not in HEAD, by its stage
    objects/ID     anything else that the worktree's own directory names
    parents        HEAD, the branch's tip, and each commit of their reflogs, of a merge or rebase under way

So one reference keeps all of it from being collected. A file that is as in HEAD costs nothing.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.domain.salvage import Salvage
from watchkeeper.workspaces.contents import Entry, object_id, parts_of, read_link
from watchkeeper.workspaces.git_program import GitProgram, GitUnknown, is_hash

_IMPORT = (
    "-c", "core.bigFileThreshold=50m", "-c", "core.fsync=all", "-c", "core.protectNTFS=false", "-c", "core.protectHFS=false",
)  # fmt: skip
"""Large files are not held in memory, what the reference names outlives a power cut, and names that only other systems dislike are taken."""

_NAMES_NOTHING = frozenset({"index", "gitdir", "commondir"})
_MOST_READ = 32 * 1024 * 1024
_HEX = re.compile(rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")
_EXECUTABLE = 0o100


@dataclass(slots=True)
class Named:
    """The objects of a repository that one worktree needs."""

    head: str | None = None
    """The commit that is checked out; None before the first commit."""
    commits: list[str] = field(default_factory=list[str])
    """All that are to stay reachable, HEAD first."""
    staged: list[tuple[bytes, str, str]] = field(default_factory=list[tuple[bytes, str, str]])
    """Path in our tree, mode and object."""


class Committer:
    """Makes the commit of one worktree."""

    def __init__(self, git: GitProgram, repository: str, own: Path) -> None:
        """`own`: the worktree's directory in the repository."""
        self._git = git
        self._repository = repository
        place = {"GIT_DIR": str(own)}
        self._variables = {**git.unfiltered(repository, place), **place}
        self._own = own

    def named(self, tip: str | None, log: bytes | None) -> Named:
        """What the worktree's own directory, its branch's tip and its reflog name. Raises GitUnknown, OSError."""
        code, out, _ = self._git.ask(
            self._repository, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], self._variables
        )
        head = out.decode().strip() if code == 0 else None
        texts = [log or b"", *_texts(self._own)]
        wanted = dict.fromkeys(found.decode() for text in texts for found in _HEX.findall(text))
        first = [each for each in (head, tip) if each is not None]
        kinds = self._kinds([*first, *wanted])
        commits = [each for each, kind in kinds.items() if kind == "commit"]
        found = Named(head=head, commits=[*dict.fromkeys(first), *self._beyond(first, commits)])
        for each, kind in kinds.items():
            if kind in {"tree", "blob"}:
                mode = "040000" if kind == "tree" else "100644"
                found.staged.append((b"objects/" + each.encode(), mode, each))
        found.staged += self._staged(head)
        return found

    def of_branch(self, tip: str | None, log: bytes | None) -> Named:
        """The same where nothing of the worktree is left but its branch. Raises GitUnknown, OSError."""
        wanted = dict.fromkeys(found.decode() for found in _HEX.findall(log or b""))
        first = [] if tip is None else [tip]
        kinds = self._kinds([*first, *wanted])
        commits = [each for each, kind in kinds.items() if kind == "commit"]
        return Named(head=tip, commits=[*first, *self._beyond(first, commits)])

    def _kinds(self, objects: Iterable[str]) -> dict[str, str]:
        """What each object is; those that are not there are left out."""
        given = "".join(f"{each}\n" for each in objects).encode()
        if not given:
            return {}
        raw = self._git.answer(
            self._repository,
            ["cat-file", "--batch-check=%(objectname) %(objecttype)"],
            self._variables,
            given=given,
        )
        pairs = (line.split(" ") for line in raw.decode().splitlines())
        return {pair[0]: pair[1] for pair in pairs if pair[1] != "missing"}

    def _beyond(self, first: Sequence[str], commits: Sequence[str]) -> list[str]:
        """Those of these commits that are not reachable from the first ones."""
        rest = [each for each in commits if each not in first]
        if not rest or not first:
            return rest
        given = "".join(f"{each}\n" for each in [*rest, *(f"^{each}" for each in first)]).encode()
        raw = self._git.answer(self._repository, ["rev-list", "--stdin"], self._variables, given=given)
        beyond = set(raw.decode().split())
        return [each for each in rest if each in beyond]

    def _staged(self, head: str | None) -> list[tuple[bytes, str, str]]:
        """What the index holds and HEAD does not."""
        found: list[tuple[bytes, str, str]] = []
        if not (self._own / "index").exists():
            return found
        base = head or self._answer("hash-object", "-t", "tree", "/dev/null").decode().strip()
        raw = self._answer("diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", base, "--")
        fields = raw.split(b"\0")
        for told, path in zip(fields[::2], fields[1::2], strict=False):
            _, mode, _, new, _ = told.decode().split(" ")
            if mode.startswith("1") and mode != "160000" and set(new) != {"0"}:
                found.append((b"index/0/" + path, mode, new))
        for row in filter(None, self._answer("ls-files", "-u", "-s", "-z").split(b"\0")):
            told, _, path = row.partition(b"\t")
            mode, name, stage = told.decode().split(" ")
            if mode != "160000":
                found.append((b"index/" + stage.encode() + b"/" + path, mode, name))
        there = self._kinds(dict.fromkeys(name for _, _, name in found))
        return [each for each in found if each[2] in there]

    def _answer(self, *arguments: str) -> bytes:
        return self._git.answer(self._repository, arguments, self._variables)

    def _tree_of(self, head: str | None) -> dict[bytes, tuple[str, str]]:
        """Mode and object of every path of a commit."""
        if head is None:
            return {}
        rows: dict[bytes, tuple[str, str]] = {}
        with self._git.streamed(
            self._repository, ["ls-tree", "-r", "-z", "--full-tree", head], self._variables, given=b""
        ) as running:
            for row in running.output.read().split(b"\0"):
                told, _, path = row.partition(b"\t")
                if path:
                    mode, _, name = told.decode().split(" ")
                    rows[path] = (mode, name)
        return rows

    def commit(self, salvage: Salvage, named: Named, top: bytes, entries: Iterable[Entry], scratch: Path) -> str:
        """Make the commit under the salvage's reference; returns it.

        `scratch` becomes the directory that git takes for its own: the report that it writes when it is cut off stays in there.

        Raises:
            Unsalvageable: a file changed meanwhile, or cannot be read.
            GitUnknown, OSError: there is no room, among others.
        """
        scratch.mkdir(mode=0o700)
        (scratch / "HEAD").write_text("ref: refs/heads/none\n", encoding="utf-8")
        (scratch / "commondir").write_bytes(os.fsencode(self._repository) + b"\n")
        variables = {**self._variables, "GIT_DIR": str(scratch)}
        crashpoint("salvage.commit.before")
        question = [*_IMPORT, "fast-import", "--quiet", "--done"]
        with self._git.streamed(self._repository, question, variables) as running:
            for part in self._orders(salvage, named, top, entries):
                running.write(part)
        crashpoint("salvage.commit.after")
        shutil.rmtree(scratch)
        ref = salvage.ref
        made = self._answer("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").decode().strip()
        if not is_hash(made):
            raise GitUnknown("git did not keep what it was given.")
        return made

    def _orders(self, salvage: Salvage, named: Named, top: bytes, entries: Iterable[Entry]) -> Iterator[bytes]:
        text = f"Worktree of task {salvage.task_id}, as it was when it was removed".encode()
        who = b"Watchkeeper <watchkeeper@localhost>"
        yield b"commit %s\ncommitter %s %d +0000\n" % (salvage.ref.encode(), who, salvage.at.timestamp())
        yield b"data %d\n%s\n" % (len(text), text)
        for number, each in enumerate(named.commits):
            yield b"%s %s\n" % (b"merge" if number else b"from", each.encode())
        yield b"deleteall\n"
        base = self._tree_of(named.head)
        if named.head is not None and base:
            tree = self._answer("rev-parse", f"{named.head}^{{tree}}").decode().strip()
            yield b"M 040000 %s files\n" % tree.encode()
        digits = 40 if named.head is None else len(named.head)
        files = {each.path: each for each in entries if each.kind != "directory"}
        for path in base.keys() - files.keys():
            yield b"D %s\n" % _quoted(b"files/" + path)
        for path, entry in files.items():
            mode = _mode(entry)
            if path in base and base[path] == (mode, object_id(top, entry, digits)):
                continue
            yield b"M %s inline %s\n" % (mode.encode(), _quoted(b"files/" + path))
            yield from _data(top, entry)
        for path, mode, name in named.staged:
            yield b"M %s %s %s\n" % (mode.encode(), name.encode(), _quoted(path))
        yield b"\ndone\n"


def _texts(own: Path) -> Iterator[bytes]:
    """The small files of a worktree's own directory, repositories of submodules left out."""
    for directory, names, files in os.walk(own):
        if Path(directory) == own and "modules" in names:
            names.remove("modules")
        for name in files:
            path = Path(directory, name)
            if name not in _NAMES_NOTHING and not name.startswith("sharedindex.") and path.is_file():
                with path.open("rb") as file:
                    yield file.read(_MOST_READ)


def _mode(entry: Entry) -> str:
    """As git keeps it."""
    if entry.kind == "link":
        return "120000"
    return "100755" if entry.mode & _EXECUTABLE else "100644"


def _data(top: bytes, entry: Entry) -> Iterator[bytes]:
    if entry.kind == "link":
        target = read_link(top, entry)
        yield b"data %d\n%s\n" % (len(target), target)
        return
    yield b"data %d\n" % entry.size
    yield from parts_of(top, entry)
    yield b"\n"


_ESCAPES: Mapping[int, bytes] = {ord('"'): b'\\"', ord("\\"): b"\\\\", ord("\n"): b"\\n"}


def _quoted(path: bytes) -> bytes:
    """A path as `git fast-import` reads it."""
    return b'"' + b"".join(_ESCAPES.get(each, bytes([each])) for each in path) + b'"'
