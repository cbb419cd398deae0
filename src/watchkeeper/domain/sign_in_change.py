"""When a signed-out account may be tried again. Pure.

It is opened by a change of its sign-in, never by the clock: what its files look like allows one try, and if that is refused again the account stays closed
until they look otherwise. Programs write these files too (they renew a sign-in), also in a run that is refused; a change from the time between the agent's
start and its settlement, which may be such a one, allows one try as well, but no second one of its kind.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from watchkeeper.domain.account import AccountState

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Change(StrEnum):
    """What is new about a sign-in's files since it was refused."""

    NONE = "none"
    SURE = "sure"
    """They look otherwise than when the refusal was recorded."""
    DOUBTFUL = "doubtful"
    """They changed while the agent that was refused worked: by a person, or by the program itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Which changes of an account's sign-in have been looked at. Losing it costs a look, or a try, each."""

    marks: frozenset[str] = field(default_factory=frozenset[str])
    doubtful: bool = False
    """A doubtful change has had its try since the last sure one."""


def change(state: AccountState, mark: str, changed_ns: int, tried: Tried) -> Change:
    """Whether the files of a signed-out account, which look like `mark` now, are worth a look."""
    if mark in tried.marks:
        return Change.NONE
    if mark != state.mark:
        return Change.SURE
    since = (state.sign_in_at or _EPOCH) - _EPOCH
    later = changed_ns // 1000 > since // timedelta(microseconds=1)
    return Change.DOUBTFUL if later and not tried.doubtful else Change.NONE


def looked(tried: Tried, mark: str, what: Change) -> Tried:
    """What is remembered once a change was looked at."""
    if what is Change.DOUBTFUL:
        return Tried(marks=tried.marks | {mark}, doubtful=True)
    return Tried(marks=tried.marks | {mark}, doubtful=False)
