"""Accounts: add and remove them, and give a run the environment of its account.

A task names its account; what the account is stands in the database, what is known of its sign-in beside it for each machine. The sign-in itself is kept by
the program in the account's home and never passes through our code.
"""

import os
import re
import shlex
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.domain.account import IMPLICIT, KEY, OWN, Account
from watchkeeper.domain.model import FINAL_TASK_STATES, Task, TaskState
from watchkeeper.environment import OURS
from watchkeeper.errors import BadTask, NotFound, Refused, UsageError
from watchkeeper.ports.accounts import Homes
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.harness import Harness
from watchkeeper.ports.sign_in import signs_in
from watchkeeper.ports.store import Store, Tx

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_]\w*(?:=[A-Za-z_]\w*)?")
_MOST = 100_000
_NAMED = 5


class HomeGone(Exception):  # noqa: N818 - a state of the account that its tasks wait for, not a program error
    """The account, or its home, is not there."""


def check(harness: Harness, account: Account) -> None:
    """Refuse an account that cannot be.

    Raises:
        UsageError: its name is off, or what it is made of.
    """
    for word, what in ((account.harness, "harness"), (account.name, "account")):
        if _NAME.fullmatch(word) is None:
            raise UsageError(
                f"'{word[:64]}' cannot be the name of an {what}.",
                hint="Names are small letters, digits, dots, dashes and underscores, and begin with a letter or a digit.",
            )
    if account.name in IMPLICIT:
        raise UsageError(
            f"{account.id} is your own home: it is there without being added.", hint="Choose another name."
        )
    for variable in account.variables:
        if _VARIABLE.fullmatch(variable) is None:
            raise UsageError(
                f"'{variable[:60]}' is neither NAME nor NAME=FROM.",
                hint="Give names of variables only; the values are taken from your environment when a task is handed over.",
            )
    told = signs_in(harness)
    for number, name in enumerate(account.names):
        if name in account.names[:number]:
            raise UsageError(f"The variable '{name[:60]}' is named twice.", hint="Name it once; was another one meant?")
        if name.startswith(OURS) or (told is not None and name == told.home_variable):
            raise UsageError(f"An account cannot set the variable '{name[:60]}'.", hint="--home names its home.")
    if told is None and (account.home or not account.variables):
        raise UsageError(
            f"The harness {account.harness} does not say where its program keeps a sign-in, so it has no homes to choose from.",
            hint=f"An account of it can still name a key: wk account add {account.harness} {account.name} --env NAME=FROM",
        )
    if account.home is not None and not Path(account.home).is_dir():
        raise UsageError(
            f"'{account.home}' is not a directory.", hint="Make it, or leave --home out for a managed one."
        )
    if account.home is not None:
        _check_owner(Path(account.home))


def _check_owner(home: Path) -> None:
    """Refuse a home in which another user could read or replace a sign-in. Root may use any home."""
    status = home.stat()
    if status.st_mode & stat.S_IWOTH:
        raise UsageError(f"Everybody may write to '{home}'.", hint=f"Close it: chmod o-w {shlex.quote(str(home))}")
    if os.geteuid() not in {0, status.st_uid}:
        raise UsageError(f"'{home}' belongs to another user.", hint="Leave --home out for a managed one.")


def add(store: Store, clock: Clock, homes: Homes, account: Account) -> bool:
    """Add an account that was checked; True if its managed home was made now.

    Raises:
        Refused: there is one by that name.
        OSError: its home could not be made; nothing was added.
    """
    made = account.home is None and homes.make(account.harness, account.name)
    at = clock.now()

    def work(tx: Tx) -> None:
        if find(tx, account.id) is not None:
            raise Refused(
                f"There is an account {account.id} already.",
                hint=f"`wk account show {account.id}` tells what it is; or choose another name.",
            )
        tx.accounts.add(account)
        told = {"account": account.id, "home": account.home, "variables": list(account.variables), "by": account.by}
        _ = tx.journal.append("account.added", at, data=told)

    store.transact("account.add", work)
    return made


