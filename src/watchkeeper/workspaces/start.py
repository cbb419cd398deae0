"""Where a worktree would start: checked when a task is handed over, so that whatever stands against it is said at once."""

import os
from collections.abc import Callable
from pathlib import Path

from watchkeeper.domain.plain_text import clean
from watchkeeper.errors import BadTask
from watchkeeper.ports.worktrees import Start
from watchkeeper.workspaces import copied, identity, included
from watchkeeper.workspaces.git_program import GitProgram, GitUnknown
from watchkeeper.workspaces.plain import storable

_HEADS = "refs/heads/"
_SHORT = 10
_SHOWN = 80

AskLine = Callable[..., str | None]
"""Asks git in a directory; one line, or None where git has none."""
Ask = Callable[..., bytes]
"""Asks git in a directory. Raises GitUnknown."""


def start(git: GitProgram, cwd: str, base: str | None, branch: str | None) -> Start:
    """Where a worktree for a task in `cwd` would start. Raises BadTask."""
    try:
        return _start(git, cwd, base, branch)
    except (GitUnknown, OSError, ValueError) as error:
        raise BadTask(
            f"No worktree can be made of '{cwd}': {error}", hint="Leave --worktree away to work there."
        ) from error


def _start(git: GitProgram, cwd: str, base: str | None, branch: str | None) -> Start:
    line: AskLine = git.line

    def ask(top: str, *arguments: str) -> bytes:
        return git.answer(top, arguments)

    found = identity.identify(cwd)
    if found is None or found.top is None or found.repository is None:
        why = "does not exist" if found is None else found.unknown.rstrip(".") or "is not in a git repository"
        raise BadTask(f"'{cwd}' {why}, so no worktree can be made of it.", hint="Leave --worktree away, or use --cwd.")
    top = os.path.realpath(found.path if found.top == found.path else found.top)
    if not os.path.lexists(Path(top, ".git")):
        raise BadTask(f"'{cwd}' is a bare repository.", hint="Hand the task over from a checkout of it.")
    common = os.fsdecode(ask(cwd, "rev-parse", "--path-format=absolute", "--git-common-dir").removesuffix(b"\n"))
    if storable(common) != common or storable(top) != top:
        raise BadTask(f"The path of the repository, '{storable(top)}', is not UTF-8.", hint="Rename its directory.")
    commit = line(cwd, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base or 'HEAD'}^{{commit}}")
    if commit is None:
        _refuse_base(line, cwd, base)
    below = os.path.relpath(os.path.realpath(cwd), top)
    below = "" if below == "." else below
    if below and line(cwd, "rev-parse", "--verify", "--quiet", f"{commit}:{below}") is None:
        raise BadTask(
            f"The directory '{below}' is not in '{base or 'HEAD'}'.", hint="Commit it, or name another --base."
        )
    if branch is not None:
        refuse_branch(line, ask, cwd, branch)
    here = found.branch or str(found.head or commit)[:_SHORT]
    copies, copying = _copies(git, top)
    return Start(
        source=top,
        repository=os.path.realpath(common),
        identity=found.repository,
        base=str(commit),
        base_name=clean(base)[:_SHOWN] if base else here,
        below=below,
        notes=(*_notes(line, top, str(commit)), *copying),
        uncommitted=included.count(git, top, common),
        copies=copies,
    )


def _copies(git: GitProgram, top: str) -> tuple[str, tuple[str, ...]]:
    """The patterns of what is copied, and what a person should know of it. Raises BadTask, GitUnknown, OSError."""
    patterns = copied.patterns_of(top)
    if not patterns.strip():
        return "", ()
    matching = copied.found(git, top, patterns)
    if problem := copied.too_much(matching):
        raise BadTask(problem, hint=f"Let {copied.FILE} match less.")
    return patterns, copied.note(matching)


def _refuse_base(line: AskLine, cwd: str, base: str | None) -> None:
    """Raises BadTask: there is no commit to start at."""
    if line(cwd, "rev-parse", "--verify", "--quiet", "HEAD^{commit}") is None and base in {None, "HEAD"}:
        raise BadTask(
            "The repository has no commit yet, so no worktree can be made of it.", hint="Commit something first."
        )
    raise BadTask(
        f"There is no commit '{clean(base or 'HEAD')[:_SHOWN]}' in this repository.",
        hint="`git branch -a` lists branches.",
    )


def refuse_branch(line: AskLine, ask: Ask, cwd: str, branch: str) -> None:
    """Raises BadTask: a branch of that name cannot be made."""
    shown = clean(branch)[:_SHOWN]
    if branch.startswith("-") or line(cwd, "check-ref-format", "--branch", branch) != branch:
        raise BadTask(f"'{shown}' cannot be the name of a branch.", hint="`git help check-ref-format` says what can.")
    if line(cwd, "rev-parse", "--verify", "--quiet", _HEADS + branch) is not None:
        raise BadTask(
            f"The branch '{shown}' exists already.", hint="Name another with --branch, or start at it with --base."
        )
    parts = branch.split("/")
    above = ["/".join(parts[:count]) for count in range(1, len(parts))]
    taken = [each for each in above if line(cwd, "rev-parse", "--verify", "--quiet", _HEADS + each) is not None]
    taken += ask(cwd, "for-each-ref", "--count=1", "--format=%(refname:short)", f"{_HEADS}{branch}/").decode().split()
    if taken:
        raise BadTask(
            f"The branch '{shown}' cannot be made beside the branch '{clean(taken[0])}'.",
            hint="Name another with --branch.",
        )


def _notes(line: AskLine, top: str, commit: str) -> tuple[str, ...]:
    """What a person should know."""
    notes: list[str] = []
    if line(top, "rev-parse", "--verify", "--quiet", f"{commit}:.gitmodules") is not None:
        notes.append("Submodules stay empty in a worktree: `git submodule update --init` there fills them.")
    return tuple(notes)
