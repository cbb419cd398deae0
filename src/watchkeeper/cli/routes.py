"""Where a task's requests go, asked for the account that it works under."""

from typing import TYPE_CHECKING

from watchkeeper.cli import accounts

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.harness import Route


def of_harness(call: "Call", name: str) -> "Route":
    """The route of a task that this harness would get here, under the account that the settings name.

    Raises:
        BadTask: the program's configuration sends requests elsewhere and cannot be taken over; the hint says what to do.
        NotFound: there is no such account.
    """
    from watchkeeper.app.route import route_of
    from watchkeeper.cli.harnesses import options
    from watchkeeper.domain.model import TaskSpec
    from watchkeeper.environment import capture

    harness, settings = call.reading.harness(name), call.reading.settings
    spec = TaskSpec(prompt="", title="", harness=name, model=settings.run_model, cwd=str(call.settings_from))
    spec, environ, keys = accounts.choose(call, spec, None)
    named = tuple(each for each in settings.environment_names if each in environ)
    environment, _ = accounts.applied(call, spec, capture(environ, (*named, *keys), harness))
    return route_of(harness, spec, environment, options(call, name), call.environ)
