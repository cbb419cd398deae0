"""What all commands share: `--debug` anywhere, the same help for the same options, and the call that `main` made."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from watchkeeper.errors import UsageError, WatchkeeperError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchkeeper.cli.call import Call

F = TypeVar("F", bound=Callable[..., object])

HELP_WIDTH = 96
_SHOWN = 40
SETTINGS: dict[str, object] = {"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH}


class WkCommand(click.Command):
    """A command that takes `--debug` itself, too; everything after the first `--` can be kept apart.

    Every command is one: here, and nowhere else, a command that an agent may not give is refused, before its arguments are parsed.
    """

    splits = False
    """What follows the first `--` is another program's command line, kept in `ctx.meta["after"]`."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 - click's own
    ) -> click.Context:
        """Refuse what an agent may not do; its help may be read."""
        call = cast("Call | None", parent.obj) if parent is not None else None
        if (
            extra.get("resilient_parsing") or call is None or not call.inside_agent
        ):  # a line that is only completed, or a person's
            return super().make_context(info_name, args, parent, **extra)
        from watchkeeper.cli import gate

        if not {"-h", "--help"} & set(args):
            gate.check(parent, info_name)
        context = super().make_context(info_name, args, parent, **extra)
        gate.check(parent, info_name)  # what looked like a wish for help was an option's value
        gate.check_options(context)
        return context

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what follows `--` apart, if this command has such."""
        if self.splits and "--" in args:
            at = args.index("--")
            ctx.meta["after"] = tuple(args[at + 1 :])
            args = args[:at]
        typed = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise _taken_for_an_option(ctx, error, typed, splits=self.splits) from error


def _taken_for_an_option(
    ctx: click.Context, error: click.NoSuchOption, typed: "Sequence[str]", *, splits: bool
) -> click.ClickException | WatchkeeperError:
    """The same error, or if it was a text that begins with a dash, with the ways to give one."""
    text = next((word for word in typed if is_dashed_text(word) and word.startswith(error.option_name)), None)
    if text is None:
        return error
    from shlex import quote

    first = text.splitlines()[0]
    shown = f"{first[:_SHOWN]}…" if len(first) > _SHOWN else first
    message = f"'{shown}' begins with a dash, so it was read as an option, and there is no such option."
    if not splits:
        return UsageError(message, hint="Put it and what follows it after `--`.")
    path = ctx.command_path
    return UsageError(
        message, hint=f"Put it after `--` ({path} -- {quote(shown)}), into a file (-f FILE), or pipe it in ({path} -)."
    )


def is_dashed_text(word: str) -> bool:
    """Whether a word is a text that begins with a dash: it has blanks, as no option or program has."""
    return word.startswith("-") and any(letter.isspace() for letter in word)


class SplittingCommand(WkCommand):
    """A command whose arguments end at `--`."""

    splits = True


def debug_option(function: F) -> F:
    """`--debug` after the command's name; before it the group takes it."""
    return click.option("--debug", is_flag=True, hidden=True, expose_value=False, callback=_debug, is_eager=True)(
        function
    )


def _debug(ctx: click.Context, _param: click.Parameter, value: object) -> object:
    if value:
        cast("Call", ctx.obj).debug = True
    return value


def json_option(function: F) -> F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(function)


def after_dashes() -> tuple[str, ...] | None:
    """What followed `--`, or None if there was no `--`."""
    return cast("tuple[str, ...] | None", click.get_current_context().meta.get("after"))
