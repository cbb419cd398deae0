"""Names for new things."""

from typing import Protocol


class Ids(Protocol):
    """Random identifiers. None is guessable from another."""

    def task(self) -> str:
        """A short id that people type: 8 lower-case letters and digits, none that look alike."""
        ...

    def execution(self) -> str:
        """The public id of an execution: 16 characters of the same alphabet."""
        ...

    def operation(self) -> str:
        """The id of one attempt at a claim."""
        ...
