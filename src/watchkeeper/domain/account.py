"""Accounts: with whose sign-in an agent program works, and what is known of that sign-in."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

OWN = "own"
"""The name of the account that is the user's own home; every harness has one without anybody adding it."""

KEY = "key"
"""The name of the account that is the user's own home with a key in the environment of whoever hands a task over: it wins over the home's sign-in, and each
task has its own. Nobody adds it either."""

IMPLICIT = (OWN, KEY)
"""Accounts that are there without being added."""


class SignIn(StrEnum):
    """Whether an account is signed in, as far as is known."""

    IN = "in"
    OUT = "out"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A configuration home of a harness, and the names of the credentials that its runs get."""

    harness: str
    name: str
    home: str | None = None
    """A directory of the user's; None: a managed home in the state directory of each machine, or for `own` whatever the environment says."""
    variables: tuple[str, ...] = ()
    """Variables that its runs get from the caller, as `NAME` or `NAME=FROM`."""
    created_at: datetime | None = None
    by: str = ""

    @property
    def id(self) -> str:
        """`HARNESS:NAME`."""
        return account_id(self.harness, self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that its runs get, by the names that its program knows."""
        return tuple(variable.partition("=")[0] for variable in self.variables)


def account_id(harness: str, name: str) -> str:
    """The id of an account."""
    return f"{harness}:{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountState:
    """What was last observed of an account on one machine. Sign-in and quota are two observations, each with its own time."""

    account: str
    machine: str
    sign_in: SignIn = SignIn.UNKNOWN
    sign_in_at: datetime | None = None
    says: str = ""
    mark: str = ""
    """What the sign-in's file looked like at that time (no content), so that a change can be noticed."""
    quota_until: datetime | None = None
    quota_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearing:
    """What a run has to do with its account's sign-in."""

    keyed: bool = False
    """It used a key from the environment of whoever handed the task over: what becomes of it tells nothing of the account."""
    own_key: bool = False
    """That key is what the account works with, so a success shows that it works."""
    opens: bool = True
    """A new sign-in can be noticed, so that tasks may wait for one."""
    mark: str = ""
    """What the sign-in's files look like after the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInSeen:
    """An observation of a sign-in: `at` is the time that it speaks of, which for a refused run is when its agent started."""

    sign_in: SignIn
    at: datetime
    says: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSeen:
    """An observation of an account's limit: used up until then, or (None) not used up."""

    until: datetime | None
    at: datetime


def observed(state: AccountState, seen: SignInSeen | QuotaSeen) -> AccountState:
    """What an observation makes of what was known. An older one never overwrites a newer one; of two at one time the later told counts."""
    match seen:
        case SignInSeen():
            if state.sign_in_at is not None and seen.at < state.sign_in_at:
                return state
            return replace(state, sign_in=seen.sign_in, sign_in_at=seen.at, says=seen.says, mark=seen.mark)
        case QuotaSeen():
            if state.quota_at is not None and seen.at < state.quota_at:
                return state
            return replace(state, quota_until=seen.until, quota_at=seen.at)
