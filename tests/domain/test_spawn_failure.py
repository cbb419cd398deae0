"""Why an agent was not started: the kind, and the whole of what a person reads."""

from errno import E2BIG, EACCES, EIO, ENOENT, ENOEXEC, ENOTDIR, EPERM

import pytest

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.run_record import EndReason, ExitFact
from watchkeeper.domain.samples import AT
from watchkeeper.domain.spawn_failure import judge_spawn

AGAIN = "then `wk retry t1`"
APPROVE = "just before the start. `wk retry t1` approves it as it is now."
GONE, BROKEN, MISSING = FailureKind.DIRECTORY_MISSING, FailureKind.PROGRAM_BROKEN, FailureKind.PROGRAM_MISSING


@pytest.mark.parametrize(
    ("step", "errno", "path", "kind", "detail"),
    [
        ("chdir", ENOTDIR, "/p", GONE, f"'/p' is no directory any more, so the agent was not started. Put it back, {AGAIN}."),
        ("chdir", ENOENT, "/p", GONE, f"The directory '/p' is missing, so the agent was not started. Put it back, {AGAIN}."),
        ("chdir", EACCES, "/p", GONE, f"The directory '/p' may not be entered, so the agent was not started. Allow it, {AGAIN}."),
        ("chdir", EPERM, None, GONE, f"The directory '' may not be entered, so the agent was not started. Allow it, {AGAIN}."),
        ("chdir", EIO, "/p", BROKEN, "The directory '/p' could not be entered (error 5)."),
        ("directory", None, "/p", FailureKind.DIRECTORY_CHANGED, f"'/p' is not the directory you approved: it was replaced {APPROVE}"),
        ("branch", None, "/p", FailureKind.DIRECTORY_CHANGED, f"'/p' was switched to another branch or commit {APPROVE}"),
        ("exec", ENOENT, "tool", MISSING,
         f"The program 'tool' is missing from the PATH of the task, so nothing was started. Install it, {AGAIN}."),
        ("exec", ENOTDIR, "/b/tool", MISSING, f"The program '/b/tool' is missing, so nothing was started. Install it, {AGAIN}."),
        ("exec", EACCES, "/b/tool", BROKEN, f"The program '/b/tool' may not be executed. Check its mode, {AGAIN}."),
        ("exec", EPERM, "tool", BROKEN, f"The program 'tool' is nowhere on the PATH where it may be run. Check both, {AGAIN}."),
        ("exec", ENOEXEC, "/b/tool", BROKEN, f"'/b/tool' is no program, or one for another machine. Check it, {AGAIN}."),
        ("exec", E2BIG, "/b/tool", BROKEN, "The arguments and variables of '/b/tool' are too long for the system."),
        ("exec", EIO, "/b/tool", BROKEN, "The program '/b/tool' could not be started (error 5)."),
        ("exec", None, None, BROKEN, "The program '' could not be started."),
        ("interpreter", ENOENT, "/b/tool", MISSING,
         f"The program '/b/tool' could not be started, because the interpreter or loader that it names is missing. Install that, {AGAIN}."),
        (None, ENOENT, None, MISSING, f"The program or its directory is missing, so the agent could not be started. Check both, {AGAIN}."),
        (None, EACCES, None, BROKEN, "The program may not be executed."),
        ("limits", EPERM, None, BROKEN, "The program could not be started (error 1)."),
        (None, None, None, BROKEN, "The program could not be started."),
    ],
)  # fmt: skip
def test_a_failed_start_has_a_kind_and_a_sentence(
    step: str | None, errno: int | None, path: str | None, kind: FailureKind, detail: str
) -> None:
    fact = ExitFact(status=None, reason=EndReason.SPAWN_FAILED, at=AT, elapsed_s=0.0, errno=errno, step=step, path=path)
    assert judge_spawn(fact, "t1") == (kind, detail)
