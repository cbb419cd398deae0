"""`wk account`: with whose sign-in agents work."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from watchkeeper.cli import accounts, daemon, render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import SETTINGS, SplittingCommand, WkCommand, after_dashes, debug_option, json_option
from watchkeeper.cli.types import ACCOUNT, HARNESS
from watchkeeper.domain.account import Account, SignIn
from watchkeeper.errors import Exit

if TYPE_CHECKING:
    from watchkeeper.ports.sign_in import SignInCheck

_KEY = "The variable of yours that holds its key; the value is taken when a task is handed over."
_HOME = "A configuration home of yours. [default: one that Watchkeeper makes for it]"


@click.group(name="account", short_help="With whose sign-in agents work.", context_settings=SETTINGS)
def command() -> None:
    """Add, sign in, look at and remove accounts.

    An account is an agent program's configuration home, with its sign-in. Your own one is always there and called
    HARNESS:own. Tasks of an account that is signed out wait, and continue by themselves after a sign-in.
    """


@command.command(cls=WkCommand, short_help="List accounts.")
@json_option
@debug_option
@click.pass_obj
def ls(call: Call, as_json: bool) -> None:
    """List accounts, and what was last seen of each on this machine.

    It is learnt from what agents come to; `wk account check` asks the program.
    """
    found = accounts.rows(call)
    if as_json:
        call.terminal.document([accounts.plain(call, row) for row in found])
    elif not found:
        call.terminal.say("No agent program that signs in was found. `wk doctor` says how to get one.")
    else:
        now = call.reading.clock.now()
        head = ("ACCOUNT", "SIGNED IN", "SEEN", "SERVICE", "TASKS", "HOME")
        call.terminal.table(head, [accounts.cells(call, row, now) for row in found], at_most=200)


@command.command(cls=WkCommand, short_help="Add an account.")
@click.argument("harness", metavar="HARNESS", type=HARNESS)
@click.argument("name", metavar="NAME")
@click.option("--home", metavar="DIR", type=click.Path(), help=_HOME)
@click.option("--key", metavar="NAME", help=_KEY)
@click.option(
    "--env", metavar="NAME[=FROM]", multiple=True, help="Another variable that its agents get; may be repeated."
)
@json_option
@debug_option
@click.pass_obj
def add(
    call: Call, harness: str, name: str, home: str | None, key: str | None, env: tuple[str, ...], as_json: bool
) -> None:
    """Add an account to a harness.

    \b
    Examples:
      wk account add claude work && wk account login claude:work
      wk account add codex team --home ~/team-codex
      wk account add claude billing --key BILLING_API_KEY
    """
    from watchkeeper.app.manage_accounts import AddAccountRequest
    from watchkeeper.app.manage_accounts import add as add_account

    own = str((call.cwd / Path(home).expanduser()).absolute()) if home else None
    done = add_account(
        call.writing, call.caller, AddAccountRequest(harness=harness, name=name, home=own, key=key, env=env)
    )
    account = done.account
    if as_json:
        call.terminal.document({"id": account.id, "home": done.home, "variables": list(account.variables)})
        return
    call.terminal.say(f"Added {account.id}.")
    if done.had_home:
        call.terminal.note(f"Its home was there already: {done.home}")
    if done.may_sign_in:
        call.terminal.say(call.terminal.style(f"sign in: wk account login {account.id}", render.DIM))
    call.terminal.say(call.terminal.style(f'use it: wk run --account {account.id} "…"', render.DIM))


@command.command(cls=SplittingCommand, short_help="Sign in, with the program's own login.")
@click.argument("account", metavar="ACCOUNT", type=ACCOUNT)
@debug_option
@click.pass_obj
def login(call: Call, account: str) -> int:
    """Run the program's own login in the account's home, here on your terminal.

    What follows `--` goes to the login. Tasks that waited for it continue by themselves. A key can be piped in where the
    program reads one.

    \b
    Examples:
      wk account login claude
      wk account login claude:work -- --console
      printenv WORK_KEY | wk account login codex:work
    """
    from watchkeeper.app.manage_accounts import LoginRequest, log_in

    chosen = accounts.find(call, account)
    request = LoginRequest(account=chosen, arguments=after_dashes() or (), terminal=call.terminal.stdin_is_terminal)
    done = log_in(call.writing, call.caller, request)
    code = done.exit_code
    return _print_check(call, chosen, done.look, f" (its login ended with exit code {code})" if code else "")


@command.command(cls=WkCommand, short_help="Ask the program whether it is signed in, and let tasks try again.")
@click.argument("account", metavar="ACCOUNT", type=ACCOUNT)
@json_option
@debug_option
@click.pass_obj
def check(call: Call, account: str, as_json: bool) -> int:
    """Ask the program whether it is signed in, and record the answer.

    Unless it says no, tasks that wait for the account get another try. Exit code 0 unless it says no, then 4.
    """
    from watchkeeper.app.manage_accounts import check as check_account

    chosen = accounts.find(call, account)
    look = check_account(call.writing, call.caller, chosen)
    if as_json:
        call.terminal.document({"id": chosen.id, "sign_in": look.sign_in.value, "detail": look.detail})
        return Exit.HARNESS if look.sign_in is SignIn.OUT else Exit.OK
    return _print_check(call, chosen, look, "")


@command.command(cls=WkCommand, short_help="One account in full.")
@click.argument("account", metavar="ACCOUNT", type=ACCOUNT)
@json_option
@debug_option
@click.pass_obj
def show(call: Call, account: str, as_json: bool) -> None:
    """Show an account: its home, what was last seen of it, which tasks of it have not ended."""
    chosen = accounts.find(call, account)
    row = accounts.row(call, chosen)
    tasks = accounts.users(call, chosen)
    if as_json:
        call.terminal.document({**accounts.plain(call, row), "task_ids": [task.id for task in tasks]})
        return
    for line in accounts.lines(call, row, tasks):
        call.terminal.prose(line, hang=accounts.LABEL)


@command.command(cls=WkCommand, short_help="Remove an account.")
@click.argument("account", metavar="ACCOUNT", type=ACCOUNT)
@click.option("--delete-home", is_flag=True, help="Delete its managed home too, with the sign-in in it.")
@debug_option
@click.pass_obj
def rm(call: Call, account: str, delete_home: bool) -> None:
    """Remove an account that no task needs any more. Its home stays, unless you want it deleted."""
    from watchkeeper.app.manage_accounts import RemoveAccountRequest, remove

    chosen = accounts.find(call, account)
    home = remove(call.writing, call.caller, RemoveAccountRequest(account=chosen, delete_home=delete_home))
    call.terminal.say(f"Removed {chosen.id}.{f' Its home stays: {home}' if home else ''}")


def _print_check(call: Call, account: Account, look: "SignInCheck", beside: str) -> int:
    waiting = len(accounts.users(call, account))
    match look.sign_in:
        case SignIn.OUT:
            call.terminal.say(f"{account.id} is not signed in{beside}: {render.clean(look.detail)}.")
            return Exit.HARNESS
        case SignIn.IN:
            call.terminal.say(f"{account.id} is signed in{beside}: {render.clean(look.detail)}.")
        case SignIn.UNKNOWN:
            call.terminal.say(
                f"It is not known whether {account.id} is signed in{beside}: {render.clean(look.detail)}."
            )
    if waiting:
        daemon.ensure(call, f"{account.id} was looked at")
    return Exit.OK
