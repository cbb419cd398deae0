"""Which loops a daemon has, and who wakes whom."""

from dataclasses import dataclass, replace
from functools import partial

import anyio
from anyio.abc import TaskGroup

from watchkeeper.app.claim import Claimant
from watchkeeper.app.damage import Damaged
from watchkeeper.app.follow import Followers
from watchkeeper.app.off_record import put_on_record
from watchkeeper.app.together import JoinedStore
from watchkeeper.compose import Watchkeeper
from watchkeeper.compose.notices import notifier_of
from watchkeeper.daemon.claim import ClaimLoop
from watchkeeper.daemon.damage import DamageLoop
from watchkeeper.daemon.follow import FollowLoop
from watchkeeper.daemon.launch import LaunchLoop
from watchkeeper.daemon.lease import LeaseLoop
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop
from watchkeeper.daemon.notify import NotifyLoop
from watchkeeper.daemon.observe import ObserveLoop
from watchkeeper.daemon.outbox import OutboxLoop
from watchkeeper.daemon.prune import PruneLoop
from watchkeeper.daemon.reconcile import ReconcileLoop
from watchkeeper.daemon.settle import SettleLoop
from watchkeeper.daemon.sign_ins import SignInLoop
from watchkeeper.daemon.watch import Watches
from watchkeeper.domain.model import Run
from watchkeeper.ports.store import MachineRecord

_PRUNE_EVERY_S = 3600.0
_BESIDES_LOOKING_S = 15.0
"""What the work of a run may take beside the look into its directory before it is abandoned."""
_NET_S = 30.0
"""The slow look of loops that are woken by events."""

_OWN = ("claim", "launch", "outbox", "observe", "reconcile", "follow", "settle", "prune", "signs", "damage", "notify")
"""What has a database connection of its own."""


@dataclass(slots=True, kw_only=True)
class Loops:
    """Every loop of a daemon."""

    claim: ClaimLoop
    launch: LaunchLoop
    outbox: OutboxLoop
    observe: ObserveLoop
    reconcile: ReconcileLoop
    follow: FollowLoop
    settle: SettleLoop
    prune: PruneLoop
    sign_ins: SignInLoop
    damage: DamageLoop
    notify: NotifyLoop
    lease: LeaseLoop | None = None
    """Only machines that share a database have one."""

    def all(self) -> tuple[Loop, ...]:
        """Each of them."""
        return (
            self.claim,
            self.launch,
            self.outbox,
            self.observe,
            self.reconcile,
            self.follow,
            self.settle,
            self.prune,
            self.sign_ins,
            self.damage,
            self.notify,
            *((self.lease,) if self.lease is not None else ()),
        )

    def nudge(self) -> None:
        """Something was said, whatever it was: look."""
        for loop in (self.claim, self.launch, self.outbox, self.observe, self.settle, self.sign_ins, self.notify):
            loop.nudge()


def _damage_loop(log: Log, every_s: float, parts: Watchkeeper) -> DamageLoop:
    damaged = Damaged(store=parts.store, clock=parts.clock)
    return DamageLoop(log, every_s, parts.store, parts.clock, damaged, parts.state.report_damage)


def _notify_loop(log: Log, parts: Watchkeeper) -> NotifyLoop:
    notifier = notifier_of(parts)
    return NotifyLoop(log, _NET_S, notifier, {name: notifier_of(parts.sibling()) for name in notifier.sinks})


def wire(parts: Watchkeeper, log: Log, machine: MachineRecord, tasks: TaskGroup) -> Loops:
    """Make the loops, each with a database connection of its own, and say who wakes whom."""
    poll_s, here = parts.settings.daemon_poll_s, machine.id
    limit = parts.settings.queue_limit
    abandon_s = parts.settings.daemon_look_limit_s + _BESIDES_LOOKING_S
    watching = parts.sibling()
    watches = Watches(tasks, watching.runtime)
    own = {name: parts.sibling() for name in _OWN}

    def seen(run: Run) -> None:
        anyio.from_thread.run_sync(watches.watch, run, loops.observe)

    observe = ObserveLoop(log, _NET_S, own["observe"].store, here, own["observe"].observer, seen)
    p = own["claim"]
    claimant = Claimant(machine=machine, limit=limit)
    claim = ClaimLoop(
        log, _NET_S, p.store, p.clock, p.ids, claimant, partial(put_on_record, p.store, p.clock, p.runtime)
    )
    p = own["settle"]
    # Its works run side by side, so many wait to record their outcome at the same time.
    settler = replace(p.settler, store=JoinedStore(p.store))
    settle = SettleLoop(log, _NET_S, p.store, p.clock, here, settler, abandon_s=abandon_s)
    p = own["follow"]
    followers = Followers(
        store=p.store, clock=p.clock, executions=p.runtime.executions(), harness=p.harness,
        answered_grace_s=parts.settings.daemon_answered_grace_s, stalled_after_s=parts.settings.daemon_stalled_after_s,
    )  # fmt: skip
    loops = Loops(
        claim=claim,
        launch=LaunchLoop(log, _NET_S, own["launch"].store, p.clock, here, own["launch"].launcher, abandon_s=abandon_s),
        outbox=OutboxLoop(log, _NET_S, own["outbox"].store, p.clock, own["outbox"].performer, observe),
        observe=observe,
        reconcile=ReconcileLoop(
            log, poll_s, own["reconcile"].store, here, p.clock, own["reconcile"].observer, parts.state.keep_spare
        ),
        follow=FollowLoop(log, _NET_S, p.store, here, followers),
        settle=settle,
        prune=PruneLoop(log, _PRUNE_EVERY_S, own["prune"]),
        sign_ins=SignInLoop(log, _NET_S, poll_s, own["signs"].sign_ins),
        damage=_damage_loop(log, poll_s, own["damage"]),
        notify=_notify_loop(log, own["notify"]),
    )
    _wake_each_other(loops)
    return loops


def _wake_each_other(loops: Loops) -> None:
    loops.prune.wakes = (loops.outbox,)
    loops.claim.wakes = (loops.launch, loops.notify)
    loops.launch.wakes = (loops.outbox, loops.settle)
    loops.outbox.wakes = (loops.observe,)
    loops.observe.wakes = (loops.settle, loops.follow, loops.outbox, loops.notify)
    loops.reconcile.wakes = (loops.claim, loops.launch, loops.outbox, loops.observe, loops.settle, loops.follow)
    loops.follow.wakes = (loops.outbox, loops.claim)
    loops.settle.wakes = (loops.claim, loops.outbox, loops.sign_ins, loops.notify)
    loops.sign_ins.wakes = (loops.claim,)
