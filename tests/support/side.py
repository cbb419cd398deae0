"""The runner of side commands for tests that compose the daemon's verbs by hand."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from watchkeeper.app.environments import TaskEnvironments
from watchkeeper.app.side_commands import SideCommands
from watchkeeper.harnesses.registry import Registry
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.runtime import Runtime
from watchkeeper.ports.store import Store
from watchkeeper.runtimes.system import RandomIds

if TYPE_CHECKING:
    from watchkeeper.ports.environment import Environments


class NoEnvironments:
    """Environments of which none was kept."""

    def get(self, environment_id: str) -> Mapping[str, str] | None:
        """None is there."""
        del environment_id


def side_commands(store: Store, clock: Clock, runtime: Runtime) -> SideCommands:
    """Runs the command lines around runs."""
    environments = TaskEnvironments(
        environments=cast("Environments", NoEnvironments()), machine="", harness=Registry().get, environ={}
    )
    return SideCommands(store=store, clock=clock, ids=RandomIds(), runtime=runtime, environments=environments)
