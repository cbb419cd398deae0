"""`wk doctor`: whether work can be done here, and what to do if not."""

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import Call
from watchkeeper.cli.checks import Check, Level, checks, code
from watchkeeper.cli.command import WkCommand, debug_option, json_option

_INDENT = 23
_MARKS = {Level.OK: ("ok", render.GREEN), Level.NOTE: ("note", render.CYAN), Level.BAD: ("BAD", render.RED)}


@click.command(cls=WkCommand, name="doctor", short_help="What is missing here, and how to get it.")
@json_option
@debug_option
@click.pass_obj
def command(call: Call, as_json: bool) -> int:
    """Look at everything that work depends on, and say what to do about what is missing.

    \b
    Exit code: 0 work can be done, 6 the state directory or the database cannot
    be used, 7 the daemon cannot.
    """
    found: list[Check] = []
    for check in checks(call):
        found.append(check)
        if not as_json:
            _print(call, check)
    result = code(found)
    if as_json:
        call.terminal.document(
            {
                "ok": result == 0,
                "checks": [
                    {
                        "name": each.name,
                        "level": each.level.value,
                        "detail": each.detail,
                        "hint": each.hint,
                        **each.facts,
                    }
                    for each in found
                ],
            }
        )
    else:
        call.terminal.say("Work can be done." if result == 0 else "Work cannot be done until what is BAD is mended.")
    return result


def _print(call: Call, check: Check) -> None:
    word, colour = _MARKS[check.level]
    mark = call.terminal.style(f"{word:<5}", colour)
    call.terminal.prose(f"{mark} {check.name:<16} {render.clean(check.detail)}", hang=_INDENT)
    if check.hint:
        call.terminal.prose(f"{'':<{_INDENT}}→ {render.clean(check.hint)}", hang=_INDENT + 2)
