"""Rows of accounts, and of what is known of them and of harnesses on each machine."""

from watchkeeper.domain.account import Account, AccountState, SignIn
from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.lanes import HarnessState
from watchkeeper.domain.service import Seen, observed
from watchkeeper.errors import Stale
from watchkeeper.store.rows import Row, RowConflict, Rows
from watchkeeper.store.values import Columns, from_json, plain_texts, readable, ticks, ticks_or_none, to_json


class StoredAccounts:
    """The port's `Accounts`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def all(self) -> list[Account]:
        return readable(self._rows, self._rows.all("accounts_all"), account_from)

    def add(self, account: Account) -> None:
        try:
            _ = self._rows.run(
                "accounts_add",
                id=account.id,
                harness=account.harness,
                name=account.name,
                home=account.home,
                variables=to_json(account.variables),
                created_at=ticks_or_none(account.created_at) or 0,
                by=account.by,
            )
        except RowConflict as conflict:
            raise Stale(f"There is an account '{account.id}' already: nothing was added.") from conflict

    def remove(self, account: str) -> bool:
        _ = self._rows.run("accounts_forget", account=account)
        return self._rows.run("accounts_remove", id=account) == 1

    def states(self, machine: str) -> dict[str, AccountState]:
        found = readable(self._rows, self._rows.all("accounts_states", machine=machine), state_from)
        return {state.account: state for state in found}

    def open_tasks(self) -> dict[str, int]:
        return dict(readable(self._rows, self._rows.all("accounts_open_tasks"), _open))

    def observe(self, account: str, machine: str, seen: Seen) -> bool:
        # One that cannot be read is observed anew: what is written now stands in its place.
        known = readable(self._rows, self._rows.all("accounts_state", account=account, machine=machine), state_from)
        was = known[0] if known else AccountState(account=account, machine=machine)
        now = observed(was, seen)
        if now == was:
            return False
        _ = self._rows.run(
            "accounts_save_state",
            account=account,
            machine=machine,
            sign_in=now.sign_in.value,
            sign_in_at=ticks_or_none(now.sign_in_at),
            detail=now.detail,
            mark=now.mark,
            quota_until=ticks_or_none(now.quota_until),
            quota_at=ticks_or_none(now.quota_at),
            trouble=None if now.trouble is None else now.trouble.value,
            trouble_detail=now.trouble_detail,
            trouble_since=ticks_or_none(now.trouble_since),
            trouble_at=ticks_or_none(now.trouble_at),
            probes=now.probes,
            probe_at=ticks_or_none(now.probe_at),
            probe_run=now.probe_run,
            answered_at=ticks_or_none(now.answered_at),
        )
        return (now.sign_in, now.quota_until, now.trouble) != (was.sign_in, was.quota_until, was.trouble)

    def harnesses(self, machine: str) -> dict[str, HarnessState]:
        found = readable(self._rows, self._rows.all("accounts_harnesses", machine=machine), harness_from)
        return {state.harness: state for state in found}

    def record_harness(self, state: HarnessState) -> bool:
        changed = self._rows.run(
            "accounts_found",
            harness=state.harness,
            machine=state.machine,
            present=int(state.present),
            detail=state.detail,
            at=ticks(state.at),
        )
        return changed == 1


def _open(row: Row) -> tuple[str, int]:
    with Columns(row, "lane") as column:
        return column.text(), column.number()


def account_from(row: Row) -> Account:
    """What a row holds. Raises RecordTorn."""
    with Columns(row, "account", key=f"{row[0]}:{row[1]}") as column:
        return Account(
            harness=column.text(),
            name=column.text(),
            home=column.text_or_none(),
            variables=plain_texts(from_json(column.text())),
            created_at=column.time(),
            by=column.text(),
        )


def state_from(row: Row) -> AccountState:
    """What a row holds. Raises RecordTorn."""
    with Columns(row, "account_state", key=f"{row[0]} {row[1]}") as column:
        return AccountState(
            account=column.text(),
            machine=column.text(),
            sign_in=column.choice(SignIn),
            sign_in_at=column.time_or_none(),
            detail=column.text(),
            mark=column.text(),
            quota_until=column.time_or_none(),
            quota_at=column.time_or_none(),
            trouble=column.choice_or_none(FailureKind),
            trouble_detail=column.text(),
            trouble_since=column.time_or_none(),
            trouble_at=column.time_or_none(),
            probes=column.number(),
            probe_at=column.time_or_none(),
            probe_run=column.text_or_none(),
            answered_at=column.time_or_none(),
        )


def harness_from(row: Row) -> HarnessState:
    """What a row holds. Raises RecordTorn."""
    with Columns(row, "harness_state", key=f"{row[0]} {row[1]}") as column:
        return HarnessState(
            harness=column.text(),
            machine=column.text(),
            present=bool(column.number()),
            detail=column.text(),
            at=column.time(),
        )
