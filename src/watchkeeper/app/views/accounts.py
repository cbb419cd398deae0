"""Accounts and what is known of them on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from watchkeeper.domain.account import IMPLICIT, OWN, Account, AccountState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from watchkeeper.ports.store import Tx


class AccountRow(NamedTuple):
    """An account, what was last seen of it here, and how many tasks of it have not ended."""

    account: Account
    state: AccountState
    tasks: int


def rows(tx: Tx | None, machine: str, own: Iterable[str]) -> list[AccountRow]:
    """Every account that was added, and the own one of these harnesses and of each that something is known of."""
    if tx is None:
        return [_row(Account(harness=name, name=OWN), machine, {}, {}) for name in sorted(set(own))]
    states = tx.accounts.states(machine)
    tasks = tx.accounts.open_tasks()
    known = {(harness, name) for harness, _, name in (each.partition(":") for each in states.keys() | tasks.keys())}
    implicit = {(name, OWN) for name in own} | {each for each in known if each[1] in IMPLICIT}
    owned = [Account(harness=harness, name=name) for harness, name in implicit]
    every = sorted([*owned, *tx.accounts.all()], key=_sort_key)
    return [_row(account, machine, states, tasks) for account in every]


def _sort_key(account: Account) -> tuple[str, int, str]:
    return account.harness, IMPLICIT.index(account.name) if account.name in IMPLICIT else len(IMPLICIT), account.name


def _row(account: Account, machine: str, states: Mapping[str, AccountState], tasks: Mapping[str, int]) -> AccountRow:
    state = states.get(account.id, AccountState(account=account.id, machine=machine))
    return AccountRow(account=account, state=state, tasks=tasks.get(account.id, 0))


def plain(row: AccountRow, home: str | None, *, needs_you: bool = False) -> dict[str, object]:
    """An account as JSON values. A mark is ours alone. `needs_you`: its service has failed for so long that a person should look."""
    account, state = row.account, row.state
    return {
        "id": account.id,
        "harness": account.harness,
        "name": account.name,
        "home": home,
        "managed": account.home is None and home is not None,
        "variables": list(account.variables),
        "sign_in": state.sign_in.value,
        "sign_in_at": _time(state.sign_in_at),
        "detail": state.detail,
        "quota_until": _time(state.quota_until),
        "quota_at": _time(state.quota_at),
        "service": None if state.trouble is None else state.trouble.value,
        "service_says": state.trouble_detail,
        "service_since": _time(state.trouble_since),
        "service_at": _time(state.trouble_at),
        "probes": state.probes,
        "probe_at": _time(state.probe_at),
        "probe_run": state.probe_run,
        "answered_at": _time(state.answered_at),
        "needs_you": needs_you,
        "machine": state.machine,
        "tasks": row.tasks,
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