def remove(store: Store, clock: Clock, account_id: str, by: str) -> Account:
    """Remove an account that no task needs any more.

    Raises:
        NotFound: there is none.
        Refused: tasks of it have not ended; names them.
    """
    at = clock.now()

    def work(tx: Tx) -> Account:
        account = find(tx, account_id)
        if account is None:
            raise unknown(tx.accounts.all(), account_id)
        open_ = users(tx, account_id)
        if open_:
            more = f" and {len(open_) - _NAMED} more" if len(open_) > _NAMED else ""
            named = ", ".join(task.id for task in open_[:_NAMED])
            raise Refused(
                f"Tasks of account {account_id} have not ended: {named}{more}.",
                hint="Stop them first, or wait for them.",
            )
        _ = tx.accounts.remove(account_id)
        _ = tx.journal.append("account.removed", at, data={"account": account_id, "by": by})
        return account

    return store.transact("account.rm", work)


def find(tx: Tx, account_id: str) -> Account | None:
    """The account that a person added by that id."""
    return next((account for account in tx.accounts.all() if account.id == account_id), None)


def of_task(tx: Tx, task: Task) -> Account | None:
    """The account of a task; None if it was removed."""
    return find_any(tx, task.spec.account_id)


def find_any(tx: Tx, account_id: str) -> Account | None:
    """The account of that id, including those that exist from the start."""
    return implicit(account_id) or find(tx, account_id)


def implicit(account_id: str) -> Account | None:
    """The account of that id if it is one that exists from the start."""
    harness, _, name = account_id.partition(":")
    return Account(harness=harness, name=name) if name in IMPLICIT else None


def require(tx: Tx, account_id: str) -> Account:
    """The account of that id; a user's own home is always there. Raises NotFound."""
    found = find_any(tx, account_id)
    if found is None:
        raise unknown(tx.accounts.all(), account_id)
    return found


def users(tx: Tx, account_id: str) -> list[Task]:
    """The tasks of an account that have not ended."""
    open_states: Sequence[TaskState] = [state for state in TaskState if state not in FINAL_TASK_STATES]
    return [task for task in tx.tasks.in_states(open_states, _MOST) if task.spec.account_id == account_id]


def unknown(accounts: Sequence[Account], account_id: str) -> NotFound:
    """How an account is described that exists from the start."""
    harness, _, name = account_id.partition(":")
    known = sorted(account.id for account in accounts if account.harness == harness)
    listed = ", ".join([f"{harness}:{OWN}", *known])
    return NotFound(
        f"There is no account '{account_id[:80]}'.",
        hint=f"There are: {listed}. Add it: wk account add {harness} {name}",
    )


def key_of(harness: Harness, account: Account) -> tuple[str, str] | None:
    """The variable with the key that an account works with instead of a sign-in, and whose value it takes; None if it signs in."""
    told = signs_in(harness)
    if told is None or not told.key_variables:
        return None
    if account.name == KEY:
        return told.key_variables[0], " or ".join(told.key_variables)
    parts = [variable.partition("=") for variable in account.variables]
    return next(((name, source or name) for name, _, source in parts if name in told.key_variables), None)


def with_keys(account: Account, environ: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The caller's environment with the keys of an account under the names that its program knows, and these names.

    Raises:
        BadTask: a variable that the account names is not set.
    """
    changed, names = dict(environ), list[str]()
    for variable in account.variables:
        name, _, source = variable.partition("=")
        if not environ.get(source or name):
            raise BadTask(
                f"Account {account.id} takes {name} from the variable {source or name}, which is not set.",
                hint=f"Set it first (`export {source or name}=…`).",
            )
        changed[name] = environ[source or name]
        names.append(name)
    return changed, tuple(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountEnvironments:
    """Turns a captured environment into that of an account."""

    homes: Homes

    def apply(
        self, harness: Harness, account: Account | None, environment: Mapping[str, str], asked: Sequence[str] = ()
    ) -> Mapping[str, str]:
        """The environment of a run under an account; None is an account that is gone.

        A key that wins over the home's sign-in stays only if the account or the task (`asked`) names it: otherwise it belongs to another account.

        Raises:
            HomeGone: the account or its home is not there.
        """
        if account is None:
            raise HomeGone("The account of this task was removed.")
        told = signs_in(harness)
        if account.name in IMPLICIT or told is None:
            return environment
        home = self.home(account)
        if home is None or not Path(home).is_dir():
            raise HomeGone(f"The home of account {account.id} is gone: {home}.")
        named = {variable.partition("=")[0] for variable in account.variables} | set(asked)
        foreign = set(told.key_variables) - named
        kept = {name: value for name, value in environment.items() if name not in foreign}
        return {**kept, told.home_variable: home}

    def home(self, account: Account) -> str | None:
        """Where an account's home is; None for the user's own, which the environment says."""
        return account.home or (None if account.name in IMPLICIT else self.homes.path(account.harness, account.name))
