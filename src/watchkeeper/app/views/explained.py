"""An explanation as JSON values."""

import hashlib

from watchkeeper.app.views import plain as values
from watchkeeper.app.views.explain import Explanation

Json = dict[str, object]


def plain(found: Explanation) -> Json:
    """One run with all that is known of it. Names of variables only, never what they hold."""
    spec = found.task.spec
    return {
        "task": values.task(found.task),
        "prompt_sha256": hashlib.sha256(spec.prompt.encode("utf-8", "surrogatepass")).hexdigest(),
        "argv": list(spec.argv),
        "authorisation": None if found.authorisation is None else values.authorisation(found.authorisation),
        "run": values.run_detail(found.found),
        "variables": None if found.variables is None else list(found.variables),
        "asked": list(found.asked),
        "history": [values.entry(entry) for entry in found.history],
        "steps": steps(found),
        "steps_left_out": found.steps.left_out,
        "output_dropped_bytes": found.steps.dropped_bytes,
        "steps_unreadable": found.steps.unreadable or None,
        "evidence": None if found.evidence is None else values.evidence(found.evidence),
        "cost": {"class": found.cost.known.value, "usd": found.cost.usd},
    }


def steps(found: Explanation) -> list[Json]:
    """What it did, in order."""
    number = found.run.number
    return [values.stream_event(event, number) for event in (*found.steps.first, *found.steps.last)]
