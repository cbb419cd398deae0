"""Which account a task works under, and what the person is told of it."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.cli.render import age, clean, counted
from watchkeeper.domain.account import IMPLICIT, KEY, OWN, Account, SignIn
from watchkeeper.domain.model import Task, TaskSpec
from watchkeeper.errors import BadTask, NoDatabase, StateDirectoryUnusable, UsageError, system_says

if TYPE_CHECKING:
    from datetime import datetime

    from watchkeeper.app.views.accounts import AccountRow
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.harness import Harness
    from watchkeeper.ports.sign_in import Look

LABEL = 12
_NAMED = 8
_WORDS = {SignIn.IN: "yes", SignIn.OUT: "no", SignIn.UNKNOWN: "not known"}
_OWN_HOMES = {OWN: "your own", KEY: "your own, with a key"}
_WORKS = "works"
"""What is said of an account that works with a key and last did."""


def split(typed: str | None, harness: str | None) -> tuple[str | None, str | None]:
    """The harness and the account's name, of an account typed as `NAME` or `HARNESS:NAME` and a harness that was named or not.

    Raises:
        UsageError: they do not fit together.
    """
    if typed is None or ":" not in typed:
        return harness, typed
    named, _, name = typed.partition(":")
    if harness not in {None, named}:
        raise UsageError(
            f"The account {clean(typed)[:80]} is not one of the harness {harness}.", hint="Name one of them only."
        )
    return named, name


def choose(call: "Call", spec: TaskSpec, typed: str | None) -> tuple[TaskSpec, Mapping[str, str], tuple[str, ...]]:
    """The task under the account that was typed, else the configured one, else the user's own, with a key if the agent gets one.

    Returns the caller's environment with it, and which of that the account adds.

    Raises:
        NotFound: there is no such account.
        BadTask: a variable that the account names is not set.
    """
    _, name = split(typed or call.reading.settings.harness_account(spec.harness), spec.harness)
    chosen = replace(spec, account=name or (KEY if _keys(call, spec) else OWN))
    environ, names = environment(call, chosen)
    return chosen, environ, names


def environment(call: "Call", spec: TaskSpec) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The caller's environment with the keys of a task's account, and the names under which it has them. Raises as `choose`."""
    if spec.account == OWN:
        return call.environ, ()
    if spec.account == KEY:
        keys = _keys(call, spec)
        if not keys:
            raise BadTask(
                f"Account {spec.account_id} works with a key of your environment, and none is set.",
                hint=f"Set one first, or use your sign-in: --account {spec.harness}:{OWN}",
            )
        return call.environ, keys
    from watchkeeper.app.accounts import with_keys

    return with_keys(_account(call, spec.account_id), call.environ)


def applied(call: "Call", spec: TaskSpec, captured: Mapping[str, str]) -> tuple[Mapping[str, str], str]:
    """The captured environment with the account of a task applied, and the account's home; empty for the user's own.

    A home that is gone changes nothing here: the task waits for it, as for a sign-in.
    """
    from watchkeeper.app.accounts import HomeGone

    parts, account = call.reading, _account(call, spec.account_id)
    where = parts.accounts.home(account) or ""
    try:
        return parts.accounts.apply(parts.harness(spec.harness), account, captured, spec.environment_names), where
    except HomeGone:
        return captured, where


def require_no_keys(call: "Call", task: Task, spec: TaskSpec) -> None:
    """Refuse another account for a task whose environment is kept already, if one of the two has variables of its own.

    Raises:
        BadTask: what was kept lacks those of the new one, or holds those of the old one, which no other account may work with.
    """
    _, keys = environment(call, spec)
    hint = f"wk cancel {task.id}, and hand it over again under that account."
    if keys:
        named = ", ".join(keys)
        raise BadTask(
            f"Account {spec.account_id} takes {named} from the environment, which was kept without it.", hint=hint
        )
    from watchkeeper.app.accounts import of_task

    was = call.writing.store.read(lambda tx: of_task(tx, task))
    if was is not None and (was.variables or was.name == KEY):
        what = "a key of your environment" if was.name == KEY else ", ".join(was.names)
        raise BadTask(f"The environment was kept with {what} of account {was.id}.", hint=hint)


def _keys(call: "Call", spec: TaskSpec) -> tuple[str, ...]:
    """The keys in the caller's environment that the agent would get."""
    from watchkeeper.environment import allowed
    from watchkeeper.ports.sign_in import signs_in

    told = signs_in(harness := call.reading.harness(spec.harness))
    given = {name for name in call.environ if allowed(name, harness)} | set(spec.environment_names)
    return tuple(name for name in (told.key_variables if told else ()) if name in given and call.environ.get(name))


def warn_if_out(call: "Call", task: Task) -> None:
    """Say so if a task waits because nobody is signed in."""
    parts = call.writing
    state = parts.store.read(lambda tx: tx.accounts.states(parts.state.node())).get(task.spec.account_id)
    if state is not None and state.sign_in is SignIn.OUT:
        account = task.spec.account_id
        call.terminal.note(f"It waits: account {account} is signed out. Sign in: wk account login {account}")


