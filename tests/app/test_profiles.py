"""Compiling a launch profile: levels of rights, options, and what is refused at hand-over."""

from pathlib import Path
from typing import Any

import pytest
from support.plans import spec_of

from watchkeeper.app.profiles import Wanted, chosen, compile_profile
from watchkeeper.domain.model import TaskSpec
from watchkeeper.domain.profile import LaunchProfile, RightsLevel
from watchkeeper.errors import BadTask
from watchkeeper.harnesses.claude import Claude
from watchkeeper.harnesses.codex import Codex
from watchkeeper.harnesses.command import CommandHarness
from watchkeeper.harnesses.demo import Demo
from watchkeeper.ports.harness import CommandPlan, Harness, LaunchRequest, Program, Rights

PROGRAM = Program(path="/opt/agent", version="1")
CLAUDE, CODEX = Claude(is_root=False), Codex()


def compiled(harness: Any, options: dict[str, str], spec: TaskSpec | None = None, **environment: str) -> LaunchProfile:
    """The profile of a small task."""
    spec = spec or spec_of(Path("/here"), "do it", harness=harness.name)
    return compile_profile(harness, spec, PROGRAM, Wanted(environment=environment, options=options))


@pytest.mark.parametrize("harness", [CLAUDE, CODEX], ids=lambda harness: harness.name)
@pytest.mark.parametrize("level", ["read", "edit", "full"])
def test_a_level_replaces_what_the_settings_say_about_rights(harness: Harness, level: str) -> None:
    """And leaves everything else of them."""
    settings = {
        "claude": {"permission_mode": "plan", "allowed_tools": "Read", "tools": "Read", "max_turns": "5"},
        "codex": {"sandbox": "read-only", "network_access": "true"},
    }[harness.name]
    profile = compiled(harness, chosen(harness, settings, level, {}))
    assert profile.rights is RightsLevel(level)
    plain = compiled(harness, chosen(harness, {}, level, {}))
    assert (profile.permits, profile.sandbox) == (plain.permits, plain.sandbox)
    rest = {"claude": ("max_turns", "5"), "codex": ("network_access", "true")}[harness.name]
    assert rest in profile.options


def test_the_levels_differ_in_what_is_launched() -> None:
    for harness in (CLAUDE, CODEX):
        lines = {compiled(harness, chosen(harness, {}, level, {})).argv for level in ("read", "edit", "full")}
        assert len(lines) == 3


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({}, RightsLevel.EDIT),
        ({"permission_mode": "acceptEdits"}, RightsLevel.EDIT),
        ({"permission_mode": "plan"}, RightsLevel.CUSTOM),
        ({"allowed_tools": "Bash"}, RightsLevel.CUSTOM),
        ({"permission_mode": "bypassPermissions"}, RightsLevel.FULL),
        ({"max_turns": "3"}, RightsLevel.EDIT),
    ],
)
def test_options_come_to_a_level(options: dict[str, str], level: RightsLevel) -> None:
    assert compiled(CLAUDE, options).rights is level


@pytest.mark.parametrize("harness", [CommandHarness(), Demo()], ids=lambda harness: harness.name)
@pytest.mark.parametrize("level", ["read", "edit"])
def test_what_cannot_be_held_to_a_level_says_so(harness: Harness, level: str) -> None:
    with pytest.raises(BadTask, match=f"cannot be held to the rights '{level}'") as refused:
        _ = chosen(harness, {}, level, {})
    assert "--rights full" in refused.value.hint
    assert chosen(harness, {}, "full", {}) == {}


def test_a_level_and_an_option_about_the_same_thing_are_refused() -> None:
    with pytest.raises(BadTask, match="--rights and --option sandbox"):
        _ = chosen(CODEX, {}, "read", {"sandbox": "danger-full-access"})


def test_an_unknown_option_is_refused_by_name() -> None:
    for harness in (CLAUDE, CODEX, CommandHarness(), Demo()):
        with pytest.raises(BadTask, match="has no option 'max_turn'") as refused:
            _ = chosen(harness, {}, None, {"max_turn": "3"})
        assert refused.value.hint.startswith("It has: ")


@pytest.mark.parametrize("harness", [CLAUDE, CODEX], ids=lambda harness: harness.name)
def test_read_is_not_promised_where_the_users_own_hooks_count(harness: Harness) -> None:
    options = chosen(harness, {"isolation": "user"}, "read", {})
    with pytest.raises(BadTask, match="cannot be promised"):
        _ = compiled(harness, options)


def test_as_root_claude_is_not_given_the_mode_that_it_refuses() -> None:
    """Unless the caller says that this is a sandbox, as the program itself asks."""
    options = chosen(CLAUDE, {}, "full", {})
    with pytest.raises(BadTask, match="refuses to run as root"):
        _ = compiled(Claude(is_root=True), options)
    assert compiled(Claude(is_root=True), options, IS_SANDBOX="1").rights is RightsLevel.FULL


class Leaky:
    """A harness of a user's, which puts a token where it would be stored."""

    name = "leaky"

    def __init__(self, argv: tuple[str, ...] = (), **environment: str) -> None:
        self.argv, self.environment = argv, environment

    def plan(self, request: LaunchRequest) -> CommandPlan:
        return CommandPlan(
            argv=("leaky", *self.argv), environment={**request.environment, **self.environment}, prompt_by="stdin"
        )

    def rights(self, spec: TaskSpec, options: object) -> Rights:
        del spec, options
        return Rights(detail="may do much", network="yours", sandbox="none")


SECRET = "q7Zk2mP9vX4tR8wB1nL6"


@pytest.mark.parametrize(
    ("harness", "options", "where"),
    [
        (Leaky(), {"api_token": SECRET}, "The option api_token"),
        (Leaky(), {"extra": f"x {SECRET}"}, "The option extra"),
        (Leaky(MY_TOKEN=SECRET + "x"), {}, "The variable MY_TOKEN"),
        (Leaky((f"--with={SECRET}",)), {}, "The command line"),
    ],
)
def test_a_secret_is_not_stored_with_a_profile(harness: Any, options: dict[str, str], where: str) -> None:
    """The sentence says where it is, and never the value."""
    with pytest.raises(BadTask, match=where) as refused:
        _ = compiled(harness, options, DEPLOY_TOKEN=SECRET)
    assert SECRET not in f"{refused.value}{refused.value.hint}"


def test_a_plug_in_that_declares_nothing_has_a_profile_all_the_same() -> None:
    profile = compiled(Leaky(), {"any": "1"})
    assert (profile.rights, profile.isolation) == (RightsLevel.CUSTOM, "user")
    assert profile.brief == ("sandbox: none", "network: yours", "may do much")
