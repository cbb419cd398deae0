"""Taking over the results of tasks, joined from the parts."""

from collections.abc import Callable

from watchkeeper.app.merge import Merger
from watchkeeper.app.pull_request import Requester
from watchkeeper.compose.parts import Watchkeeper
from watchkeeper.ports.applying import Applier
from watchkeeper.runtimes.tip_checks import ForegroundChecks
from watchkeeper.workspaces.applying import GitApplier
from watchkeeper.workspaces.integration import GitBranches
from watchkeeper.workspaces.pushing import GitPusher
from watchkeeper.workspaces.replay import GitReplays


def applier_of(parts: Watchkeeper) -> Applier:
    """Applies patches in the caller's checkout."""
    return GitApplier(parts.environ)


def requester_of(parts: Watchkeeper, on_step: Callable[[str], None]) -> Requester:
    """Pushes the branches of tasks and asks for their merges."""
    return Requester(merger=merger_of(parts, on_step), pusher=GitPusher(parts.environ), on_step=on_step)


def merger_of(parts: Watchkeeper, on_step: Callable[[str], None]) -> Merger:
    """Merges the branches of tasks."""
    root = parts.state.path / "merges"
    return Merger(
        store=parts.store,
        clock=parts.clock,
        worktrees=parts.worktrees,
        branches=GitBranches(parts.environ),
        replays=GitReplays(root, parts.environ),
        checks=ForegroundChecks(root),
        machine=parts.machine,
        on_step=on_step,
    )
