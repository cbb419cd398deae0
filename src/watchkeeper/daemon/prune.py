"""Remove what is provably no longer needed, once an hour."""

from watchkeeper.app.ages import ago_by
from watchkeeper.compose import Watchkeeper
from watchkeeper.compose.housekeeping import ages_of, pruner_of, retention_of
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked

BY = "prune"
"""In whose name tasks are removed whose retention time is over."""

_AT_ONCE = 2000
_HISTORY_EVERY = 24
"""Reading through all of history is for once a day."""


class PruneLoop(Loop):
    """Prunes."""

    name = "prune"

    def __init__(self, log: Log, every_s: float, parts: Watchkeeper) -> None:
        """Prune what is kept with `parts`."""
        super().__init__(log, every_s)
        self._parts = parts
        self._unused: frozenset[str] = frozenset()
        self._passes = 0

    def tick(self) -> Ticked:
        """Prune."""
        # The clocks before anything else: what cannot be told to be old stays.
        watched = ages_of(self._parts).check()
        if watched.shift:
            self.log.info("clock changed", by_s=round(watched.shift.total_seconds()))
        ago = ago_by(watched)
        pruner, retention = pruner_of(self._parts, ago), retention_of(self._parts, ago)
        # Environments first: a directory that cannot be removed must not keep a secret on disk.
        self._unused = pruner.forget_unused_environments(self._unused)
        swept = retention.tasks(by=BY, at_most=_AT_ONCE)
        tasks = swept.removed
        for task_id, problem in swept.failed:
            self.log.problem("not removed", problem, task=task_id)
        if self._passes % _HISTORY_EVERY == 0:
            _ = retention.history()
        self._passes += 1
        removed = pruner.prune()
        sockets = self._parts.clear_sockets()
        if tasks or removed or sockets:
            self.log.info("pruned", executions=len(removed), tasks=len(tasks), sockets=sockets or None)
        return Ticked(worked=bool(tasks))
