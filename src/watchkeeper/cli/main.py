"""`wk`: the group of all commands. A command's module is imported when the command is asked for, and not before."""

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import cast

import click

from watchkeeper import __version__
from watchkeeper.cli import errors
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import SETTINGS
from watchkeeper.cli.render import Terminal
from watchkeeper.errors import Exit, WatchkeeperError

GROUPS: dict[str, tuple[str, ...]] = {
    "Hand over work": ("run", "add", "edit", "retry", "demo"),
    "Look": (
        "ls",
        "status",
        "show",
        "diff",
        "review",
        "why",
        "logs",
        "wait",
        "events",
        "report",
        "timeline",
        "cost",
        "explain",
        "bundle",
        "env",
    ),
    "Take over": ("apply", "merge", "pr"),
    "Steer": ("send", "thread", "resume", "queue", "cancel", "stop", "kill"),
    "Keep house": ("rename", "pin", "unpin", "rm", "worktree", "undo", "prune", "backup", "restore"),
    "Set up": ("doctor", "account", "config", "notify", "store", "daemon", "completion", "version"),
}
"""Every command, in the order in which help lists them."""

_COMMANDS = frozenset(name for names in GROUPS.values() for name in names)


class Lazy(click.Group):
    """Finds commands by name in `cli/commands/`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of help."""
        del ctx
        return [name for names in GROUPS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        return cast("click.Command", import_module(f"watchkeeper.cli.commands.{cmd_name}").command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with a suggestion where the name is nearly right."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in _COMMANDS:
            from watchkeeper.domain.suggestion import did_you_mean

            ctx.fail(f"There is no command '{name[:60]}'.{did_you_mean(name, _COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One section for each group."""
        for heading, names in GROUPS.items():
            rows: list[tuple[str, str]] = []
            for name in names:
                command = self.get_command(ctx, name)
                if command is not None:
                    rows.append((name, command.get_short_help_str(limit=70)))
            with formatter.section(heading):
                formatter.write_dl(rows)


@click.group(cls=Lazy, context_settings=SETTINGS)
@click.option("--debug", is_flag=True, help="Show where an error happened.")
@click.version_option(__version__, message="watchkeeper %(version)s")
@click.pass_context
def wk(ctx: click.Context, debug: bool) -> None:
    """Run coding agents in the background, and trust what is shown about them.

    A task is handed over once and survives everything: the terminal, the daemon, a crash. Start with `wk demo`; it
    needs no model and no account.
    """
    if debug:
        cast("Call", ctx.obj).debug = True


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Do what the command line says and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no letter for it shows `?`
    terminal = Terminal(environ)
    terminal.conceal = lambda text: _concealed(text, arguments, environ)
    as_json = _wants_json(arguments)
    call = Call(environ, _cwd(), terminal, umask=_usable_umask())
    try:
        code = _call(call, list(arguments), as_json=as_json)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
        return errors.BROKEN_PIPE
    except OSError as error:
        _silence()
        failed = WatchkeeperError(
            f"The output could not be written: {error.strerror or error}.", hint="Make room for it."
        )
        return errors.ours(failed, terminal, as_json=as_json)
    return code


def _usable_umask() -> int:
    """The caller's umask. One that takes rights from the owner himself would keep us from our own files, so it is put aside: it is for agents alone."""
    was = os.umask(0o077)
    if not was & 0o700:
        _ = os.umask(was)
    return was


def _cwd() -> Path | None:
    """The directory we are in, None if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _call(call: Call, arguments: list[str], *, as_json: bool) -> int:
    terminal = call.terminal
    try:
        result = wk.main(arguments, prog_name="wk", obj=call, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        terminal.say(error.format_message())
        return Exit.OK
    except click.ClickException as error:
        return errors.usage(error, terminal, as_json=as_json)
    except (click.Abort, KeyboardInterrupt):
        terminal.clear_status()
        return Exit.INTERRUPTED
    except SystemExit as end:
        if end.code == 1:
            raise BrokenPipeError from end  # so click answers when a reader goes away
        return end.code if isinstance(end.code, int) else Exit.OK
    except errors.Detached as word:
        terminal.note(str(word))
        return Exit.INTERRUPTED
    except WatchkeeperError as error:
        if call.debug:
            errors.trace(error, terminal)
        return errors.ours(error, terminal, as_json=as_json)
    except BrokenPipeError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
            raise  # it is the output that has no room: the state directory's own troubles come as StateError
        return _unknown(call, error, as_json=as_json)
    call.report_damage()
    return int(result) if isinstance(result, int) else Exit.OK


def _concealed(text: str, arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    from watchkeeper.cli.conceal import conceal

    return conceal(text, arguments, environ)


def _unknown(call: Call, error: Exception, *, as_json: bool) -> int:
    if call.debug:
        errors.trace(error, call.terminal)
    return errors.unknown(error, call.terminal, _log(call), as_json=as_json)


def _log(call: Call) -> str:
    """Where the daemon's log is, if that can be told."""
    try:
        path = call.reading.state.daemon_log
    except Exception:  # noqa: BLE001 - we are telling of another error already
        return ""
    return str(path)


def _wants_json(arguments: Sequence[str]) -> bool:
    ours = arguments[: list(arguments).index("--")] if "--" in arguments else arguments
    return "--json" in ours


def _silence() -> None:
    """The reader is gone: let the interpreter's last flush go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
