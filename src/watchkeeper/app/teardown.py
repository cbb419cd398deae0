"""Run the task's own commands that clear up before its worktree is removed.

    TX removing ─▶ TX reserved ─▶ each in an execution of its own ─▶ TX ended ─▶ salvage, removal

The command that removes the worktree drives them, because a removal needs no daemon. Their shims do not depend on it: if it dies, the next removal reads the
same records and waits for what still runs. The worktree is `removing` meanwhile, so no agent starts in it.

What has ended is never run again for the same worktree. So a teardown that fails keeps a removal back once, and the next removal continues.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from watchkeeper.app.side_commands import SideCommands
from watchkeeper.domain.model import Task
from watchkeeper.domain.side_command import CommandKind, CommandResult, SideCommand
from watchkeeper.errors import Stale
from watchkeeper.ports.store import Store, Tx

_LOOK_S = 0.05
"""A shim's end is seen in its directory; this command has no inbox that a shim could write to, so it looks again and again."""


def _wait() -> None:
    time.sleep(_LOOK_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Teardown:
    """Clears up around worktrees."""

    store: Store
    commands: SideCommands
    wait: Callable[[], None] = _wait
    """What passes the time between two looks at a command that runs."""

    def run(self, task: Task) -> tuple[SideCommand, ...]:
        """Run the commands to their ends. Returns those that did not pass; none if they had all ended before.

        Raises:
            OSError: the system is in trouble; the next call continues.
        """
        tree = task.spec.worktree
        if not task.spec.teardown or tree is None or tree.made is None:
            return ()  # without `made` no set-up and no agent ever ran there
        runs = self.store.read(lambda tx: tx.runs.of_task(task.id))
        if not runs:
            return ()
        run = runs[-1]

        def begin(tx: Tx) -> bool:
            """Whether all of them have ended before."""
            there = tx.commands.of_run(run.id, CommandKind.TEARDOWN)
            now = [one for one in there if not one.of_before]
            if not now:
                # Those of a worktree that came back stay on record, with their logs.
                tx.commands.reserve(self.commands.reserved(run, task, CommandKind.TEARDOWN, before=len(there)))
            return bool(now) and all(one.is_over for one in now)

        if self.store.transact("teardown_reserved", begin):
            return ()
        while True:
            try:
                found = self.commands.advance(run, CommandKind.TEARDOWN)
            except Stale:
                continue  # another removal of the same worktree has advanced it meanwhile
            if found is not None:
                break
            self.wait()
        return tuple(one for one in found if not one.of_before and one.result is not CommandResult.PASSED)
