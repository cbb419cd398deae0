"""Remove what is provably no longer needed, once an hour."""

from watchkeeper.app.prune import Pruner
from watchkeeper.app.retention import Retention
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked

BY = "prune"
"""In whose name tasks are removed that ended so long ago that nobody wants to keep them."""

_AT_ONCE = 2000
_HISTORY_EVERY = 24
"""Reading through all of history is for once a day."""


class PruneLoop(Loop):
    """Prunes."""

    name = "prune"

    def __init__(self, log: Log, every_s: float, pruner: Pruner, retention: Retention) -> None:
        """Prune with `pruner` and `retention`."""
        super().__init__(log, every_s)
        self._pruner = pruner
        self._retention = retention
        self._unused: frozenset[str] = frozenset()
        self._passes = 0

    def tick(self) -> Ticked:
        """Prune."""
        # Environments first: a directory that cannot be removed must not keep a secret on disk.
        self._unused = self._pruner.forget_unused_environments(self._unused)
        swept = self._retention.tasks(by=BY, at_most=_AT_ONCE)
        tasks = swept.removed
        for task_id, problem in swept.failed:
            self.log.problem("not removed", problem, task=task_id)
        if self._passes % _HISTORY_EVERY == 0:
            _ = self._retention.history()
        self._passes += 1
        removed = self._pruner.prune()
        if tasks or removed:
            self.log.info("pruned", executions=len(removed), tasks=len(tasks))
        return Ticked(worked=bool(tasks))
