"""What the use cases of a person get: who asks, and the parts of this installation."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from watchkeeper.app.accounts import AccountEnvironments
from watchkeeper.app.profiles import Limits
from watchkeeper.domain.inheritance import Inheritance
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.environment import Environments
from watchkeeper.ports.harness import Harness
from watchkeeper.ports.ids import Ids
from watchkeeper.ports.runtime import Runtime
from watchkeeper.ports.store import Store
from watchkeeper.ports.workspace import Workspace
from watchkeeper.ports.worktrees import Worktrees
from watchkeeper.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A person who asks for something."""

    by: str
    """The person's name, for the record."""
    environ: Mapping[str, str]
    """The person's environment. An agent gets a part of it; the rest is only searched for secrets that slipped into the task."""
    inherits: Inheritance
    """What an agent inherits beside the environment."""


class Parts(Protocol):
    """The parts of an installation, each opened when it is first used; `compose.Watchkeeper` is one.

    A part raises StateError where it cannot be opened, and NoDatabase where nothing was ever written and the parts only read.
    """

    settings: Settings
    """The settings that hold in every directory."""

    @cached_property
    def store(self) -> Store:
        """The database."""
        ...

    @cached_property
    def environments(self) -> Environments:
        """The environments that are kept for tasks."""
        ...

    @cached_property
    def runtime(self) -> Runtime:
        """The processes of agents."""
        ...

    @cached_property
    def workspace(self) -> Workspace:
        """The directories that agents work in."""
        ...

    @cached_property
    def worktrees(self) -> Worktrees:
        """Worktrees of tasks."""
        ...

    @cached_property
    def accounts(self) -> AccountEnvironments:
        """The homes of accounts."""
        ...

    @cached_property
    def clock(self) -> Clock:
        """The time."""
        ...

    @cached_property
    def ids(self) -> Ids:
        """New ids."""
        ...

    @cached_property
    def host_name(self) -> str:
        """The name of this machine."""
        ...

    @property
    def existing_store(self) -> Store | None:
        """The database, or None where nothing was ever written. Raises StateError."""
        ...

    @property
    def limits(self) -> Limits:
        """The limits of every launch, by the settings."""
        ...

    @property
    def machine(self) -> str:
        """The id of this machine where several share the database, else empty."""
        ...

    @property
    def node(self) -> str:
        """The id of this machine, whether or not others share the database. Raises StateDirectoryUnusable."""
        ...

    def settings_in(self, directory: str, flags: Iterable[tuple[str, object]]) -> Settings:
        """The settings that hold in a directory, its repository's file included, under `flags`: keys with values. Raises SettingsError."""
        ...

    def harness(self, name: str) -> Harness:
        """A harness by name. Raises UnknownHarness."""
        ...

    def harness_options(self, name: str) -> Mapping[str, str]:
        """The settings of a harness. Raises HarnessError, and SettingsError for an option that it does not declare."""
        ...

    def harness_names(self) -> list[str]:
        """The names of all harnesses."""
        ...

    def hidden_harness(self, name: str) -> str:
        """Say that the user's file for a harness of that name is ignored; empty if the user has no such file."""
        ...

    def require_room(self) -> None:
        """Refuse to begin something where the disk is nearly full. Raises StateDirectoryUnusable, OSError."""
        ...
