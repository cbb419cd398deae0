"""How accounts are shown to a person."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.cli.render import age, clean, counted
from watchkeeper.domain.account import IMPLICIT, KEY, OWN, Account, SignIn
from watchkeeper.domain.model import Task, TaskSpec

if TYPE_CHECKING:
    from datetime import datetime

    from watchkeeper.app.views.accounts import AccountRow
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.sign_in import SignInCheck

LABEL = 12
_NAMED = 8
_WORDS = {SignIn.IN: "yes", SignIn.OUT: "no", SignIn.UNKNOWN: "not known"}
_OWN_HOMES = {OWN: "your own", KEY: "your own, with a key"}
_WORKS = "works"
"""What is said of an account that works with a key and last did."""


def warn_if_out(call: "Call", task: Task) -> None:
    """Print it if a task waits for a sign-in."""
    parts = call.writing
    state = parts.store.read(lambda tx: tx.accounts.states(parts.state.node())).get(task.spec.account_id)
    if state is not None and state.sign_in is SignIn.OUT:
        account = task.spec.account_id
        call.terminal.note(f"It waits: account {account} is signed out. Sign in: wk account login {account}")


def find(call: "Call", typed: str) -> Account:
    """The account that was typed as `HARNESS:NAME`, or as `HARNESS` for the own one. Raises NotFound, UnknownHarness."""
    from watchkeeper.app import account_choice

    return account_choice.named(call.reading, typed)


def home(call: "Call", account: Account) -> str | None:
    """Where an account's home is; None where the caller's environment or the program itself says."""
    from watchkeeper.ports.sign_in import signs_in

    if signs_in(call.reading.harness(account.harness)) is None:
        return None
    return call.reading.accounts.home(account)


def rows(call: "Call", own: Sequence[str] | None = None) -> "list[AccountRow]":
    """Every account, with the own ones of these harnesses, else of each program that signs in and is on the caller's PATH."""
    from watchkeeper.app.views import accounts as view

    names = _installed(call) if own is None else own
    store = call.store
    if store is None:
        return view.rows(None, "", names)
    machine = call.reading.state.node()
    return store.read(lambda tx: view.rows(tx, machine, names))


def _installed(call: "Call") -> list[str]:
    import shutil

    from watchkeeper.app.harness_choice import NEVER_GUESSED
    from watchkeeper.ports.sign_in import signs_in

    parts = call.reading
    path = call.environ.get("PATH", "")
    return [
        name
        for name in parts.harness_names()
        if name not in NEVER_GUESSED and shutil.which(name, path=path) and signs_in(parts.harness(name)) is not None
    ]


def row(call: "Call", account: Account) -> "AccountRow":
    """One account with what is known of it."""
    return next(each for each in rows(call, [account.harness]) if each.account.id == account.id)


def closed(call: "Call") -> "list[AccountRow]":
    """The accounts whose tasks wait here: for a sign-in, for their service, or until their limit is over."""
    from watchkeeper.cli.services import keeps_waiting

    now, store = call.reading.clock.now(), call.store
    if store is None:
        return []
    machine = call.reading.state.node()
    states = store.read(lambda tx: tx.accounts.states(machine)).values()
    if not any(state.sign_in is SignIn.OUT or keeps_waiting(state, now) for state in states):
        return []
    return [each for each in rows(call, ()) if each.state.sign_in is SignIn.OUT or keeps_waiting(each.state, now)]


def closed_line(found: "AccountRow", now: "datetime") -> str:
    """Why the tasks of an account wait, in a line."""
    from watchkeeper.cli import services

    if found.state.sign_in is not SignIn.OUT:
        return services.line(found, now)
    account = found.account.id
    waiting = f"; {counted(found.tasks, 'task')}" if found.tasks else ""
    return f"{account} is signed out{waiting}. Sign in: wk account login {account}"


def plain(call: "Call", found: "AccountRow") -> dict[str, object]:
    """An account as JSON values."""
    from watchkeeper.app.views import accounts as view
    from watchkeeper.cli.services import needs_you

    return view.plain(found, home(call, found.account), needs_you=needs_you(call, found.state))


def with_home(call: "Call", spec: TaskSpec, command: str) -> str:
    """A program's command line, with its account's home where that is not the user's own."""
    import shlex

    from watchkeeper.ports.sign_in import signs_in

    told = signs_in(call.reading.harness(spec.harness))
    account = next((each.account for each in rows(call, ()) if each.account.id == spec.account_id), None)
    where = call.reading.accounts.home(account) if account is not None else None
    return f"{told.home_variable}={shlex.quote(where)} {command}" if told is not None and where else command


def users(call: "Call", account: Account) -> list[Task]:
    """The tasks of an account that have not ended."""
    from watchkeeper.app import accounts as app

    store = call.store
    return [] if store is None else store.read(lambda tx: app.users(tx, account.id))


def check_sign_in(call: "Call", account: Account) -> "SignInCheck":
    """Ask the program of an account."""
    from watchkeeper.app.manage_accounts import own_environment

    return call.reading.asker.ask(account, own_environment(call.environ, account))


def _word(call: "Call", found: "AccountRow") -> str:
    """Whether an account is signed in, or its key works, as far as is known."""
    from watchkeeper.app.accounts import key_of
    from watchkeeper.errors import HarnessError

    if found.state.sign_in is SignIn.IN:
        with suppress(HarnessError):  # its harness was uninstalled
            return (
                _WORDS[SignIn.IN]
                if key_of(call.reading.harness(found.account.harness), found.account) is None
                else _WORKS
            )
    return _WORDS[found.state.sign_in]


def cells(call: "Call", found: "AccountRow", now: "datetime") -> tuple[str, ...]:
    """A line of the list."""
    from watchkeeper.cli import services

    account, state = found.account, found.state
    where = home(call, account)
    return (
        account.id,
        _word(call, found),
        age(state.sign_in_at, now) if state.sign_in_at else "-",
        services.cell(state, now),
        str(found.tasks),
        where or (_OWN_HOMES[account.name] if account.name in IMPLICIT else f"keys: {', '.join(account.variables)}"),
    )


def lines(call: "Call", found: "AccountRow", tasks: Sequence[Task]) -> list[str]:
    """An account in full, a line for each thing there is to say."""
    from watchkeeper.cli import services

    account, state, now = found.account, found.state, call.reading.clock.now()
    where = home(call, account)
    told: list[tuple[str, str]] = [("account", account.id)]
    gone = "" if where is None or Path(where).is_dir() else ", which is not there"
    told.append(("home", f"{where}{gone}" if where else "your own, as your environment says"))
    if account.variables:
        told.append(("variables", ", ".join(account.variables)))
    seen = f", seen {age(state.sign_in_at, now)} ago" if state.sign_in_at else ""
    told.append(("signed in", f"{_word(call, found)}{seen}{f': {clean(state.detail)}' if state.detail else ''}"))
    told += services.lines(state, now)
    if tasks:
        told.append(("tasks", ", ".join(task.id for task in tasks[:_NAMED]) + (" …" if len(tasks) > _NAMED else "")))
    return [f"{name:<{LABEL}}{value}" for name, value in told]
