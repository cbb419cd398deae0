"""Add, sign in, check and remove accounts, in a person's name."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from watchkeeper.app import accounts
from watchkeeper.app.accounts import HomeGone, key_of
from watchkeeper.app.parts import Caller, Parts
from watchkeeper.app.secrets import refuse_values, refuse_words
from watchkeeper.app.sign_ins import Asker, SignIns
from watchkeeper.domain.account import IMPLICIT, Account
from watchkeeper.errors import Refused, StateDirectoryUnusable, UsageError, describe_os_error
from watchkeeper.ports.harness import Harness
from watchkeeper.ports.sign_in import SignInCheck, SignsIn, signs_in


class SignInParts(Parts, Protocol):
    """The parts that these use cases need beside all others'."""

    @cached_property
    def asker(self) -> Asker:
        """Asks programs whether they are signed in."""
        ...

    @cached_property
    def sign_ins(self) -> SignIns:
        """What is recorded of sign-ins."""
        ...

    def login(self, argv: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run an agent program's own login on the terminal; its exit code."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AddAccountRequest:
    """An account that a person wants."""

    harness: str
    name: str
    home: str | None = None
    """A configuration home of the person's, absolute; None: one that Watchkeeper makes."""
    key: str | None = None
    """The person's variable that holds its key."""
    env: tuple[str, ...] = ()
    """More variables that its agents get, each `NAME` or `NAME=FROM`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddAccountResult:
    """An account that was added."""

    account: Account
    home: str | None
    """Where its home is; None where its program keeps none."""
    had_home: bool
    """Its managed home was there already."""
    may_sign_in: bool
    """It works with a sign-in of its own, not just with a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRequest:
    """A sign-in with the program's own login."""

    account: Account
    arguments: tuple[str, ...] = ()
    """More arguments of the login."""
    terminal: bool
    """Whether the person is at a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginResult:
    """What a login came to."""

    exit_code: int
    look: SignInCheck
    """What the program reported afterwards; it is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccountRequest:
    """An account that no task needs any more."""

    account: Account
    delete_home: bool = False
    """Delete its managed home too, with the sign-in in it."""


def add(parts: Parts, caller: Caller, request: AddAccountRequest) -> AddAccountResult:
    """Add an account.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: its name is off, or what it is made of.
        BadTask: a word of it is a secret.
        Refused: there is one by that name.
        StateDirectoryUnusable: its home could not be made; nothing was added.
    """
    harness = parts.harness(request.harness)
    account = Account(
        harness=request.harness,
        name=request.name,
        home=request.home,
        variables=(*_key(harness, request.key), *request.env),
        created_at=parts.clock.now(),
        by=caller.by,
    )
    refuse_words([("The account's name", account.name), ("The home's name", account.home or "")], caller.environ)
    refuse_values(account.variables, caller.environ)
    accounts.check(harness, account)
    with _named(f"The home of {account.id} could not be made, so nothing was added"):
        made = accounts.add(parts.store, parts.clock, parts.accounts.homes, account)
    program = signs_in(harness)
    home = None if program is None else parts.accounts.home(account)
    return AddAccountResult(
        account=account,
        home=home,
        had_home=account.home is None and not made and home is not None,
        may_sign_in=program is not None and key_of(harness, account) is None,
    )


def log_in(parts: SignInParts, caller: Caller, request: LoginRequest) -> LoginResult:
    """Run the program's own login for an account, look afterwards, and record what was seen.

    Raises:
        UsageError: there is nothing to sign in to, or it needs a terminal.
        HarnessError: the program is missing.
        StateDirectoryUnusable: the account's home could not be made, or is not a directory.
    """
    account = request.account
    harness = parts.harness(account.harness)
    program = _signing_in(harness, account)
    if account.home is None and account.name not in IMPLICIT:
        with _named(f"The home of {account.id} could not be made"):
            _ = parts.accounts.homes.make(account.harness, account.name)
    try:
        environment = parts.accounts.apply(harness, account, caller.environ)
    except HomeGone as gone:
        raise StateDirectoryUnusable(
            str(gone), hint="Put a directory there, or take away what stands in its place."
        ) from gone
    found = harness.find(environment, parts.harness_options(account.harness))
    argv = program.login(found, terminal=request.terminal)
    if argv is None:
        raise UsageError(
            f"The login of {account.harness} needs a terminal.",
            hint="Type the command in one, or use a key: wk account add --key",
        )
    code = parts.login((*argv, *request.arguments), environment)
    return LoginResult(exit_code=code, look=check(parts, caller, account))


def check(parts: SignInParts, caller: Caller, account: Account) -> SignInCheck:
    """Ask the program of an account whether it is signed in, and record the answer. Unless it says no, tasks that wait for the account get another try."""
    environ = own_environment(caller.environ, account)
    seen = parts.asker.ask(account, environ)
    _ = parts.sign_ins.record(account.id, seen, parts.sign_ins.stamp(account, environ))
    return seen


def remove(parts: Parts, caller: Caller, request: RemoveAccountRequest) -> str | None:
    """Remove an account that no task needs any more. Returns where its home is that stays, if it has one.

    Raises:
        NotFound: no account has that name.
        Refused: it is the person's own home, or tasks of it have not ended.
        UsageError: its home is to be deleted, and is a directory of the person's.
        StateDirectoryUnusable: it was removed, and its home could not be deleted.
    """
    account = request.account
    if account.name in IMPLICIT:
        raise Refused(f"{account.id} is your own home, which is always there.", hint="Sign out in the program itself.")
    if request.delete_home and account.home is not None:
        raise UsageError(f"The home of {account.id} is a directory of yours and is not deleted: {account.home}.")
    home = None if signs_in(parts.harness(account.harness)) is None else parts.accounts.home(account)
    _ = accounts.remove(parts.store, parts.clock, account.id, caller.by)
    if request.delete_home:
        with _named(f"{account.id} was removed, but its home {home} could not be deleted"):
            _ = parts.accounts.homes.delete(account.harness, account.name)
        return None
    return home if home and Path(home).exists() else None


def own_environment(environ: Mapping[str, str], account: Account) -> Mapping[str, str]:
    """The caller's environment with what of the account's keys is there."""
    changed = dict(environ)
    for variable in account.variables:
        name, _, source = variable.partition("=")
        if value := environ.get(source or name):
            changed[name] = value
    return changed


def _key(harness: Harness, variable: str | None) -> tuple[str, ...]:
    """The person's variable for a key, as the harness's program knows it. Raises UsageError where the program takes no key that way."""
    program = signs_in(harness)
    if variable is None:
        return ()
    if program is None or not program.key_variables:
        raise UsageError(
            f"It is not known in which variable the program of {harness.name} takes a key.",
            hint="Name it with --env NAME=FROM.",
        )
    name = program.key_variables[0]
    return (name if name == variable else f"{name}={variable}",)


def _signing_in(harness: Harness, account: Account) -> SignsIn:
    """The harness, as one whose program signs in. Raises UsageError where this account has no login."""
    program, key = signs_in(harness), key_of(harness, account)
    if program is not None and key is None:
        return program
    where = f"it works with the key in {key[1]}" if key is not None else "its harness does not say how"
    raise UsageError(
        f"There is no login for {account.id}: {where}.", hint=f"`wk account show {account.id}` tells what it is."
    )


@contextmanager
def _named(what: str) -> Generator[None]:
    """Name what the system refused. Raises StateDirectoryUnusable."""
    try:
        yield
    except OSError as error:
        raise StateDirectoryUnusable(
            f"{what}: {describe_os_error(error)}.", hint="`wk doctor` looks at the state directory."
        ) from error
