"""Which agent program a task is for, if nobody said: the configured one, else the only one that is installed, else a question."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from watchkeeper.errors import BadTask, HarnessError, SettingsError, UsageError

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call

NEVER_GUESSED = frozenset({"command", "demo"})
"""Harnesses that are used only when they are named: one is no agent, the other asks no model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A harness, and its program or what is wrong."""

    name: str
    path: str = ""
    version: str | None = None
    problem: str = ""
    hint: str = ""

    @property
    def usable(self) -> bool:
        """Whether it can be used."""
        return not self.problem


def survey(call: "Call", names: list[str], environ: Mapping[str, str]) -> list[Found]:
    """Look for the programs of these harnesses."""
    found: list[Found] = []
    for name in names:
        try:
            program = call.reading.harness(name).find(environ, options(call, name))
        except (BadTask, HarnessError, SettingsError) as error:
            found.append(Found(name=name, problem=str(error), hint=error.hint))
        else:
            found.append(Found(name=name, path=program.path, version=program.version))
    return found


def options(call: "Call", name: str) -> Mapping[str, str]:
    """The settings of a harness. Raises SettingsError for an option that it does not declare."""
    return call.reading.harness_options(name)


def choose(call: "Call") -> str:
    """The harness for a task that names none.

    Raises:
        UsageError: it is not clear, and there is nobody to ask.
        SettingsError: an option of the settings is not one of its harness.
    """
    from watchkeeper.cli import changing

    configured = call.reading.settings.run_harness
    if configured:
        return configured
    names = call.reading.harness_names()
    known = survey(call, [name for name in names if name not in NEVER_GUESSED], call.environ)
    installed = [each.name for each in known if each.usable]
    if len(installed) == 1:
        return installed[0]
    changing.check_harnesses(call)  # a misspelt option is why one of them cannot be used
    listed = ", ".join(installed) if installed else "none is installed"
    if call.terminal.stdin_is_terminal and call.terminal.stderr_is_terminal:
        return _ask(call, known)
    raise UsageError(
        f"No harness was named, and it is not clear which one you mean: {listed}.",
        hint=f"Name one with --harness ({', '.join(names)}), or for good: wk config set run.harness NAME. "
        "`wk doctor` says how to get what is missing.",
    )


def _ask(call: "Call", known: list[Found]) -> str:
    call.terminal.note("Which agent shall do it?")
    for each in known:
        call.terminal.note(
            f"  {each.name:<10} {each.version or each.path if each.usable else f'not installed: {each.hint or each.problem}'}"
        )
    call.terminal.note(f"  {'demo':<10} a scripted agent that asks no model and costs nothing")
    choices = [each.name for each in known if each.usable] + ["demo"]
    answer = click.prompt("Harness", type=click.Choice(choices), default=choices[0], err=True)
    return str(answer)
