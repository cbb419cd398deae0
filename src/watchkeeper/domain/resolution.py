"""What a person makes of a run that is held."""

from dataclasses import replace
from datetime import datetime

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import Disposition, Outcome, OutcomeStatus, Proof, Run, Task


def resolve_held(task: Task, run: Run, at: datetime, *, stopped: bool, by: str, proof: Proof | None = None) -> Outcome:
    """The outcome of a held run that a person settles: by stopping the task, or by asking for another run.

    `proof`: what was found since it was held.
    """
    run = replace(run, proof=proof or run.proof)
    return Outcome(
        run_id=run.id,
        fence=run.fence,
        status=OutcomeStatus.STOPPED if stopped else OutcomeStatus.FAILED,
        disposition=Disposition.STOPPED if stopped else Disposition.FAILED,
        kind=FailureKind.STOPPED if stopped else (run.kind or FailureKind.LOST),
        reason=_resolution(task, run, stopped=stopped, by=by),
        at=at,
        proof=run.proof or Proof.UNPROVEN,
        harness_session=run.harness_session,
        exit=run.exit,
    )


def _resolution(task: Task, run: Run, *, stopped: bool, by: str) -> str:
    done = f"{by} stopped it while it was held." if stopped else f"{by} gave the held run up: {task.reason}"
    return done if run.proof is Proof.PROVEN else f"{done} It is not proven that nothing of it is alive."
