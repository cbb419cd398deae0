"""What a run changed, in the words of `wk show`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from watchkeeper.cli import render
from watchkeeper.domain.outcome_record import MOST_BESIDE
from watchkeeper.domain.result import summary

if TYPE_CHECKING:
    from watchkeeper.domain.model import Changes, FileChange, Outcome

_FILES = 12
_IGNORED = 6
_SIGNS = {"added": "+", "modified": "~", "deleted": "-", "renamed": ">"}


def lines(outcome: "Outcome") -> Iterator[tuple[str, str]]:
    """Each a label and a text."""
    changes = outcome.changes
    if changes is None:
        return
    if not changes.known:
        yield "  changes", f"unknown: {render.clean(changes.why_unknown)}"
        return
    if not changes.files and not changes.commits:
        yield "  changes", "none"
    else:
        yield "  changes", summary(_alone(changes))
        if changes.beside:
            others = ", ".join(changes.beside) + (" and more" if len(changes.beside) >= MOST_BESIDE else "")
            where = "checkout" if changes.in_checkout else "directory"
            yield "", f"changed in this {where} while it ran, beside {render.clean(others)}:"
        yield from (("", text) for text in _files(changes))
        yield from (("", f"commit {render.clean(commit)}") for commit in changes.commits)
    yield from (("", text) for text in _beside_it(changes))


def _alone(changes: "Changes") -> "Changes":
    from dataclasses import replace

    return replace(changes, beside=())  # these have a line of their own


def _files(changes: "Changes") -> Iterator[str]:
    for file in changes.files[:_FILES]:
        yield _file(file, has_commits=bool(changes.commits))
    if len(changes.files) > _FILES or changes.truncated:
        yield f"… {render.counted(len(changes.files), 'file')} in all{' and more' if changes.truncated else ''}"


def _file(file: "FileChange", *, has_commits: bool) -> str:
    old = "" if file.old is None else f"{render.clean(file.old)} → "
    about = [f"+{file.insertions} -{file.deletions}"] if file.insertions is not None else []
    about += ["binary"] if file.is_binary else []
    about += ["not committed"] if has_commits and file.is_committed is False else []
    return f"{_SIGNS.get(file.change, '?')} {old}{render.clean(file.path)}" + (
        f" ({', '.join(about)})" if about else ""
    )


def _beside_it(changes: "Changes") -> Iterator[str]:
    """What a reader of the list must know."""
    if changes.ignored:
        named = ", ".join(render.clean(path) for path in changes.ignored[:_IGNORED])
        more = changes.ignored_in_all - len(changes.ignored[:_IGNORED])
        yield f"new and ignored by git: {named}{f' and {more} more' if more > 0 else ''}"
    if changes.left_out:
        yield f"not kept for `wk diff`: {render.clean(', '.join(changes.left_out[:_IGNORED]))}"
    if changes.not_kept:
        yield f"not kept for `wk diff`: {render.clean(changes.not_kept)}"
