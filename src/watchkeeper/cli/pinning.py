"""What `wk pin` and `wk unpin` share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from watchkeeper.cli.picking import act_on_each

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call


def mark(call: "Call", typed: Sequence[str], *, pinned: bool, as_json: bool) -> int:
    """Pin or unpin each, report each, and return the code of the first that did not work."""
    from watchkeeper.app.mark import pin

    words = "is kept on top" if pinned else "is not pinned any more"
    return act_on_each(
        call,
        typed,
        lambda task_id: pin(call.writing.store, call.writing.clock, task_id, pinned=pinned, by=call.person),
        words,
        as_json=as_json,
    )[1]
