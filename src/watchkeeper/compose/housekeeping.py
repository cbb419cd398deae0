"""Pruning and removal, joined from the parts: the daemon uses them by its rules, commands when a person asks."""

from dataclasses import replace

from watchkeeper.app.ages import Ages, Ago
from watchkeeper.app.prune import Pruner
from watchkeeper.app.remove import Remover
from watchkeeper.app.retention import Retention
from watchkeeper.app.teardown import Teardown
from watchkeeper.app.undo import Undoer
from watchkeeper.app.worktrees import Keeper
from watchkeeper.compose.parts import Watchkeeper


def remover_of(parts: Watchkeeper) -> Remover:
    """Removes tasks, and their worktrees if nothing is lost by it."""
    return replace(_remover(parts), keeper=keeper_of(parts))


def _remover(parts: Watchkeeper) -> Remover:
    return Remover(store=parts.store, clock=parts.clock, runtime=parts.runtime, machine=parts.state.node())


def keeper_of(parts: Watchkeeper) -> Keeper:
    """Looks at the worktrees of tasks and removes them."""
    return Keeper(
        store=parts.store,
        clock=parts.clock,
        worktrees=parts.worktrees,
        salvages=parts.salvages,
        teardown=lambda task: teardown_of(parts).run(task),
        machine=parts.machine,
    )


def teardown_of(parts: Watchkeeper) -> Teardown:
    """Runs what clears up before a worktree is removed."""
    return Teardown(store=parts.store, commands=parts.side_commands)


def undoer_of(parts: Watchkeeper) -> Undoer:
    """Brings removed worktrees back, and lets go of those that are kept no longer."""
    return Undoer(
        store=parts.store,
        clock=parts.clock,
        salvages=parts.salvages,
        workspace=parts.workspace,
        keep_days=parts.settings.prune_keep_salvage_days,
    )


def ages_of(parts: Watchkeeper) -> Ages:
    """Watches the clocks."""
    return Ages(store=parts.store, clock=parts.clock, memory=parts.clock_memory)


def retention_of(parts: Watchkeeper, ago: Ago, *, by_a_person: bool = False) -> Retention:
    """Lets go of what the rules of retention let go of; of worktrees only when a person asks, and only if nothing is lost by it."""
    settings = parts.settings
    return Retention(
        store=parts.store,
        remover=remover_of(parts) if by_a_person else _remover(parts),
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
