"""Content filters that only a repository's own configuration names: every agent there can write it, so they are never run."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from watchkeeper.workspaces.git_program import GitProgram


def of_repository(git: GitProgram, top: str) -> list[str]:
    """Their names. Raises GitUnknown, OSError."""
    question = ["config", "-z", "--show-scope", "--name-only", "--get-regexp", r"^filter\."]
    _, raw, _ = git.ask(top, question)
    fields = os.fsdecode(raw).split("\0")
    pairs = zip(fields[::2], fields[1::2], strict=False)
    return sorted({key.rpartition(".")[0].partition(".")[2] for scope, key in pairs if scope in {"local", "worktree"}})


def is_needed(git: GitProgram, top: str, repository: str, name: str) -> bool:
    """Whether an attribute of what the index at `top` holds, or of the repository, asks for that filter. Raises GitUnknown, OSError."""
    _, raw, _ = git.ask(top, ["grep", "--cached", "-z", "-l", "-F", "-e", f"filter={name}"])
    if any(Path(os.fsdecode(path)).name == ".gitattributes" for path in raw.split(b"\0") if path):
        return True
    with suppress(OSError):
        return f"filter={name}" in Path(repository, "info", "attributes").read_text("utf-8", "replace")
    return False


def off(filters: Sequence[str]) -> dict[str, str]:
    """Variables that turn these filters off."""
    values = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    pairs = [(f"filter.{name}.{key}", value) for name in filters for key, value in values]
    variables = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables
