"""Sinks of notices, and the part of a transaction that holds how far each of them is."""

from collections.abc import Sequence
from typing import Protocol

from watchkeeper.domain.notice import Answer, Notice, SinkName, SinkState


class Notices(Protocol):
    """How far each sink is."""

    def all(self) -> list[SinkState]:
        """Of every machine."""
        ...

    def of_machine(self, machine: str) -> list[SinkState]:
        """Of one machine."""
        ...

    def put(self, state: SinkState) -> None:
        """Write what one became."""
        ...

    def drop(self, machine: str, sink: SinkName) -> None:
        """Forget one: it begins anew at the present when it is there again."""
        ...


class Sink(Protocol):
    """Where notices go. Safe to use from another thread."""

    @property
    def name(self) -> SinkName:
        """Which one it is."""
        ...

    @property
    def detail(self) -> str:
        """Where that is, for people; without secrets."""
        ...

    def send(self, notice: Notice) -> Answer:
        """Send one notice, within half a minute. Never raises."""
        ...


Sinks = Sequence[Sink]
