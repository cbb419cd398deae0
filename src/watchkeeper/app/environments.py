"""The environment of a task's agent: what its caller's was, where that is kept here; else what this machine has of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from errno import EBADMSG

from watchkeeper.app.accounts import with_keys
from watchkeeper.domain.account import Account
from watchkeeper.domain.model import Task
from watchkeeper.environment import capture
from watchkeeper.errors import BadTask, HarnessError
from watchkeeper.ports.environment import Environments
from watchkeeper.ports.harness import Harness


class EnvironmentUnknown(Exception):  # noqa: N818 - the word for it
    """It cannot be said under which environment the agent would work; the message says why, empty where the kept one is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnvironments:
    """Finds the environments of tasks on this machine."""

    environments: Environments
    machine: str
    harness: Callable[[str], Harness]
    """A harness by name; raises HarnessError."""
    environ: Mapping[str, str]
    """The daemon's own environment: what a task gets that was handed over on another machine."""

    def is_from_elsewhere(self, task: Task) -> bool:
        """Whether it was handed over, or asked for again, on another machine."""
        return task.environment_machine not in {"", self.machine}

    def for_task(self, task: Task, account: Account | None) -> Mapping[str, str]:
        """The environment to launch under.

        Raises:
            EnvironmentUnknown: what was kept is gone, or this machine lacks a variable that was asked for.
            OSError: it cannot be read at the moment.
        """
        if self.is_from_elsewhere(task):
            return self._own(task, account)
        try:
            kept = self.environments.get(task.environment_id)
        except OSError as problem:
            if problem.errno != EBADMSG:
                raise
            kept = None
        if kept is None:
            raise EnvironmentUnknown
        return kept

    def for_remover(self, task: Task) -> Mapping[str, str]:
        """The environment of what clears up after a task: that of the command that removes it, because the kept one goes when the task ends.

        Raises:
            EnvironmentUnknown: there is no such harness any more.
        """
        names = [name for name in task.spec.environment_names if name in self.environ]
        try:
            return capture(self.environ, names, self.harness(task.spec.harness))
        except HarnessError as lacking:
            raise EnvironmentUnknown(str(lacking)) from lacking

    def _own(self, task: Task, account: Account | None) -> Mapping[str, str]:
        spec = task.spec
        try:
            environ, keys = with_keys(account, self.environ) if account is not None else (self.environ, ())
            return capture(environ, (*spec.environment_names, *keys), self.harness(spec.harness))
        except (BadTask, HarnessError) as lacking:
            raise EnvironmentUnknown(f"It was handed over on another machine, and here: {lacking}") from lacking
