"""A signed-out account is tried once for each change of its sign-in, and never twice for the same."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.domain.account import AccountState, SignIn, SignInSeen
from watchkeeper.domain.service import QuotaSeen, observed
from watchkeeper.domain.sign_in_change import Change, Tried, change, looked

START = datetime(2026, 1, 1, tzinfo=UTC)


def state(mark: str, started_s: float = 10) -> AccountState:
    """An account whose agent started then and was refused; after it the files looked like `mark`."""
    at = START + timedelta(seconds=started_s)
    return AccountState(account="demo:a", machine="m", sign_in=SignIn.OUT, sign_in_at=at, mark=mark)


def ns(seconds: float) -> int:
    """Seconds after the beginning, as file systems give them."""
    return int((START + timedelta(seconds=seconds)).timestamp() * 1e9)


def test_files_that_look_otherwise_are_worth_a_look_once() -> None:
    """Also when they are gone."""
    assert change(state("a"), "b", ns(20), Tried()) is Change.SURE
    assert change(state("a"), "", 0, Tried()) is Change.SURE
    assert change(state("a"), "b", ns(20), looked(Tried(), "b", Change.SURE)) is Change.NONE


def test_files_that_are_as_they_were_are_not() -> None:
    """Whatever the clock says."""
    assert change(state("a"), "a", ns(9), Tried()) is Change.NONE
    assert change(state(""), "", 0, Tried()) is Change.NONE


def test_a_change_while_the_refused_agent_worked_has_one_try() -> None:
    """A person may have signed in meanwhile; a program that renews its sign-in in vain gets no endless tries."""
    assert change(state("a"), "a", ns(11), Tried()) is Change.DOUBTFUL
    tried = looked(Tried(), "a", Change.DOUBTFUL)
    assert change(state("b", 20), "b", ns(21), tried) is Change.NONE
    tried = looked(tried, "c", Change.SURE)
    assert change(state("d", 40), "d", ns(41), tried) is Change.DOUBTFUL


@given(st.lists(st.sampled_from(["rewrites", "keeps"]), max_size=30), st.integers(0, 5))
def test_a_sign_in_that_is_always_refused_has_a_bounded_number_of_tries(runs: list[str], logins: int) -> None:
    """Whatever the program does to its files, there are at most two tries for each login of a person, and two at first."""
    tried, mark, tries, at = Tried(), "0", 0, 0.0
    waiting = list(runs)
    for login in range(logins + 1):
        known = state(mark, at)
        changed = at
        if login:
            at += 10
            mark, changed = f"login {login}", at
        while waiting and (what := change(known, mark, ns(changed), tried)) is not Change.NONE:
            tried = looked(tried, mark, what)
            tries += 1
            at += 10
            known = state(mark, at)
            if waiting.pop() == "rewrites":  # during the refused run
                at += 1
                mark, changed = f"renewed {at}", at
                known = state(mark, at - 1)
    assert tries <= 2 * (logins + 1)


@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from(list(SignIn)), st.booleans()), max_size=20))
def test_of_any_observations_the_newest_counts(news: list[tuple[int, SignIn, bool]]) -> None:
    """In whatever order they arrive, and each kind by itself."""
    known = AccountState(account="demo:a", machine="m")
    for second, sign_in, is_quota in news:
        at = START + timedelta(seconds=second)
        seen = QuotaSeen(until=at, at=at, now=at) if is_quota else SignInSeen(sign_in=sign_in, at=at)
        known = observed(known, seen)
    signs = [(second, sign_in) for second, sign_in, is_quota in news if not is_quota]
    quotas = [second for second, _, is_quota in news if is_quota]
    newest = max((second for second, _ in signs), default=None)
    wanted = [sign_in for second, sign_in in signs if second == newest]
    assert known.sign_in == (wanted[-1] if wanted else SignIn.UNKNOWN)
    assert known.quota_at == (START + timedelta(seconds=max(quotas)) if quotas else None)
