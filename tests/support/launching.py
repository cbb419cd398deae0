"""The daemon's way from a queued task to a prepared execution, one verb after the other, with no process started."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support.cli import Wk

from watchkeeper.app.claim import Claimant, claim
from watchkeeper.app.record import apply_run
from watchkeeper.compose import Watchkeeper
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import Run, RunState
from watchkeeper.domain.run_events import (
    NeverLaunched,
)
from watchkeeper.ports.store import Tx
from watchkeeper.workspaces.apart import ApartWorkspace


@dataclass
class PreparedLaunch:
    """A run after its launch was prepared or refused, and what its shim would get."""

    run: Run
    spec: dict[str, Any]
    """`spec.json`; empty if the launch was refused."""


def _close(daemon: Watchkeeper) -> None:
    assert isinstance(daemon.workspace, ApartWorkspace)
    daemon.workspace.close()
    daemon.store.close()


def prepare_next(wk: Wk, environ: Mapping[str, str] | None = None) -> PreparedLaunch:
    """Claim the next task and prepare its launch, as a daemon that was started in this environment."""
    daemon = Watchkeeper.open(wk.home, wk.environ if environ is None else environ, writes=True, is_daemon=True)
    node, at = daemon.state.node(), daemon.clock.now()
    machine = daemon.store.transact("begin", lambda tx: tx.machines.begin_incarnation(node, "boot", at))
    claimed = claim(daemon.store, daemon.clock, daemon.ids, Claimant(machine=machine, limit=99), daemon.ids.operation())
    assert claimed is not None
    daemon.launcher.launch(claimed.run_id)
    run = daemon.store.read(lambda tx: tx.runs.get(claimed.run_id))
    if run.state is not RunState.PREPARED:
        _ = daemon.settler.settle(run.id)
        _close(daemon)
        return PreparedLaunch(run, {})
    file = daemon.state.executions / run.execution_id / "spec.json"
    spec = json.loads(file.read_text(encoding="utf-8"))

    def give_up(tx: Tx) -> None:
        _ = apply_run(tx, run, NeverLaunched(reason="A test.", kind=FailureKind.BAD_REQUEST), at)

    daemon.store.transact("give up", give_up)
    _ = daemon.settler.settle(run.id)
    _close(daemon)
    return PreparedLaunch(run, spec)
