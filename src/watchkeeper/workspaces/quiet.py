"""Git for commands that write: it runs the user's own programs at most, never those that a repository's configuration names."""

import os
from collections.abc import Mapping
from pathlib import Path

from watchkeeper.domain.worktree import Worktree
from watchkeeper.workspaces import identity
from watchkeeper.workspaces.git_program import GitProgram, GitUnknown

TIMEOUT_S = 600.0

_PLAIN_MERGE = "git merge-file -q --marker-size=%L %A %O %B"
"""Git's own merge of text, in place of a merge driver that the repository names."""

_OFF: Mapping[str, tuple[tuple[str, str], ...]] = {
    "filter": (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")),
    "merge": (("driver", _PLAIN_MERGE), ("recursive", "text")),
    "hook": (("enabled", "false"),),
}

OPTIONS = (
    "-c", "commit.gpgSign=false", "-c", "submodule.recurse=false", "-c", "rerere.enabled=false", "-c", "core.safecrlf=false",
    "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.fsyncMethod=batch",
)  # fmt: skip

_IDENTITY = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")


class QuietGit:
    """Asks git in the checkouts of a repository that agents can write to."""

    def __init__(self, environ: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """`environ`: the caller's. `timeout_s`: how long one question may take."""
        self.environ = dict(os.environ if environ is None else environ)
        self.git = GitProgram(self.environ, timeout_s)
        self._identity = {name: self.environ[name] for name in _IDENTITY if name in self.environ}

    def ask(self, top: str, *arguments: str, given: bytes = b"") -> tuple[int, bytes, str]:
        """Exit code, output and first complaint of a command that may write. Raises GitUnknown, OSError."""
        return self.git.ask(top, [*OPTIONS, *arguments], self.variables(top), given=given)

    def say(self, top: str, *arguments: str, given: bytes = b"") -> bytes:
        """The output of a command that must succeed. Raises GitUnknown, OSError."""
        code, out, complaint = self.ask(top, *arguments, given=given)
        if code:
            raise GitUnknown(complaint or f"git {arguments[0]} ended with exit code {code}.")
        return out

    def of_repository(self, tree: Worktree, *arguments: str) -> tuple[int, bytes, str]:
        """The same for a question about the repository, which is named because git does not look for it inside its own files. Raises GitUnknown, OSError."""
        return self.git.ask(
            tree.repository,
            [*OPTIONS, *arguments],
            {**self.variables(tree.repository, tree), "GIT_DIR": tree.repository},
        )

    def require(self, tree: Worktree) -> None:
        """Raises GitUnknown: the repository is not there any more, or is another one."""
        found = identity.identify(tree.repository)
        if found is None or found.repository is None:
            raise GitUnknown(f"The repository {tree.repository} is not there.")
        if found.repository[1:] != tree.identity[1:]:
            raise GitUnknown(f"{tree.repository} is another repository than when the task was handed over.")

    def variables(self, top: str, tree: Worktree | None = None) -> dict[str, str]:
        """An environment in which no program of the repository's configuration counts. Raises GitUnknown, OSError."""
        pairs: list[tuple[str, str]] = []
        for name in self.named_by_repository(top, tree):
            pairs += [(f"{name}.{key}", value) for key, value in _OFF[name.partition(".")[0]]]
        variables = {
            "GIT_EDITOR": "true",
            "GIT_SEQUENCE_EDITOR": "true",
            "GIT_CONFIG_COUNT": str(len(pairs)),
            **self._identity,
        }
        for number, (key, value) in enumerate(pairs):
            variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return variables

    def named_by_repository(self, top: str, tree: Worktree | None = None) -> list[str]:
        """The filters, merge drivers and hooks that the repository's own configuration names. Raises GitUnknown, OSError."""
        question = ["config", "-z", "--show-scope", "--name-only", "--get-regexp", r"^(filter|merge|hook)\."]
        place = {} if tree is None else {"GIT_DIR": tree.repository}
        _, raw, _ = self.git.ask(top, question, place)
        fields = os.fsdecode(raw).split("\0")
        keys = [key for scope, key in zip(fields[::2], fields[1::2], strict=False) if scope in {"local", "worktree"}]
        return sorted({key.rpartition(".")[0] for key in keys if key.count(".") > 1})

    def filter_needed(self, top: str, repository: str) -> str:
        """A filter of the repository's own configuration that a file of the index needs; empty: none does. Raises GitUnknown, OSError."""
        for name in self.named_by_repository(top):
            kind, _, short = name.partition(".")
            if kind != "filter":
                continue
            _, raw, _ = self.git.ask(top, ["grep", "--cached", "-z", "-l", "-F", "-e", f"filter={short}"])
            if any(Path(os.fsdecode(path)).name == ".gitattributes" for path in raw.split(b"\0") if path):
                return short
            own = Path(repository, "info", "attributes")
            if own.is_file() and f"filter={short}" in own.read_text("utf-8", "replace"):
                return short
        return ""
