"""Name the variables of the caller that agents would commonly need and do not get."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchkeeper.cli.call import Call

COLUMNS = 80
_BEGIN = "Not passed to the agent: "
_HOW = "`--env NAME` passes one; `wk config set environment.names NAME` always does."


def say(call: "Call", names: "Iterable[str]", *, as_json: bool) -> None:
    """Name them once for everything that is handed over, on standard error. With `--json` nothing is printed: the document has them."""
    found = tuple(dict.fromkeys(names))
    if found and not as_json:
        call.terminal.note(line(found))
        call.terminal.note(_HOW)


def line(found: Sequence[str], columns: int = COLUMNS) -> str:
    """As many of these names as a line holds, and how many more there are."""
    for count in range(len(found), 0, -1):
        more = f" and {len(found) - count} more" if count < len(found) else ""
        text = f"{_BEGIN}{', '.join(found[:count])}{more}."
        if len(text) <= columns:
            return text
    return f"{_BEGIN}{len(found)} variables that look needed."
