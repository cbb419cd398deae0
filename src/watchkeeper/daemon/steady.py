"""Keep something going: whatever it raises is logged once, and it is begun again with a growing wait. Nothing but a newer database ends the daemon."""

from collections.abc import Awaitable, Callable

import anyio

from watchkeeper.daemon.log import Log
from watchkeeper.errors import DatabaseNewer

_FIRST_WAIT_S = 0.25
_LONGEST_WAIT_S = 15.0


async def steadily(
    log: Log, name: str, work: Callable[[], Awaitable[None]], tell: Callable[[str], None] | None = None
) -> None:
    """Do `work` until it ends by itself.

    Args:
        log: where a trouble is said once, and once more when it is over.
        name: what is done, for the log.
        work: begun again after it raised; what it has done already must do no harm twice.
        tell: told of each trouble in words, and with an empty text when it is over. Must not raise.

    Raises:
        DatabaseNewer: every further attempt would fail.
    """
    trouble, failures = "", 0
    while True:
        try:
            await work()
        except DatabaseNewer:
            raise
        except Exception as problem:  # noqa: BLE001 - the top of a task: after any error the daemon continues and tries again
            said = f"{type(problem).__name__}: {problem}"
            if said != trouble:
                log.problem("tick failed", problem, loop=name)
                trouble = said
                if tell is not None:
                    tell(str(problem))
            failures += 1
            await anyio.sleep(min(_LONGEST_WAIT_S, _FIRST_WAIT_S * (1 << min(failures - 1, 10))))
            continue
        if failures:
            log.info("recovered", loop=name, after_failures=failures)
            if tell is not None:
                tell("")
        return
