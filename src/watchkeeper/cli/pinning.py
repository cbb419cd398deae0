"""What `wk pin` and `wk unpin` share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from watchkeeper.cli import errors, render
from watchkeeper.errors import Exit, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call
    from watchkeeper.domain.model import Task


def mark(call: "Call", typed: Sequence[str], *, pinned: bool, as_json: bool) -> int:
    """Pin or unpin each, report each, and return the code of the first that did not work."""
    from watchkeeper.app.mark import pin
    from watchkeeper.app.views import plain

    marked: list[Task] = []
    code = Exit.OK
    for name in dict.fromkeys(typed):
        try:
            _, task_id = call.find(name)
            marked.append(pin(call.writing.store, call.writing.clock, task_id, pinned=pinned, by=call.person))
        except WatchkeeperError as error:
            told = Exit(errors.ours(error, call.terminal, as_json=as_json))
            code = told if code is Exit.OK else code
            continue
        if not as_json:
            words = "is kept on top" if pinned else "is not pinned any more"
            call.terminal.say(f"{marked[-1].id}  {words}: {render.clean(marked[-1].spec.title)}")
    if as_json:
        call.terminal.document([plain.task(task) for task in marked])
    return code
