"""End what is left of a run that a person has settled without proof that nothing of it is alive.

The run is final; that its agent may work on is not. Its shim is asked if it answers; else what is provably the run's is swept, each process by its checked
identity. Nothing is concluded from silence: as long as something may be alive that was not reached, it is tried again, a bounded number of times.
"""

from collections.abc import Callable
from dataclasses import dataclass

from watchkeeper.domain.effects import EndExecution
from watchkeeper.domain.evidence import DecidedBy, Evidence, Verdict, VerdictKind, judge
from watchkeeper.domain.model import Proof, Run
from watchkeeper.ports.runtime import Runtime, ShimUnreachable, SweepReport


@dataclass(frozen=True, slots=True, kw_only=True)
class EndAnswer:
    """What one attempt came to."""

    over: bool
    """There is nothing more to try: its shim received the request, or nothing of it was found alive any more."""
    detail: str
    sweep: SweepReport | None = None
    """The sweep that was made, if one was."""


def end_settled(
    runtime: Runtime, run: Run, effect: EndExecution, hide: Callable[[SweepReport], SweepReport]
) -> EndAnswer:
    """Try once to end what is left of a settled run; `hide` takes the secrets out of what a sweep tells. Raises OSError if the system is in trouble."""
    verdict, evidence = _judge(runtime, run)
    match verdict.kind:
        case VerdictKind.NEVER_LAUNCHED | VerdictKind.LOST_TO_REBOOT:
            return EndAnswer(over=True, detail=verdict.reason)
        case VerdictKind.ENDED if evidence.gone is not None:
            return EndAnswer(over=True, detail=verdict.reason)
        case VerdictKind.SHIM_DIED:
            return _swept(hide(runtime.sweep(run)), surely=True)
        case VerdictKind.ENDED if verdict.final:
            return _swept(hide(runtime.sweep(run)), surely=True)
        case _:
            return _send_request(runtime, run, effect, verdict, hide)


def _judge(runtime: Runtime, run: Run) -> tuple[Verdict, Evidence]:
    """What the evidence says; if nothing was decided yet, nothing ever will be launched from here on."""
    evidence = runtime.observe(run, stop_asked=True)
    verdict = judge(evidence)
    if verdict.kind is VerdictKind.TAKE_DECISION:
        _ = runtime.take_decision(run, DecidedBy.STOP)
        evidence = runtime.observe(run, stop_asked=True)
        verdict = judge(evidence)
    return verdict, evidence


def _send_request(
    runtime: Runtime, run: Run, effect: EndExecution, verdict: Verdict, hide: Callable[[SweepReport], SweepReport]
) -> EndAnswer:
    try:
        if runtime.end(run, effect.how, grace_s=effect.grace_s, why=effect.why):
            return EndAnswer(over=True, detail="Its shim received the request.")
    except ShimUnreachable as problem:
        if verdict.kind is VerdictKind.WAITING:
            return EndAnswer(over=False, detail=str(problem))  # it starts, and an agent may come after any sweep
    sweep = hide(runtime.sweep(run, asked=True))
    # If the agent was never seen, an empty search proves nothing: it may be about to start.
    return _swept(sweep, surely=run.agent is not None or bool(sweep.ended))


def _swept(sweep: SweepReport, *, surely: bool) -> EndAnswer:
    over = surely and sweep.proof is not Proof.UNPROVEN
    detail = "Nothing of it is found alive." if over else " ".join(sweep.spared) or "Whether it has started is unknown."
    return EndAnswer(over=over, detail=detail, sweep=sweep)
