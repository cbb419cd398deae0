"""Pruning and removal, joined from the parts: the daemon uses them by its rules, commands when a person asks."""

from watchkeeper.app.ages import Ages, Ago
from watchkeeper.app.prune import Pruner
from watchkeeper.app.remove import Remover
from watchkeeper.app.retention import Retention
from watchkeeper.compose.parts import Watchkeeper


def remover_of(parts: Watchkeeper) -> Remover:
    """Removes tasks."""
    return Remover(store=parts.store, clock=parts.clock, runtime=parts.runtime, machine=parts.state.node())


def ages_of(parts: Watchkeeper) -> Ages:
    """Watches the clocks."""
    return Ages(store=parts.store, clock=parts.clock, memory=parts.clock_memory)


def retention_of(parts: Watchkeeper, ago: Ago) -> Retention:
    """Lets go of what the rules of retention let go of."""
    settings = parts.settings
    return Retention(
        store=parts.store,
        remover=remover_of(parts),
        keep_tasks_days=settings.prune_keep_tasks_days,
        keep_history_days=settings.prune_keep_history_days,
        ago=ago,
    )


def pruner_of(parts: Watchkeeper, ago: Ago) -> Pruner:
    """Removes what is provably no longer needed."""
    return Pruner(
        store=parts.store,
        clock=parts.clock,
        executions=parts.runtime.executions(),
        environments=parts.environments,
        forget=parts.workspace.forget,
        keep_days=parts.settings.prune_keep_days,
        ago=ago,
    )
