"""Accounts: with whose sign-in an agent program works, and what is known of that sign-in."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from watchkeeper.domain.failure_kind import FailureKind

OWN = "own"
"""The name of the account that is the user's own home; every harness has one from the start."""

KEY = "key"
"""The name of the account that is the user's own home with a key from the caller's environment: the key wins over the home's sign-in, and each
task has its own. It exists from the start, too."""

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
    """What was last observed of an account on one machine. Sign-in, limit and service are observations with times of their own; see `service`."""

    account: str
    machine: str
    sign_in: SignIn = SignIn.UNKNOWN
    sign_in_at: datetime | None = None
    detail: str = ""
    mark: str = ""
    """What the sign-in's file looked like at that time (no content), so that a change can be noticed."""
    quota_until: datetime | None = None
    """Until when the account's limit is used up. Once that time has passed, a probe shows whether it is so; None: the limit is not used up."""
    quota_at: datetime | None = None
    """When that was observed."""
    trouble: FailureKind | None = None
    """How the service behind the account fails, `overloaded` or `network`; None: nothing is known to be wrong with it."""
    trouble_detail: str = ""
    """What the run reported that failed."""
    trouble_since: datetime | None = None
    trouble_at: datetime | None = None
    """When it was last seen to fail."""
    probes: int = 0
    """How many probes in a row have failed."""
    probe_at: datetime | None = None
    """When the next probe may start."""
    probe_run: str | None = None
    """The run that is the probe, while it is running."""
    answered_at: datetime | None = None
    """When the service was last seen to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialState:
    """What a run has to do with its account's sign-in."""

    keyed: bool = False
    """It used a key from the caller's environment: its outcome says nothing about the account."""
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
    detail: str = ""
    mark: str = ""


def observed(state: AccountState, seen: SignInSeen) -> AccountState:
    """What an observation of the sign-in makes of what was known. An older one never overwrites a newer one; of two at one time the later told counts."""
    if state.sign_in_at is not None and seen.at < state.sign_in_at:
        return state
    return replace(state, sign_in=seen.sign_in, sign_in_at=seen.at, detail=seen.detail, mark=seen.mark)
