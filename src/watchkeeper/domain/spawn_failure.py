"""Why an agent could not be started: what is missing or forbidden, by its path, and what a person does about it."""

from errno import E2BIG, EACCES, ENOENT, ENOEXEC, ENOTDIR, EPERM

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.run_record import ExitFact

_MISSING = frozenset({ENOENT, ENOTDIR})
_FORBIDDEN = frozenset({EACCES, EPERM})


def judge_spawn(exit_fact: ExitFact, task_id: str) -> tuple[FailureKind, str]:
    """The kind of a failed start, one sentence on what is wrong, and one on what to do next.

    A record of an earlier version does not name the step; then the sentence names both possibilities.
    """
    again = f"then `wk retry {task_id}`"
    match exit_fact.step:
        case "chdir":
            return _directory(exit_fact, again)
        case "directory":
            detail = f"'{exit_fact.path}' is not the directory you approved: it was replaced just before the start."
            return FailureKind.DIRECTORY_CHANGED, f"{detail} `wk retry {task_id}` approves it as it is now."
        case "branch":
            detail = f"'{exit_fact.path}' was switched to another branch or commit just before the start."
            return FailureKind.DIRECTORY_CHANGED, f"{detail} `wk retry {task_id}` approves it as it is now."
        case "exec" | "interpreter":
            return _program(exit_fact, again)
        case _:
            return _unnamed(exit_fact, again)


def _directory(exit_fact: ExitFact, again: str) -> tuple[FailureKind, str]:
    path = exit_fact.path or ""
    if exit_fact.errno == ENOTDIR:
        kind = FailureKind.DIRECTORY_MISSING
        return kind, f"'{path}' is no directory any more, so the agent was not started. Put it back, {again}."
    if exit_fact.errno in _MISSING:
        kind = FailureKind.DIRECTORY_MISSING
        return kind, f"The directory '{path}' is missing, so the agent was not started. Put it back, {again}."
    if exit_fact.errno in _FORBIDDEN:
        kind = FailureKind.DIRECTORY_MISSING
        return kind, f"The directory '{path}' may not be entered, so the agent was not started. Allow it, {again}."
    return FailureKind.PROGRAM_BROKEN, f"The directory '{path}' could not be entered{_number(exit_fact)}."


def _program(exit_fact: ExitFact, again: str) -> tuple[FailureKind, str]:
    path = exit_fact.path or ""
    where = "" if "/" in path else " from the PATH of the task"
    if exit_fact.step == "interpreter":
        kind = FailureKind.PROGRAM_MISSING
        detail = (
            f"The program '{path}' could not be started, because the interpreter or loader that it names is missing."
        )
        return kind, f"{detail} Install that, {again}."
    match exit_fact.errno:
        case code if code in _MISSING:
            kind = FailureKind.PROGRAM_MISSING
            return kind, f"The program '{path}' is missing{where}, so nothing was started. Install it, {again}."
        case code if code in _FORBIDDEN:
            detail = (
                "may not be executed. Check its mode" if "/" in path else "is nowhere on the PATH where it may be run"
            )
            return (
                FailureKind.PROGRAM_BROKEN,
                f"The program '{path}' {detail}{'' if '/' in path else '. Check both'}, {again}.",
            )
        case code if code == ENOEXEC:
            return FailureKind.PROGRAM_BROKEN, f"'{path}' is no program, or one for another machine. Check it, {again}."
        case code if code == E2BIG:
            return FailureKind.PROGRAM_BROKEN, f"The arguments and variables of '{path}' are too long for the system."
        case _:
            return FailureKind.PROGRAM_BROKEN, f"The program '{path}' could not be started{_number(exit_fact)}."


def _unnamed(exit_fact: ExitFact, again: str) -> tuple[FailureKind, str]:
    if exit_fact.errno in _MISSING:
        kind = FailureKind.PROGRAM_MISSING
        return kind, f"The program or its directory is missing, so the agent could not be started. Check both, {again}."
    if exit_fact.errno == EACCES:
        return FailureKind.PROGRAM_BROKEN, "The program may not be executed."
    return FailureKind.PROGRAM_BROKEN, f"The program could not be started{_number(exit_fact)}."


def _number(exit_fact: ExitFact) -> str:
    return f" (error {exit_fact.errno})" if exit_fact.errno is not None else ""
