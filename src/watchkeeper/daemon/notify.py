"""Send people what needs them. Each sink has a thread of its own: one that does not answer delays no other."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial

from watchkeeper.app.notices import Notifier
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.daemon.workers import Workers
from watchkeeper.domain.notice import SinkName

_AT_ONCE = 20
"""So many notices are sent to a sink before others that wait for their time are looked at again."""

_ABANDON_S = 120.0
_SOON_S = 0.1


class NotifyLoop(Loop):
    """Sends notices."""

    name = "notify"

    def __init__(self, log: Log, every_s: float, notifier: Notifier, notifiers: Mapping[SinkName, Notifier]) -> None:
        """`notifier`: begins; `notifiers`: one for each sink, each with a database connection of its own."""
        super().__init__(log, every_s)
        self._notifier = notifier
        self._notifiers = notifiers
        self._begun = False
        self._due: dict[str, datetime] = {}
        self._workers: Workers[datetime | None] = Workers(
            self.name, lambda _more: self.nudge_from_thread(), detail="A notice is being sent", abandon_s=_ABANDON_S
        )

    def tick(self) -> Ticked:
        """Take what has ended, and begin what is due."""
        if not self._begun:
            self._notifier.begin()
            self._begun = True
        over = self._workers.collect()
        for name, due_at in over.results.items():
            _ = self._due.pop(name, None)
            if due_at is not None:
                self._due[name] = due_at
        for problem in over.problems.values():
            raise problem
        waits: list[float] = []
        for name, notifier in self._notifiers.items():
            left = self._left_s(name.value, notifier)
            if left > 0:
                waits.append(left)
            else:
                _ = self._workers.offer(name.value, partial(self._send, name, notifier))
        return Ticked(due_s=max(_SOON_S, min(waits)) if waits else None)

    def _left_s(self, name: str, notifier: Notifier) -> float:
        due_at = self._due.get(name)
        return 0.0 if due_at is None else (due_at - notifier.clock.now()).total_seconds()

    def _send(self, name: SinkName, notifier: Notifier) -> datetime | None:
        """Send what there is; returns when there is more to do, if that is later than now."""
        for _ in range(_AT_ONCE):
            sent = notifier.send_next(name)
            if sent.notice is not None:
                facts = {"sink": name.value, "notice": sent.notice.id, "detail": sent.problem or "sent"}
                self.log.info("notice lost" if sent.lost else "notice", **facts)
            if sent.notice is None or sent.due_at is not None:
                return sent.due_at
        return notifier.clock.now()
