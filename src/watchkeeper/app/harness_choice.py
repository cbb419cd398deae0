"""Which agent program a task is for if it names none: the configured one, else the only one that is installed, else a question."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from watchkeeper.app.parts import Parts
from watchkeeper.errors import BadTask, HarnessError, SettingsError, UsageError

NEVER_GUESSED = frozenset({"command", "demo"})
"""Harnesses that are used only when they are named: one is not an agent, the other asks no model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessCandidate:
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


Ask = Callable[[Sequence[HarnessCandidate]], str]
"""Asks a person which of these harnesses a task is for; returns the name."""


def survey(parts: Parts, names: Sequence[str], environ: Mapping[str, str]) -> list[HarnessCandidate]:
    """Look for the programs of these harnesses."""
    found: list[HarnessCandidate] = []
    for name in names:
        try:
            program = parts.harness(name).find(environ, parts.harness_options(name))
        except (BadTask, HarnessError, SettingsError) as error:
            found.append(HarnessCandidate(name=name, problem=str(error), hint=error.hint))
        else:
            found.append(HarnessCandidate(name=name, path=program.path, version=program.version))
    return found


def choose(parts: Parts, environ: Mapping[str, str], ask: Ask | None) -> str:
    """The harness for a task where neither the task nor the settings name one. `ask`: asks the person; None: that is not possible.

    Raises:
        UsageError: it is not clear, and the person cannot be asked.
        SettingsError: an option of the settings is not one of its harness.
    """
    names = parts.harness_names()
    known = survey(parts, [name for name in names if name not in NEVER_GUESSED], environ)
    installed = [each.name for each in known if each.usable]
    if len(installed) == 1:
        return installed[0]
    check_options(parts)  # a misspelt option is why one of them cannot be used
    if ask is not None:
        return ask(known)
    listed = ", ".join(installed) if installed else "none is installed"
    raise UsageError(
        f"No harness was named, and it is not clear which one you mean: {listed}.",
        hint=f"Name one with --harness ({', '.join(names)}), or for good: wk config set run.harness NAME. "
        "`wk doctor` says how to get what is missing.",
    )


def check_options(parts: Parts) -> None:
    """Refuse options in the settings that their harnesses do not declare. Raises SettingsError."""
    for name in sorted({each.key.split(".")[1] for each in parts.settings.values if each.key.startswith("harness.")}):
        with suppress(HarnessError):  # one that is not installed, or cannot be loaded, declares nothing
            _ = parts.harness_options(name)
