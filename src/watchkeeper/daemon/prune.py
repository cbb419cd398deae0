"""Remove what is provably no longer needed, once an hour."""

from watchkeeper.app.prune import Pruner
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked


class PruneLoop(Loop):
    """Prunes."""

    name = "prune"

    def __init__(self, log: Log, every_s: float, pruner: Pruner) -> None:
        """Prune with `pruner`."""
        super().__init__(log, every_s)
        self._pruner = pruner
        self._unused: frozenset[str] = frozenset()

    def tick(self) -> Ticked:
        """Prune."""
        # Environments first: a directory that cannot be removed must not keep a secret on disk.
        self._unused = self._pruner.forget_unused_environments(self._unused)
        removed = self._pruner.prune()
        if removed:
            self.log.info("pruned", executions=len(removed))
        return Ticked()
