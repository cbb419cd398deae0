"""Where a task's requests go: asked of its harness, and refused where a variable that the way needs was left behind."""

from collections.abc import Mapping

from watchkeeper.domain.model import TaskSpec
from watchkeeper.errors import BadTask
from watchkeeper.ports.harness import Harness, Route, routes


def route_of(
    harness: Harness,
    spec: TaskSpec,
    environment: Mapping[str, str],
    options: Mapping[str, str],
    caller: Mapping[str, str] | None = None,
) -> Route:
    """The route of a task; an empty one for a harness that says nothing of it.

    Args:
        harness: that of the task.
        spec: the task.
        environment: the captured environment of the agent, after its account was applied.
        options: settings of the harness.
        caller: the whole environment of the person who hands the task over; None where there is none, as in the daemon.

    Raises:
        BadTask: the user's configuration of the program cannot be read or taken over, or names a variable that the caller has and the agent does not get.
    """
    known = routes(harness)
    if known is None:
        return Route()
    route = known.route(spec, environment, options)
    lacking = [name for name in route.needs if caller is not None and caller.get(name)]
    if lacking:
        what = "the variable" if len(lacking) == 1 else "the variables"
        raise BadTask(
            f"Requests to {route.host or 'the model'} need {what} {', '.join(lacking)}, which would not be passed to the agent.",
            hint=f"Pass it on: {' '.join(f'--env {name}' for name in lacking)}",
        )
    return route


def describe(route: Route) -> str:
    """Where requests go, for people: `127.0.0.1:8080, by your Codex configuration (…)`. Empty where nothing is known."""
    if not route.host:
        return f"not known: {route.source}" if route.source else ""
    return f"{route.host} ({route.source})" if route.source == "the default" else f"{route.host}, by {route.source}"
