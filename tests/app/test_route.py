"""Where a task's requests go, as a verb asks it."""

from collections.abc import Mapping

import pytest
from support.records import make_profile

from watchkeeper.app.route import describe, route_of
from watchkeeper.domain.model import TaskSpec
from watchkeeper.domain.profile import requests
from watchkeeper.errors import BadTask
from watchkeeper.harnesses.command import CommandHarness
from watchkeeper.harnesses.demo import Demo
from watchkeeper.ports.harness import Route

SPEC = TaskSpec(prompt="Do it", title="", harness="needy", cwd="/", model=None)


class Needy(Demo):
    """A harness whose requests need two variables."""

    def route(self, spec: TaskSpec, environment: Mapping[str, str], options: Mapping[str, str]) -> Route:
        """Whatever of them is not there."""
        del spec, options
        lacking = tuple(name for name in ("KEY_A", "KEY_B") if name not in environment)
        return Route(host="gw:1", source="a test", needs=lacking)


class Silent:
    """A user's own harness from before there were routes."""

    name = "silent"


def test_a_harness_that_says_nothing_has_no_route() -> None:
    """Ours without a model say so themselves."""
    assert route_of(Silent(), SPEC, {}, {}) == Route()  # pyright: ignore[reportArgumentType] - it is less than a harness
    assert route_of(CommandHarness(), SPEC, {}, {}) == route_of(Demo(), SPEC, {}, {}) == Route()


def test_what_the_caller_has_must_be_passed() -> None:
    """And is named with the option that passes it; what the caller lacks too is not a fault, and the daemon has no caller."""
    with pytest.raises(BadTask, match="gw:1 need the variable KEY_B") as refused:
        _ = route_of(Needy(), SPEC, {"KEY_A": "a"}, {}, {"KEY_A": "a", "KEY_B": "b"})
    assert refused.value.hint == "Pass it on: --env KEY_B"
    with pytest.raises(BadTask, match="the variables KEY_A, KEY_B"):
        _ = route_of(Needy(), SPEC, {}, {}, {"KEY_A": "a", "KEY_B": "b"})
    assert route_of(Needy(), SPEC, {}, {}, {"KEY_A": ""}).needs == ("KEY_A", "KEY_B")
    assert route_of(Needy(), SPEC, {}, {}).host == "gw:1"


@pytest.mark.parametrize(
    ("route", "said", "before"),
    [
        (Route(), "", ""),
        (Route(host="api.anthropic.com", source="the default"), "api.anthropic.com (the default)", ""),
        (
            Route(host="gw:1", source="your environment (X)"),
            "gw:1, by your environment (X)",
            "Requests go to gw:1, by your environment (X).",
        ),
        (Route(source="/c is not valid TOML"), "not known: /c is not valid TOML", ""),
    ],
)
def test_a_route_in_words(route: Route, said: str, before: str) -> None:
    """In full where it is asked for, and before a task only where it is not the vendor's."""
    profile = make_profile(host=route.host, host_source=route.source)
    assert (describe(route), requests(profile)) == (said, before)
