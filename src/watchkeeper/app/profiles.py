"""Compile the launch profile of a task: from its spec, the options of its harness and the environment that its agent will have.

This is the only place where a command line is made. A launch takes it from the stored profile, so that what a person was shown is what runs.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from watchkeeper.app.route import route_of
from watchkeeper.app.secrets import refuse_profile
from watchkeeper.domain.inheritance import Inheritance
from watchkeeper.domain.model import TaskSpec
from watchkeeper.domain.plain_text import clean
from watchkeeper.domain.profile import CHOICES, LaunchProfile, RightsLevel, environment_changes
from watchkeeper.errors import BadTask, ProgramMissing, UsageError
from watchkeeper.ports.harness import FindsForTask, Harness, LaunchRequest, Program, declared, find_program


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Settings beside those of the harness that a launch is made with."""

    grace_s: float = 10.0
    """Seconds between TERM and KILL."""
    log_limit_bytes: int = 64 * 1024 * 1024
    inherits: Inheritance | None = None
    """Umask, niceness and limits of the caller; None: not captured, as for tasks of older versions."""

    @classmethod
    def from_profile(cls, profile: LaunchProfile) -> Self:
        """Those that were allowed."""
        return cls(grace_s=profile.grace_s, log_limit_bytes=profile.log_limit_bytes, inherits=profile.inherits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a profile is compiled from, beside the spec."""

    environment: Mapping[str, str]
    """The agent's environment as it was captured, with its account applied."""
    options: Mapping[str, str]
    """Options of the harness, as `chosen` gives them."""
    limits: Limits = field(default_factory=Limits)
    machine: str = ""
    """The id of this machine, where several share the database."""
    home: str = ""
    """The configuration home of the account; empty for the user's own."""
    caller: Mapping[str, str] | None = None
    """The whole environment of the person who hands the task over; None: nothing more of it can be passed on."""


def chosen(
    harness: Harness, configured: Mapping[str, str], level: str | None, given: Mapping[str, str]
) -> dict[str, str]:
    """The options of a harness: those that are configured, with a level of rights over them, and over both the options given for this task.

    Raises:
        BadTask: the harness does not have that level or option, or the level and an option speak of the same thing.
    """
    known = declared(harness).options
    strange = sorted(set(given) - set(known)) if known is not None else []
    if known is not None and strange:
        msg = f"The harness {harness.name} has no option '{strange[0]}'."
        raise BadTask(msg, hint=f"It has: {', '.join(sorted(known))}.")
    options, levels = dict(configured), declared(harness).levels
    if level is not None:
        wanted = RightsLevel(level)
        both = sorted(set(given) & set(levels.decided_by))
        if both:
            msg = f"--rights and --option {both[0]} speak of the same thing."
            raise BadTask(msg, hint="Leave one of them out.")
        if wanted not in levels.options:
            raise _no_level(harness, wanted)
        options = levels.choose(wanted, options)
    return {**options, **given}


def _no_level(harness: Harness, wanted: RightsLevel) -> BadTask:
    had = [each.value for each in CHOICES if each in declared(harness).levels.options]
    msg = f"The harness {harness.name} cannot be held to the rights '{wanted}'."
    hint = f"It has: {', '.join(had)}." if had else "It declares no rights to choose from; leave --rights out."
    if had == [RightsLevel.FULL.value]:
        hint = "What it starts may do what you may: leave --rights out, or say --rights full."
    return BadTask(msg, hint=hint)


def compile_profile(harness: Harness, spec: TaskSpec, program: Program, wanted: Wanted) -> LaunchProfile:
    """Compile the profile of a task that was checked.

    Raises:
        BadTask: an option is unknown or wrong, cannot be expressed for this program, or the profile would hold a secret.
    """
    options = wanted.options
    isolation = _isolation(harness, spec, options)
    route = route_of(harness, spec, wanted.environment, options, wanted.caller)
    plan = harness.plan(
        LaunchRequest(
            spec=spec, program=program, environment=wanted.environment, directory=spec.cwd, options=options, route=route
        )
    )
    rights, level = harness.rights(spec, options), declared(harness).levels.level_of(options)
    if level is RightsLevel.READ and isolation == "user":
        raise BadTask(
            "With the isolation 'user' your own hooks and permission rules count, so the rights 'read' cannot be promised.",
            hint="Choose --isolation project, or --rights edit.",
        )
    profile = LaunchProfile(
        harness=harness.name,
        program=program.path,
        version=program.version,
        machine=wanted.machine,
        account=spec.account_id,
        home=wanted.home,
        model=spec.model,
        rights=level,
        options=tuple(sorted(options.items())),
        isolation=isolation,
        permits=rights.detail,
        reads=rights.reads,
        network=rights.network,
        sandbox=rights.sandbox,
        brief=rights.brief or (f"sandbox: {rights.sandbox}", f"network: {rights.network}", rights.detail),
        host=route.host,
        host_source=route.source,
        argv=plan.argv,
        prompt_by=plan.prompt_by,
        prompt_prefix=_prefix(harness, spec.prompt, plan.prompt),
        environment=environment_changes(wanted.environment, plan.environment),
        grace_s=wanted.limits.grace_s,
        log_limit_bytes=wanted.limits.log_limit_bytes,
        inherits=wanted.limits.inherits,
    )
    refuse_profile(profile, wanted.environment)
    return profile


def _prefix(harness: Harness, prompt: str, delivered: str | None) -> str:
    """What the harness puts before the task's text. Raises BadTask where it does anything else to it: the task's text is what a person approved."""
    if delivered is None:
        return ""
    if not delivered.endswith(prompt):
        msg = f"The harness {harness.name} changes the task's text, and it may only put something before it."
        raise BadTask(msg, hint="Use another harness, or have its package corrected.")
    return delivered[: len(delivered) - len(prompt)]


def check_isolation(harness: Harness, asked: str | None) -> None:
    """Refuse an isolation that a person asked for and that the harness does not have. Raises UsageError."""
    known = declared(harness).isolations
    if asked is not None and known and asked not in known:
        detail, hint = _no_isolation(harness, asked)
        raise UsageError(detail, hint=hint)


def _isolation(harness: Harness, spec: TaskSpec, options: Mapping[str, str]) -> str:
    known = declared(harness)
    chosen = known.isolation(spec.isolation, options)
    if known.isolations and chosen not in known.isolations:
        detail, hint = _no_isolation(harness, chosen)
        raise BadTask(detail, hint=hint)
    return chosen


def _no_isolation(harness: Harness, asked: str) -> tuple[str, str]:
    """What is wrong, and what to do next."""
    what = f"The harness {harness.name} has no isolation '{clean(asked)[:40]}'."
    return what, f"It has: {', '.join(declared(harness).isolations)}."


def located(
    harness: Harness,
    spec: TaskSpec,
    stored: LaunchProfile | None,
    environment: Mapping[str, str],
    options: Mapping[str, str],
) -> Program:
    """The program of a task that is edited or tried again: the one that was allowed, whatever the PATH says now.

    Raises:
        ProgramMissing: it is not there any more.
    """
    if stored is None or not stored.program:
        return find_program(harness, spec, environment, options)
    return at_its_place(harness, spec, stored.program, environment, options)


def at_its_place(
    harness: Harness, spec: TaskSpec, path: str, environment: Mapping[str, str], options: Mapping[str, str]
) -> Program:
    """The program at the path that was allowed, with its version as far as its harness can ask that very file.

    A harness need not have the option `program`: then what it finds may be another one, of which nothing is taken.

    Raises:
        ProgramMissing: it is not there any more.
    """
    try:
        found = find_program(harness, spec, environment, {**options, "program": path})
    except BadTask:
        found = _without_the_option(harness, spec, environment, options)
    except ProgramMissing:
        if not _ignores_the_option(harness):
            raise
        found = None
    if found is not None and found.path == path:
        return found
    if not (Path(path).is_file() and os.access(path, os.X_OK)):
        raise ProgramMissing(
            f"The program {path}, which was allowed, is no executable file any more.",
            hint="Put it back; or `wk retry` takes the one that is found then.",
        )
    return Program(path=path, version=None)


def _ignores_the_option(harness: Harness) -> bool:
    known = declared(harness).options
    return isinstance(harness, FindsForTask) or (known is not None and "program" not in known)


def _without_the_option(
    harness: Harness, spec: TaskSpec, environment: Mapping[str, str], options: Mapping[str, str]
) -> Program | None:
    try:
        return find_program(harness, spec, environment, {k: v for k, v in options.items() if k != "program"})
    except (BadTask, ProgramMissing):
        # The harness may not declare one of the options any more. What was approved is launched all the same.
        return None
