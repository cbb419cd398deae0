"""`wk store repair`: what is said, and what is done."""

import shlex
from typing import TYPE_CHECKING

from watchkeeper.cli import render
from watchkeeper.cli.call import NOTHING_YET, Call
from watchkeeper.errors import NotFound, UsageError

if TYPE_CHECKING:
    from watchkeeper.domain.repair import Repair
    from watchkeeper.ports.damage import Damage

_DONE = {
    "drop": "deleted",
    "mend": "made anew",
    "fail": "its task was ended as failed",
    "forget": "its task was forgotten",
}
"""What was done, by the choice."""


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
        first = next((each for each in found if _choices(each)), found[0])
        choice = next(iter(_choices(first)), "CHOICE")
        call.terminal.say(f"Do one, say: wk store repair {shlex.quote(first.name)} --do {choice}")


def plain(damage: "Damage") -> dict[str, object]:
    """A record that cannot be read, as JSON has it."""
    return {
        "record": damage.name,
        "table": damage.place,
        "key": damage.id,
        "task": damage.task_id,
        "reason": damage.reason,
        "since": None if damage.at is None else damage.at.isoformat(),
        "choices": {choice.value: detail for choice, detail in _choices(damage).items()},
    }


def line(damage: "Damage") -> str:
    """One line on it."""
    about = f" (task {damage.task_id})" if damage.task_id and damage.task_id != damage.id else ""
    return render.clean(f"{damage.name}{about}: {damage.reason}")


def _choices(damage: "Damage") -> "dict[Repair, str]":
    from watchkeeper.domain.repair import choices

    return choices(damage.place, of_task=damage.task_id is not None)


def _print(call: Call, damage: "Damage") -> None:
    call.terminal.prose(line(damage), hang=4)
    for choice, detail in _choices(damage).items():
        call.terminal.prose(f"    {choice.value:<7} {detail}", hang=12)


def do(call: Call, name: str | None, what: str, *, as_json: bool) -> None:
    """Do to a record what was chosen. Raises UsageError, NotFound, Refused, DatabaseUnusable and its kinds."""
    from watchkeeper.app.repair import RepairRequest, repair
    from watchkeeper.domain.repair import Repair
    from watchkeeper.ports.service import DaemonRequest

    if name is None:
        raise UsageError("Which record is meant is not said.", hint="`wk store repair` lists those that are torn.")
    if what not in list(Repair):
        raise UsageError(f"'{render.clean(what)[:40]}' is no choice.", hint=f"There are {', '.join(Repair)}.")
    if call.store is None:
        raise NotFound("There is no database yet.", hint=NOTHING_YET)
    parts, chosen = call.writing, Repair(what)
    damage = repair(parts, call.caller, RepairRequest(record=name, what=chosen))
    _ = parts.daemon_host.send(DaemonRequest.LOOK)
    if as_json:
        call.terminal.document({"record": damage.name, "did": chosen.value, "task": damage.task_id})
    else:
        call.terminal.say(f"{render.clean(damage.name)}: {_DONE[chosen.value]}.")
