"""What a run left behind: the class of its outcome, and its words. Pure; from the facts that settle the run, never from what the agent says of them."""

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.outcome_record import MOST_BESIDE, Changes, Result

_OF_KIND = {FailureKind.REFUSED: Result.REFUSED, FailureKind.NOTHING_RECORDED: Result.NOTHING_RECORDED}


def result_of(kind: FailureKind | None, changes: Changes | None) -> Result | None:
    """The class of an outcome; None where no agent ran."""
    if kind is not None and kind in _OF_KIND:
        return _OF_KIND[kind]
    if changes is None:
        return None
    if not changes.known:
        return Result.UNKNOWN
    if changes.commits:
        return Result.COMMITTED
    return Result.CHANGED if changes.files else Result.UNCHANGED


def summary(changes: Changes | None) -> str:
    """What changed in a few words, such as `2 files changed, not committed`; empty where no agent ran."""
    if changes is None:
        return ""
    if not changes.known:
        return "what changed is unknown"
    if not changes.files and not changes.commits:
        return "nothing changed"
    parts = [_counted(len(changes.commits), "commit", more=changes.truncated)] if changes.commits else []
    parts += [f"{_counted(len(changes.files), 'file', more=changes.truncated)} changed"] if changes.files else []
    lines = changes.lines
    parts += [f"+{lines[0]} -{lines[1]}"] if lines is not None and any(lines) else []
    if changes.uncommitted:
        parts.append(f"{changes.uncommitted} not committed" if changes.commits else "not committed")
    if changes.beside:
        others = ", ".join(changes.beside) + (" and more" if len(changes.beside) >= MOST_BESIDE else "")
        parts.append(f"beside {others}")
    return ", ".join(parts)


def _counted(count: int, word: str, *, more: bool) -> str:
    return f"{count}{' or more' if more else ''} {word}{'' if count == 1 and not more else 's'}"
