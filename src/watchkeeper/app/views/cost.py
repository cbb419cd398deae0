"""What runs cost, added up by what they have in common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from watchkeeper.app.views.settled import SettledRun, settled
from watchkeeper.domain.cost import Cost, CostTotal, total
from watchkeeper.ports.store import Store

_REMOVED = "(removed)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What the runs since a time cost: each group, the most expensive first, and all together."""

    by: str
    since: datetime | None
    oldest: datetime | None
    """When the oldest of these runs was settled; None if no run was settled."""
    groups: tuple[tuple[str, CostTotal], ...]
    all: CostTotal


def _day(run: SettledRun) -> str:
    return run.at.astimezone().date().isoformat()


GROUPS: Mapping[str, Callable[[SettledRun], str]] = {
    "task": lambda run: run.task_id,
    "harness": lambda run: _REMOVED if run.task is None else run.task.spec.harness,
    "account": lambda run: _REMOVED if run.task is None else run.task.spec.account_id,
    "project": lambda run: _REMOVED if run.task is None else run.task.spec.project or "(none)",
    "model": lambda run: "(unknown)" if run.outcome is None or not run.outcome.model else run.outcome.model,
    "day": _day,
}
"""What costs can be grouped by. Days are those of the local time zone."""


def costs(store: Store, by: str, since: datetime | None) -> Costs:
    """Add up what was settled since a time; None: all that is on record. `by` is one of `GROUPS`."""
    name, groups, oldest = GROUPS[by], dict[str, list[Cost]](), None
    for run in settled(store, since):
        groups.setdefault(name(run), []).append(run.cost)
        oldest = run.at
    sums = [(group, total(found)) for group, found in groups.items()]
    if by == "day":
        sums.sort(key=lambda each: each[0])
    else:
        sums.sort(key=lambda each: (-each[1].known_usd - each[1].claimed_usd, -each[1].runs, each[0]))
    return Costs(
        by=by,
        since=since,
        oldest=oldest,
        groups=tuple(sums),
        all=total(cost for found in groups.values() for cost in found),
    )