def may_sign_in(call: "Call", account: Account) -> bool:
    """Whether it has a sign-in of its own, not just a key."""
    from watchkeeper.app.accounts import key_of
    from watchkeeper.ports.sign_in import signs_in

    harness = call.reading.harness(account.harness)
    return signs_in(harness) is not None and key_of(harness, account) is None


def find(call: "Call", typed: str) -> Account:
    """The account that was typed as `HARNESS:NAME`, or as `HARNESS` for the own one.

    Raises:
        NotFound: there is none.
        UnknownHarness: there is no such harness.
    """
    harness, _, name = typed.partition(":")
    _ = call.reading.harness(harness)
    return _account(call, f"{harness}:{name or OWN}")


def home(call: "Call", account: Account) -> str | None:
    """Where an account's home is; None where the caller's environment or the program itself says."""
    from watchkeeper.ports.sign_in import signs_in

    if signs_in(call.reading.harness(account.harness)) is None:
        return None
    return call.reading.accounts.home(account)


def key(harness: "Harness", variable: str | None) -> tuple[str, ...]:
    """An account's variable for a key, as the harness's program knows it.

    Raises:
        UsageError: the program takes no key that way.
    """
    from watchkeeper.ports.sign_in import signs_in

    told = signs_in(harness)
    if variable is None:
        return ()
    if told is None or not told.key_variables:
        raise UsageError(
            f"It is not known in which variable the program of {harness.name} takes a key.",
            hint="Name it with --env NAME=FROM.",
        )
    name = told.key_variables[0]
    return (name if name == variable else f"{name}={variable}",)


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

    from watchkeeper.cli.harnesses import NEVER_GUESSED
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


def look(call: "Call", account: Account) -> "Look":
    """Ask the program of an account."""
    return call.reading.asker.ask(account, _environ(call, account))


def record(call: "Call", account: Account, seen: "Look") -> None:
    """Record what was seen just now."""
    parts = call.writing
    _ = parts.sign_ins.record(account.id, seen, parts.sign_ins.mark(account, _environ(call, account)))


def login(call: "Call", account: Account, more: Sequence[str]) -> "tuple[int, Look]":
    """Run the program's own login for an account, look afterwards, and record what was seen; its exit code, and the look.

    Raises:
        UsageError: there is nothing to sign in to, or it needs a terminal.
        HarnessError: the program is missing.
    """
    from watchkeeper.app.accounts import HomeGone, key_of
    from watchkeeper.ports.sign_in import signs_in

    parts = call.writing
    harness = parts.harness(account.harness)
    told = signs_in(harness)
    taken = key_of(harness, account)
    if told is None or taken is not None:
        where = f"it works with the key in {taken[1]}" if taken is not None else "its harness does not say how"
        raise UsageError(
            f"There is no login for {account.id}: {where}.", hint=f"`wk account show {account.id}` tells what it is."
        )
    if account.home is None and account.name not in IMPLICIT:
        with said(f"The home of {account.id} could not be made"):
            _ = parts.accounts.homes.make(account.harness, account.name)
    try:
        environment = parts.accounts.apply(harness, account, call.environ)
    except HomeGone as gone:
        raise StateDirectoryUnusable(
            str(gone), hint="Put a directory there, or take away what stands in its place."
        ) from gone
    program = harness.find(environment, parts.harness_options(account.harness))
    argv = told.login(program, terminal=call.terminal.stdin_is_terminal)
    if argv is None:
        raise UsageError(
            f"The login of {account.harness} needs a terminal.",
            hint="Type the command in one, or use a key: wk account add --key",
        )
    code = parts.login((*argv, *more), environment)
    seen = look(call, account)
    record(call, account, seen)
    return code, seen


@contextmanager
def said(what: str) -> Generator[None]:
    """Say what the system refused. Raises StateDirectoryUnusable."""
    try:
        yield
    except OSError as error:
        raise StateDirectoryUnusable(
            f"{what}: {system_says(error)}.", hint="`wk doctor` looks at the state directory."
        ) from error


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
    told.append(("signed in", f"{_word(call, found)}{seen}{f': {clean(state.says)}' if state.says else ''}"))
    told += services.lines(state, now)
    if tasks:
        told.append(("tasks", ", ".join(task.id for task in tasks[:_NAMED]) + (" …" if len(tasks) > _NAMED else "")))
    return [f"{name:<{LABEL}}{value}" for name, value in told]


def _environ(call: "Call", account: Account) -> Mapping[str, str]:
    """The caller's environment with what of the account's keys is there."""
    changed = dict(call.environ)
    for variable in account.variables:
        name, _, source = variable.partition("=")
        if value := call.environ.get(source or name):
            changed[name] = value
    return changed


def _account(call: "Call", account_id: str) -> Account:
    from watchkeeper.app.accounts import implicit, require, unknown

    if found := implicit(account_id):
        return found
    try:
        store = call.reading.store
    except (NoDatabase, StateDirectoryUnusable):
        raise unknown((), account_id) from None
    return store.read(lambda tx: require(tx, account_id))
