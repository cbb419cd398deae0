"""`wk store repair`: what is said, and what is done."""

from typing import TYPE_CHECKING

from watchkeeper.cli import render
from watchkeeper.cli.call import NOTHING_YET, Call
from watchkeeper.errors import NotFound, UsageError

if TYPE_CHECKING:
    from watchkeeper.ports.store import Damage


def show(call: Call, name: str | None, *, as_json: bool) -> None:
    """List what cannot be read, each with its choices; with a name only that one. Raises NotFound, UsageError."""
    from watchkeeper.app.repair import choose, search

    store = call.store
    if store is None:
        if as_json:
            call.terminal.document({"damage": []})
        else:
            call.terminal.prose(NOTHING_YET)
        return
    found = search(store)
    if name is not None:
        found = [choose(found, name)]
    if as_json:
        call.terminal.document({"damage": [plain(each) for each in found]})
        return
    if not found:
        call.terminal.say("Every record can be read.")
    for each in found:
        _print(call, each)
    if found:
        call.terminal.say("Do one: wk store repair RECORD --do CHOICE")


def plain(damage: "Damage") -> dict[str, object]:
    """A record that cannot be read, as JSON has it."""
    from watchkeeper.domain.repair import choices

    return {
        "record": damage.name,
        "table": damage.place,
        "key": damage.id,
        "task": damage.task_id,
        "reason": damage.reason,
        "since": None if damage.at is None else damage.at.isoformat(),
        "choices": {choice.value: says for choice, says in choices(damage.place).items()},
    }


def line(damage: "Damage") -> str:
    """One line on it."""
    about = f" (task {damage.task_id})" if damage.task_id else ""
    return render.clean(f"{damage.name}{about}: {damage.reason}")


def _print(call: Call, damage: "Damage") -> None:
    from watchkeeper.domain.repair import choices

    call.terminal.prose(line(damage), hang=4)
    for choice, says in choices(damage.place).items():
        call.terminal.prose(f"    {choice.value:<7} {says}", hang=12)


def do(call: Call, name: str | None, what: str, *, as_json: bool) -> None:
    """Do to a record what was chosen. Raises UsageError, NotFound, Refused, DatabaseUnusable and its kinds."""
    from watchkeeper.app.repair import choose, require, search
    from watchkeeper.databases import place, repair
    from watchkeeper.domain.repair import Repair
    from watchkeeper.ports.service import Order

    if name is None:
        raise UsageError("Which record is meant is not said.", hint="`wk store repair` lists those that are torn.")
    if what not in list(Repair):
        raise UsageError(f"'{render.clean(what)[:40]}' is no choice.", hint=f"There are {', '.join(Repair)}.")
    if call.store is None:
        raise NotFound("There is no database yet.", hint=NOTHING_YET)
    parts = call.writing
    damage, chosen = choose(search(parts.store), name), Repair(what)
    require(damage, chosen, parts.descriptions)
    there = place(parts.settings.store_url, parts.state, host=parts.host_name)
    reason = f"Its record {damage.name} could not be read ({damage.reason}); {call.person} ended it."
    repair(parts.store, there, damage, chosen, reason=reason, by=call.person, clock=parts.clock)
    _ = parts.daemon_host.tell(Order.LOOK)
    if as_json:
        call.terminal.document({"record": damage.name, "did": chosen.value, "task": damage.task_id})
    else:
        call.terminal.say(f"Done to {render.clean(damage.name)}: {chosen.value}.")
