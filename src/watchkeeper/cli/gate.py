"""Which commands an agent may give. A command that is not listed here is refused inside an agent, also a future one.

Reading is allowed, and what changes nothing but the caller's own terminal. An order needs a grant, and no run has one.
"""

from typing import TYPE_CHECKING, cast

from watchkeeper.errors import InsideAgent, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    import click

    from watchkeeper.cli.call import Call

ALLOWED: "Mapping[str, tuple[str, ...]]" = {
    "account ls": (),
    "account show": (),
    "bundle verify": (),
    "completion": (),
    "config show": (),
    "cost": (),
    "daemon status": (),
    "diff": (),
    "doctor": (),
    "env": (),
    "events": (),
    "explain": (),
    "logs": (),
    "ls": ("seen",),
    "notify ls": (),
    "queue show": (),
    "report": (),
    "show": (),
    "status": (),
    "store check": (),
    "store repair": ("do",),
    "timeline": (),
    "version": (),
    "wait": (),
    "why": (),
    "worktree ls": (),
    "worktree show": (),
}
"""By the command's words: which of its options are orders all the same."""

_BIRTHS = frozenset({"daemon run", "daemon start"})


def check(parent: "click.Context | None", name: str | None) -> None:
    """Refuse a command that is not allowed where it is typed.

    Raises:
        InsideAgent: an agent under Watchkeeper wants a daemon.
        Refused: an agent under Watchkeeper gives another order.
    """
    words = _inside(parent, name)
    if words is None or words in ALLOWED:
        return
    if words in _BIRTHS:
        raise InsideAgent(hint="Ask a person to run `wk daemon start`.")
    raise _refused(f"wk {words}")


def check_options(context: "click.Context") -> None:
    """Refuse an option that changes something, of a command that only reads. Raises Refused."""
    words = _inside(context.parent, context.info_name)
    for option in ALLOWED.get(words or "", ()):
        if context.params.get(option):
            raise _refused(f"wk {words} --{option}")


def _inside(parent: "click.Context | None", name: str | None) -> str | None:
    """The command's words, if an agent under Watchkeeper gives them."""
    call = cast("Call | None", parent.obj) if parent is not None else None
    if call is None or parent is None or not call.inside_agent:
        return None
    return " ".join([*parent.command_path.split()[1:], name or ""]).strip()


def _refused(what: str) -> Refused:
    msg = f"An agent may not use `{what}`: that needs a grant, and this run has none."
    return Refused(msg, hint="Ask the person you work for to do it.")
