"""`wk completion`: what a shell needs to complete our commands."""

import click
from click.shell_completion import get_completion_class

from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option
from watchkeeper.errors import UsageError

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=WkCommand, name="completion", short_help="The completion script for a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@debug_option
@click.pass_obj
def command(call: Call, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash:  wk completion bash > ~/.local/share/bash-completion/completions/wk
    zsh:   wk completion zsh > "${fpath[1]}/_wk"
    fish:  wk completion fish > ~/.config/fish/completions/wk.fish
    """
    from watchkeeper.cli.main import wk

    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"There is no completion for {shell}.")
    completion = kind(wk, {}, "wk", "_WK_COMPLETE")
    # Not `source()`: for bash that starts a bash to ask its version.
    call.terminal.say(completion.source_template % completion.source_vars())
