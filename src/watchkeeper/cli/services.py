"""How the service and the limit of an account are shown."""

from typing import TYPE_CHECKING

from watchkeeper.cli.queue_view import next_probe
from watchkeeper.cli.render import clean, clock, counted
from watchkeeper.domain.lanes import SERVICE_DETAILS
from watchkeeper.domain.service import Phase, overdue, phase, rests_until

if TYPE_CHECKING:
    from datetime import datetime

    from watchkeeper.app.views.accounts import AccountRow
    from watchkeeper.cli.call import Call
    from watchkeeper.domain.account import AccountState


def keeps_waiting(state: "AccountState", now: "datetime") -> bool:
    """Whether tasks of the account wait for its service or its limit."""
    return state.trouble is not None or phase(state, now) in {Phase.RESTING, Phase.PROBING}


def needs_you(call: "Call", state: "AccountState") -> bool:
    """Whether the service has failed for so long that a person should look (`queue.outage_patience`)."""
    return overdue(state, call.reading.clock.now(), call.reading.settings.queue_outage_patience_s)


def cell(state: "AccountState", now: "datetime") -> str:
    """The same in a few words, for a list."""
    if state.trouble is not None and state.trouble_since is not None:
        return f"{state.trouble.value} since {clock(state.trouble_since)}"
    if not keeps_waiting(state, now):
        return "-"
    until = rests_until(state, now)
    return f"limit until {clock(until)}" if until is not None else "limit, being tried"


def line(found: "AccountRow", now: "datetime") -> str:
    """The same in a sentence, and how many tasks wait."""
    account, state = found.account.id, found.state
    waiting = f"; {counted(found.tasks, 'task')}" if found.tasks else ""
    until = rests_until(state, now)
    probe = () if state.probe_run is None else (state.probe_run.rpartition(".")[0],)
    if state.trouble is not None and state.trouble_since is not None:
        how = f"{SERVICE_DETAILS[state.trouble]} since {clock(state.trouble_since)}"
        return f"The service of {account} {how}{next_probe(until, probe)}{waiting}."
    if until is None:
        return f"The limit of {account} should be over{next_probe(None, probe)}{waiting}."
    return f"The limit of {account} is used up until {clock(until)}{waiting}."


def lines(state: "AccountState", now: "datetime") -> list[tuple[str, str]]:
    """All that is known of the service, with a label for each line."""
    told: list[tuple[str, str]] = []
    until = rests_until(state, now)
    probe = () if state.probe_run is None else (state.probe_run.rpartition(".")[0],)
    if state.quota_until is not None and keeps_waiting(state, now):
        ends = f"used up until {clock(state.quota_until)}"
        told.append(("limit", ends if state.quota_until > now else f"{ends}{next_probe(until, probe)}"))
    if state.trouble is not None and state.trouble_since is not None:
        failed = f"; {counted(state.probes, 'probe')} failed" if state.probes else ""
        how = f"{SERVICE_DETAILS[state.trouble]} since {clock(state.trouble_since)}{failed}{next_probe(until, probe)}"
        told.append(("service", how))
        if state.trouble_detail:
            told.append(("", clean(state.trouble_detail)))
    return told
