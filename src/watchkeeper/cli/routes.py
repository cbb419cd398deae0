"""Where a task's requests go, asked for the account that it works under."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.harness import Route


def of_harness(call: "Call", name: str) -> "Route":
    """The route of a task that this harness would get here, under the account that the settings name.

    Raises:
        BadTask: the program's configuration sends requests elsewhere and cannot be taken over; the hint says what to do.
        NotFound: there is no such account.
    """
    from watchkeeper.app import account_choice
    from watchkeeper.app.route import route_of
    from watchkeeper.domain.model import TaskSpec
    from watchkeeper.environment import capture

    parts = call.reading
    settings = parts.settings
    spec = TaskSpec(prompt="", title="", harness=name, model=settings.run_model, cwd=str(call.settings_from))
    spec, environ, keys = account_choice.choose(parts, call.environ, spec, None)
    named = tuple(each for each in settings.environment_names if each in environ)
    harness = parts.harness(name)
    environment, _ = account_choice.applied(parts, spec, capture(environ, (*named, *keys), harness))
    return route_of(harness, spec, environment, parts.harness_options(name), call.environ)
