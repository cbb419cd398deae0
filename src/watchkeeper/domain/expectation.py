"""Whether a run that succeeded by its program's own word did what its task expects. Pure."""

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.outcome_record import Changes, Trace
from watchkeeper.domain.question import question_at_end
from watchkeeper.domain.result import summary


def judge_success(task_id: str, expect: str, trace: Trace, changes: Changes | None) -> tuple[FailureKind | None, str]:
    """What is missing for a success, or None, with the plain sentence. `expect` is one of `task_record.EXPECTATIONS`."""
    question = question_at_end(trace.text) if trace.expects_trace else None
    if question is not None:
        return FailureKind.ASKED, f"The agent asks: “{question}”"
    if expect == "changes":
        missing = _missing_change(task_id, changes)
        if missing:
            return FailureKind.NOTHING_CHANGED, missing
    elif trace.expects_trace and trace.whole and expect != "any" and not _left_a_trace(expect, trace, changes):
        return FailureKind.NOTHING_RECORDED, _nothing_recorded(task_id, expect, trace)
    came_to = summary(changes)
    return None, f"Done: {came_to}." if came_to else "Done."


def _missing_change(task_id: str, changes: Changes | None) -> str:
    """Why no change is on record; empty if there is one."""
    if changes is None or not changes.known:
        why = "" if changes is None else f" {changes.why_unknown}"
        return f"It succeeded and should have changed something, but what changed is unknown.{why}"
    if changes.files or changes.commits:
        return ""
    then = f"`wk show {task_id}` has what it said; `wk retry {task_id}` tries again"
    return f"It succeeded and should have changed something, but nothing changed. {then}."


def _left_a_trace(expect: str, trace: Trace, changes: Changes | None) -> bool:
    """Prose is not a trace of work. Changes count only where no other process can have made them."""
    changed = changes is not None and bool(changes.files or changes.commits) and not changes.beside
    answered = expect == "answer" and bool(trace.text.strip())
    return bool(trace.tool_calls) or changed or answered


def _nothing_recorded(task_id: str, expect: str, trace: Trace) -> str:
    if expect == "answer":
        return f"The agent says that it is done, but gave no answer. `wk retry {task_id}` asks again."
    if not trace.text.strip():
        return f"The agent says that it is done, but said and did nothing. `wk retry {task_id}` tries again."
    detail = "The agent says that it is done, but it called no tool and changed nothing"
    then = f"`wk show {task_id}` has what it said; `wk retry {task_id}` tries again"
    return f"{detail}. {then}; if words are all you want, hand it over with `--expect answer`."
