"""What is kept of a caller's environment for a task: names, never values."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from watchkeeper.domain.model import FINAL_TASK_STATES, Task
from watchkeeper.ports.environment import Environments
from watchkeeper.redaction.variables import SHORTEST, is_secret_name, secret_names


class Kept(StrEnum):
    """Whether a task's environment is kept, on this machine."""

    KEPT = "kept"
    DELETED = "deleted"
    """The task has ended, and it was deleted."""
    MISSING = "missing"
    """It should be here, and is not."""
    ELSEWHERE = "elsewhere"
    """It is kept on another machine, the one that the task was handed over on."""
    DAMAGED = "damaged"


class Hiding(StrEnum):
    """Whether a variable's value is hidden wherever it appears."""

    HIDDEN = "hidden"
    SHOWN = "shown"
    TOO_SHORT = "too short"
    """It has a secret's name, and so few characters that hiding them would hide everything."""


class Variable(NamedTuple):
    """One variable of a kept environment."""

    name: str
    asked: bool
    """It was asked for by name, beyond the allow-list."""
    hiding: Hiding


class TaskEnvironment(NamedTuple):
    """What a task has of an environment."""

    task: Task
    kept: Kept
    variables: tuple[Variable, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """What was asked for and is not there, as long as the task may need it."""
        if self.kept in {Kept.DELETED, Kept.ELSEWHERE}:
            return ()
        there = {variable.name for variable in self.variables}
        return tuple(name for name in self.task.spec.environment_names if name not in there)


def environment_of(environments: Environments, task: Task, here: str, keys: tuple[str, ...] = ()) -> TaskEnvironment:
    """What is kept for a task, as seen from the machine `here`. `keys`: variables that its account asks for."""
    if task.environment_machine not in {"", here} and task.state not in FINAL_TASK_STATES:
        return TaskEnvironment(task, Kept.ELSEWHERE, ())
    try:
        found = environments.get(task.environment_id) if task.environment_id else None
    except OSError:
        return TaskEnvironment(task, Kept.DAMAGED, ())
    if found is None:
        return TaskEnvironment(task, Kept.DELETED if task.state in FINAL_TASK_STATES else Kept.MISSING, ())
    return TaskEnvironment(task, Kept.KEPT, _variables(found, (*task.spec.environment_names, *keys)))


def plain(seen: TaskEnvironment, path: str) -> dict[str, object]:
    """The same as JSON values."""
    return {
        "id": seen.task.id,
        "state": seen.task.state.value,
        "kept": seen.kept.value,
        "machine": seen.task.environment_machine or None,
        "file": path if seen.kept in {Kept.KEPT, Kept.DAMAGED} else None,
        "asked": list(seen.task.spec.environment_names),
        "missing": list(seen.missing),
        "variables": [
            {"name": variable.name, "asked": variable.asked, "value": variable.hiding.value}
            for variable in seen.variables
        ],
    }


def _variables(found: Mapping[str, str], asked: tuple[str, ...]) -> tuple[Variable, ...]:
    hidden = secret_names(found, asked)

    def hiding(name: str) -> Hiding:
        if name in hidden:
            return Hiding.HIDDEN
        short = 0 < len(found[name].strip()) < SHORTEST and not found[name].isdigit()
        return Hiding.TOO_SHORT if is_secret_name(name) and short else Hiding.SHOWN

    return tuple(Variable(name, name in asked, hiding(name)) for name in sorted(found))
