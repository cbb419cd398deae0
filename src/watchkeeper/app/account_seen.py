"""Record what was seen of an account on a machine, and journal what is news, in one transaction with whatever showed it."""

from datetime import datetime

from watchkeeper.domain.account import SignInSeen
from watchkeeper.domain.service import QuotaSeen, Seen
from watchkeeper.ports.store import Tx


def see(tx: Tx, account: str, machine: str, seen: Seen, at: datetime) -> bool:
    """Record an observation of an account on a machine; True if the sign-in, the limit or the service's trouble is another one now.

    The journal gets one `account.seen` for each change, with what changed.
    """
    if not tx.accounts.observe(account, machine, seen):
        return False
    about = {"account": account, "machine": machine}
    _ = tx.journal.append("account.seen", at, data={**about, **_facts(tx, account, machine, seen)})
    return True


def _facts(tx: Tx, account: str, machine: str, seen: Seen) -> dict[str, object]:
    if isinstance(seen, SignInSeen):
        return {"sign_in": seen.sign_in.value}
    state = tx.accounts.states(machine)[account]
    until = "" if state.quota_until is None else state.quota_until.isoformat()
    if isinstance(seen, QuotaSeen):
        return {"quota_until": until}
    service: dict[str, object] = {"trouble": "", "quota_until": until}
    if state.trouble is not None:
        service |= {"trouble": state.trouble.value, "detail": state.trouble_detail}
    return service
