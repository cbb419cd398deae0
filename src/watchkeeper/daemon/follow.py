"""Read what agents print while they work."""

from watchkeeper.app.follow import Followers
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.domain.model import RunState
from watchkeeper.ports.store import Store

_WHILE_WORKING_S = 1.0


class FollowLoop(Loop):
    """Follows the output of working agents; costs one stat a second for each, and nothing when none works."""

    name = "follow"

    def __init__(self, log: Log, every_s: float, store: Store, machine: str, followers: Followers) -> None:
        """Follow with `followers`."""
        super().__init__(log, every_s)
        self._store = store
        self._machine = machine
        self._followers = followers
        self._due_s = 0.0
        """When all are read on in, in seconds since boot."""
        self._said: dict[str, str] = {}
        """By run, the trouble that was logged: the same one is logged once."""

    def tick(self) -> Ticked:
        """Read on once a second, and at once in what has begun since."""
        now_s = self._followers.clock.boottime_s()
        is_due = now_s >= self._due_s
        if is_due:
            self._due_s = now_s + _WHILE_WORKING_S
        else:
            # Every end of a run wakes this loop: to see that none has begun costs their ids only.
            run_ids = self._store.read(lambda tx: tx.runs.ids(self._machine, RunState.RUNNING))
            if run_ids and self._followers.follows(run_ids):
                return Ticked(due_s=self._due_s - now_s)
        working = self._store.read(lambda tx: tx.runs.live(self._machine, {RunState.RUNNING}))
        done = self._followers.follow(working, only_new=not is_due)
        for run_id, problem in done.problems.items():
            said = f"{type(problem).__name__}: {problem}"
            if self._said.get(run_id) != said:
                self.log.problem("tick failed", problem, loop=self.name, run=run_id)
                self._said[run_id] = said
        for gone in self._said.keys() - {run.id for run in working}:
            del self._said[gone]
        return Ticked(worked=done.recorded, due_s=self._due_s - now_s if working else None)
