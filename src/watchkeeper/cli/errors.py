"""From an error to one sentence, what to do next, and an exit code.

The cause of a command's end is printed once: as text, or with `--json` as one JSON object on standard error, without what looks like a secret. `--debug` adds a
traceback.
"""

from typing import TYPE_CHECKING

from watchkeeper.cli.render import RED, Terminal, clean
from watchkeeper.errors import AmbiguousId, Exit, WatchkeeperError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import click

_HANG = 4
"""Columns by which the hint, and what follows of a long sentence, stand in."""

BROKEN_PIPE = 141
"""As for every program whose reader went away: 128 + SIGPIPE."""


class Detached(Exception):  # noqa: N818 - a wish of the person, not a failure
    """Ctrl-C during a look: nothing was stopped. Its message says how to stop."""


def usage(error: "click.ClickException", terminal: Terminal, *, as_json: bool) -> int:
    """Tell that the command line is off."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "wk"
    _print_error(
        terminal, "UsageError", error.format_message(), f"`{path} --help` says how.", Exit.USAGE, as_json=as_json
    )
    return Exit.USAGE


def ours(error: WatchkeeperError, terminal: Terminal, *, as_json: bool) -> int:
    """Tell one of our own errors."""
    more: dict[str, object] = {}
    if isinstance(error, AmbiguousId):
        more = {"candidates": error.candidates, "more_candidates": error.more}
    _print_error(terminal, type(error).__name__, str(error), error.hint, error.exit_code, as_json=as_json, more=more)
    return error.exit_code


def unknown(error: BaseException, terminal: Terminal, log: str, *, as_json: bool) -> int:
    """Report a bug."""
    where = f" The daemon's log is {log}." if log else ""
    message = f"Something went wrong inside wk: {type(error).__name__}: {error}."
    hint = f"Your tasks are not affected. `wk --debug …` shows where it happened.{where}"
    _print_error(terminal, type(error).__name__, message, hint, Exit.INTERNAL, as_json=as_json)
    return Exit.INTERNAL


def trace(error: BaseException, terminal: Terminal) -> None:
    """Show where it happened."""
    import traceback

    terminal.note(terminal.conceal("".join(traceback.format_exception(error)).rstrip()))


def _print_error(
    terminal: Terminal,
    kind: str,
    message: str,
    hint: str,
    code: int,
    *,
    as_json: bool,
    more: "Mapping[str, object] | None" = None,
) -> None:
    message, hint = terminal.conceal(message), terminal.conceal(hint)
    if as_json:
        said: dict[str, object] = {"error": kind, "message": message, "hint": hint, "exit_code": int(code)}
        terminal.error(said | dict(more or {}))
        return
    sentence = clean(message)
    if not sentence.endswith((".", "!", "?", "…")):
        sentence += "."
    prefix = f"\x1b[{RED}mwk:\x1b[0m" if terminal.stderr_is_terminal and terminal.style("x", RED) != "x" else "wk:"
    terminal.note(f"{prefix} {sentence}", hang=_HANG)
    if hint:
        terminal.note(f"{' ' * _HANG}{clean(hint)}")
