"""Sign-ins of accounts, looked at from outside: after a refused run, and again and again while tasks wait for one.

A look never counts for more than it is. That a program says "signed in" opens the account for a try; whether the service accepts the sign-in, only a run
shows. So each change of a sign-in's files is worth one look, see `domain.sign_in_change`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from watchkeeper.app.account_seen import see
from watchkeeper.app.accounts import AccountEnvironments, HomeGone, find_any, key_of
from watchkeeper.app.environments import EnvironmentUnknown, TaskEnvironments
from watchkeeper.app.profiles import at_its_place
from watchkeeper.domain.account import KEY, Account, AccountState, CredentialState, SignIn, SignInSeen
from watchkeeper.domain.lanes import HarnessState
from watchkeeper.domain.model import Task, TaskState
from watchkeeper.domain.profile import LaunchProfile
from watchkeeper.domain.sign_in_change import Change, Tried, change, looked
from watchkeeper.errors import BadTask, HarnessError
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.harness import Harness, Program, find_program
from watchkeeper.ports.sign_in import Looker, SignInCheck, signs_in
from watchkeeper.ports.store import Store, Tx

_SOME = 500
"""The newest queued tasks, among which one is looked for that lends its environment to a look, besides the first ready one of each lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """An account that is signed out here, or a harness whose program is missing, for which tasks wait."""

    account: Account | None
    """None: it was removed."""
    account_id: str
    harness: str
    state: AccountState | None
    """None: the program is what is missing."""
    lender: Task | None
    """A task that waits for it, under whose environment is looked; None: under our own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIns:
    """Looks at sign-ins on one machine."""

    store: Store
    clock: Clock
    machine: str
    harness: Callable[[str], Harness]
    """A harness by name; raises UnknownHarness."""
    options: Callable[[str], Mapping[str, str]]
    """The settings of a harness, by name."""
    environments: TaskEnvironments
    accounts: AccountEnvironments
    looker: Looker
    environ: Mapping[str, str]
    """Our own environment, for accounts that no task lends one to."""
    tried: dict[str, Tried] = field(default_factory=dict[str, Tried])
    """By account, what was looked at; a memory only, see `Tried`."""

    def credential_state(self, task: Task) -> CredentialState:
        """What a task's run had to do with its account's sign-in. Never raises: where nothing can be told, a refusal is for a person."""
        spec = task.spec
        try:
            harness = self.harness(spec.harness)
            told = signs_in(harness)
            if told is None:
                return CredentialState(opens=False)
            if spec.account == KEY:
                return CredentialState(keyed=True, own_key=True)
            account = self._account(spec.account_id)
            kept = self.environments.for_task(task, account)
            environment = self.accounts.apply(harness, account, kept, spec.environment_names)
        except HomeGone:
            return CredentialState()
        except (HarnessError, EnvironmentUnknown, OSError):
            return CredentialState(opens=False)
        if any(environment.get(name) for name in told.key_variables):
            return CredentialState(keyed=True, own_key=account is not None and key_of(harness, account) is not None)
        return CredentialState(mark=self.looker.stamp(told, environment).text)

    def lacks(self) -> list[Lack]:
        """What closes the way of tasks here that a look could open."""
        return self.store.read(self._lacks)

    def check_again(self, lack: Lack) -> SignInCheck | None:
        """Look at what is lacking, if anything about it is new; what it opens is recorded. None if nothing is new."""
        if lack.state is None:
            return self._program(lack)
        try:
            harness = self.harness(lack.harness)
            asked = lack.lender.spec.environment_names if lack.lender is not None else ()
            environment = self.accounts.apply(harness, lack.account, self._lent(lack), asked)
        except (HomeGone, HarnessError, EnvironmentUnknown, OSError):
            return None
        told = signs_in(harness)
        if told is None:
            return None
        mark = self.looker.stamp(told, environment)
        tried = self.tried.get(lack.account_id, Tried())
        what = change(lack.state, mark.text, mark.changed_ns, tried)
        if what is Change.NONE:
            return None
        check = self.looker.check(harness, environment, self.options(lack.harness))
        # Looked at again afterwards: a program may write its files when it is asked.
        for seen in (mark.text, self.looker.stamp(told, environment).text):
            tried = looked(tried, seen, what)
        self.tried[lack.account_id] = tried
        if check.sign_in is not SignIn.OUT:
            self.record(lack.account_id, check, mark.text)
        return check

    def stamp(self, account: Account, environ: Mapping[str, str]) -> str:
        """What the sign-in's files of an account look like now; empty if that cannot be told."""
        try:
            harness = self.harness(account.harness)
            told = signs_in(harness)
            return self.looker.stamp(told, self.accounts.apply(harness, account, environ)).text if told else ""
        except (HomeGone, HarnessError):
            return ""

    def record(self, account_id: str, check: SignInCheck, mark: str = "") -> bool:
        """Record what was seen just now; True if it is news."""
        at = self.clock.now()
        seen = SignInSeen(sign_in=check.sign_in, at=at, detail=check.detail, mark=mark)

        return self.store.transact("account.seen", lambda tx: see(tx, account_id, self.machine, seen, at))

    def _lacks(self, tx: Tx) -> list[Lack]:
        states, programs = tx.accounts.states(self.machine), tx.accounts.harnesses(self.machine)
        out = {account for account, state in states.items() if state.sign_in is SignIn.OUT}
        missing = {name for name, state in programs.items() if not state.present}
        if not out and not missing:
            return []
        lenders = self._waiting(tx)
        waiting = {(each.spec.harness, each.spec.account_id) for each in lenders}
        found: dict[str, Lack] = {}
        for harness, account in sorted(waiting):
            if harness in missing:
                found.setdefault(harness, _lack(tx, account, None, lenders))
            elif account in out:
                found.setdefault(account, _lack(tx, account, states[account], lenders))
        return list(found.values())

    def _waiting(self, tx: Tx) -> list[Task]:
        """Tasks that wait and may run here, at least one of each lane that has ready ones, however long the queue is."""
        lanes = [lane for lane in tx.queue.lanes() if lane.machine in {None, self.machine}]
        # One that waits a moment after its refusal is in no lane's sight.
        newest = [
            task for task in tx.tasks.in_states([TaskState.QUEUED], _SOME) if task.spec.machine in {None, self.machine}
        ]
        known = {task.id for task in newest}
        return newest + [task for task in tx.queue.firsts(lanes) if task.id not in known]

    def _program(self, lack: Lack) -> SignInCheck | None:
        """Whether a program that was missing is there now. Costs a look at the PATH while it is not."""
        program = next(filter(None, map(self._program_found, self._waiting_for(lack.harness))), None)
        if program is None:
            return None
        at = self.clock.now()
        state = HarnessState(harness=lack.harness, machine=self.machine, present=True, detail=program.path, at=at)

        def work(tx: Tx) -> None:
            if tx.accounts.record_harness(state):
                data = {"harness": state.harness, "machine": state.machine, "present": True, "detail": state.detail}
                _ = tx.journal.append("harness.seen", at, data=data)

        self.store.transact("harness.seen", work)
        return SignInCheck(sign_in=SignIn.UNKNOWN, detail=f"the program is there: {program.path}")

    def _waiting_for(self, harness: str) -> list[tuple[Task, LaunchProfile]]:
        """Tasks that wait for this harness, one for each place in which its program was when they were accepted."""

        def read(tx: Tx) -> list[tuple[Task, LaunchProfile]]:
            found: dict[str, tuple[Task, LaunchProfile]] = {}
            for task in self._waiting(tx):
                if task.spec.harness == harness:
                    allowed = tx.outcomes.authorisation(task.id)
                    if allowed is not None and allowed.profile is not None:
                        _ = found.setdefault(allowed.profile.program, (task, allowed.profile))
            return list(found.values())

        return self.store.read(read)

    def _program_found(self, waiting: tuple[Task, LaunchProfile]) -> Program | None:
        """The program of a task, if a launch would find it now."""
        task, profile = waiting
        try:
            environment = self.environments.for_task(task, self._account(task.spec.account_id))
            harness = self.harness(profile.harness)
            if self.environments.is_from_elsewhere(task):
                options = {**dict(profile.options), **self.options(profile.harness)}
                return find_program(harness, task.spec, environment, options)
            return at_its_place(harness, task.spec, profile.program, environment, dict(profile.options))
        except (BadTask, HarnessError, EnvironmentUnknown, OSError):
            return None

    def _account(self, account_id: str) -> Account | None:
        return self.store.read(lambda tx: find_any(tx, account_id))

    def _lent(self, lack: Lack) -> Mapping[str, str]:
        return self.environ if lack.lender is None else self.environments.for_task(lack.lender, lack.account)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Asks programs about accounts; needs no database and records nothing."""

    harness: Callable[[str], Harness]
    options: Callable[[str], Mapping[str, str]]
    accounts: AccountEnvironments
    looker: Looker

    def ask(self, account: Account, environ: Mapping[str, str]) -> SignInCheck:
        """What the program of an account reports, under a task's environment."""
        try:
            harness = self.harness(account.harness)
            environment = self.accounts.apply(harness, account, environ)
        except HomeGone as problem:
            return SignInCheck(sign_in=SignIn.OUT, detail=str(problem).rstrip("."))
        except HarnessError as problem:
            return SignInCheck(sign_in=SignIn.UNKNOWN, detail=str(problem).rstrip("."))
        key = key_of(harness, account)
        if key is not None and not any(environment.get(name) for name in (key[0], *key[1].split(" or "))):
            return SignInCheck(
                sign_in=SignIn.UNKNOWN, detail=f"it works with the key in {key[1]}, which is not set here"
            )
        return self.looker.check(harness, environment, self.options(account.harness))


def _lack(tx: Tx, account_id: str, state: AccountState | None, lenders: list[Task]) -> Lack:
    lender = next((task for task in lenders if task.spec.account_id == account_id), None)
    return Lack(
        account=find_any(tx, account_id),
        account_id=account_id,
        harness=account_id.partition(":")[0],
        state=state,
        lender=lender,
    )
