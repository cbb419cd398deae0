"""Whether a machine may leave its database for another one."""

from watchkeeper.errors import Refused


def check_leave(*, daemon_runs: bool, live_runs: int) -> None:
    """Refuse to leave a database that a daemon of this machine works on, or that holds runs of this machine that have not ended. Raises Refused."""
    if daemon_runs:
        raise Refused(
            "A daemon works on the present database.",
            hint="`wk daemon stop` ends it; agents continue. Then `wk store copy --to URL` takes everything along.",
        )
    if live_runs:
        counted = "1 run" if live_runs == 1 else f"{live_runs} runs"
        verb, whose = ("is", "its") if live_runs == 1 else ("are", "their")
        raise Refused(
            f"{counted} of this machine {verb} on record in the present database, and would lose {whose} daemon.",
            hint="`wk store copy --to URL` takes everything along, agents at work included.",
        )
