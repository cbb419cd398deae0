"""Looks at sign-ins: which waiting tasks make one worth while, under whose environment, and what it opens."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from app.stage import Verbs
from support.records import add, make_spec, make_task

from watchkeeper.app.accounts import AccountEnvironments
from watchkeeper.app.environments import TaskEnvironments
from watchkeeper.app.sign_ins import Asker, SignIns
from watchkeeper.domain.account import Account, CredentialState, SignIn, SignInSeen
from watchkeeper.domain.lanes import HarnessState
from watchkeeper.domain.model import Task
from watchkeeper.harnesses.claude import Claude
from watchkeeper.harnesses.registry import Registry
from watchkeeper.ports.harness import Harness
from watchkeeper.ports.sign_in import SignInCheck, SignInStamp, SignsIn
from watchkeeper.runtimes.account_homes import AccountHomes

OUR = {"PATH": "/daemon", "HOME": "/home/daemon"}
CALLER = {"PATH": "/bin", "HOME": "/home/ada"}


@dataclass
class Files:
    """A looker whose files look as a test says, and that remembers under which environments it looked."""

    text: str = "m1"
    changed_ns: int = 0
    after: str | None = None
    """What they look like once the program was asked."""
    answer: SignInCheck = field(default_factory=lambda: SignInCheck(sign_in=SignIn.IN, detail="signed in"))
    asked: list[tuple[Mapping[str, str], Mapping[str, str]]] = field(default_factory=list)

    def stamp(self, harness: SignsIn, environment: Mapping[str, str]) -> SignInStamp:
        return SignInStamp(text=self.text, changed_ns=self.changed_ns)

    def check(self, harness: Harness, environment: Mapping[str, str], options: Mapping[str, str]) -> SignInCheck:
        self.asked.append((environment, options))
        self.text = self.after or self.text
        return self.answer


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def sign_ins(verbs: Verbs, files: Files, tmp_path: Path) -> SignIns:
    """On machine m1."""
    harness = Registry().get
    return SignIns(
        store=verbs.store, clock=verbs.clock, machine="m1", harness=harness, options=lambda name: {"of": name},
        environments=TaskEnvironments(environments=verbs.environments, machine="m1", harness=harness, environ=OUR),
        accounts=AccountEnvironments(homes=AccountHomes(tmp_path / "homes")), looker=files, environ=OUR,
    )  # fmt: skip


def waiting(verbs: Verbs, task_id: str = "t1", environment: Mapping[str, str] = CALLER, **given: Any) -> Task:
    """A queued task of Claude Code with its caller's environment."""
    spec = make_spec(**({"harness": "claude", "argv": ()} | given))
    verbs.environments.keep(f"env-{task_id}", environment)
    task = make_task(task_id, spec=spec, environment_machine="m1")
    return verbs.store.transact("test", lambda tx: add(tx, task))


def signed_out(sign_ins: SignIns, account: str = "claude:own", mark: str = "m1") -> None:
    assert sign_ins.record(account, SignInCheck(sign_in=SignIn.OUT, detail="signed out"), mark)


def test_only_what_tasks_wait_for_is_lacking(verbs: Verbs, sign_ins: SignIns) -> None:
    """And it is looked at under the environment of a task of that account."""
    assert sign_ins.lacks() == []
    signed_out(sign_ins)
    assert sign_ins.lacks() == []
    _ = waiting(verbs, "c1", harness="command", argv=("true",))
    assert sign_ins.lacks() == []
    _ = waiting(verbs, "e1", machine="m2")
    assert sign_ins.lacks() == []
    task = waiting(verbs, "t1")
    (lack,) = sign_ins.lacks()
    assert (lack.account_id, lack.harness, lack.account) == (
        "claude:own",
        "claude",
        Account(harness="claude", name="own"),
    )
    assert lack.state is not None and lack.state.sign_in is SignIn.OUT
    assert lack.lender is not None and lack.lender.id == task.id


def test_a_change_of_the_files_is_looked_at_once_and_opens_the_account(
    verbs: Verbs, sign_ins: SignIns, files: Files
) -> None:
    signed_out(sign_ins)
    _ = waiting(verbs)
    (lack,) = sign_ins.lacks()
    assert sign_ins.check_again(lack) is None and files.asked == []
    files.text, files.answer = "m2", SignInCheck(sign_in=SignIn.OUT, detail="still out")
    assert sign_ins.check_again(lack) == files.answer
    assert files.asked == [(CALLER, {"of": "claude"})]
    assert sign_ins.check_again(lack) is None
    (still,) = sign_ins.lacks()
    assert still == lack
    files.text, files.after, files.answer = "m3", "m4", SignInCheck(sign_in=SignIn.IN, detail="signed in")
    assert sign_ins.check_again(lack) == files.answer
    assert sign_ins.lacks() == []
    state = verbs.store.read(lambda tx: tx.accounts.states("m1"))["claude:own"]
    assert (state.sign_in, state.mark, state.detail) == (SignIn.IN, "m3", "signed in")
    assert sign_ins.check_again(lack) is None, "what the program wrote itself is no change"


def test_a_look_without_a_task_is_under_our_own_environment(verbs: Verbs, sign_ins: SignIns, files: Files) -> None:
    signed_out(sign_ins)
    _ = waiting(verbs)
    (lack,) = sign_ins.lacks()
    files.text = "m2"
    _ = sign_ins.check_again(replace(lack, lender=None))
    assert files.asked == [(OUR, {"of": "claude"})]


def test_a_home_that_is_gone_is_not_looked_at(verbs: Verbs, sign_ins: SignIns, files: Files) -> None:
    """An account that was removed has none either."""
    signed_out(sign_ins, "claude:work")
    _ = waiting(verbs, account="work")
    (lack,) = sign_ins.lacks()
    assert lack.account is None
    files.text = "m2"
    assert sign_ins.check_again(lack) is None and files.asked == []
    assert sign_ins.check_again(replace(lack, account=Account(harness="claude", name="work"))) is None


@pytest.mark.parametrize(
    ("harness", "account", "environment", "credential_state"),
    [
        ("command", "own", CALLER, CredentialState(opens=False)),
        ("claude", "key", CALLER, CredentialState(keyed=True, own_key=True)),
        ("claude", "own", CALLER, CredentialState(mark="m1")),
        ("claude", "own", CALLER | {"ANTHROPIC_AUTH_TOKEN": "sk-test-1"}, CredentialState(keyed=True)),
        ("claude", "own", CALLER | {"ANTHROPIC_AUTH_TOKEN": ""}, CredentialState(mark="m1")),
        ("claude", "gone", CALLER, CredentialState()),
        ("unheard-of", "own", CALLER, CredentialState(opens=False)),
    ],
)
def test_what_a_run_says_about_its_account(
    verbs: Verbs,
    sign_ins: SignIns,
    harness: str,
    account: str,
    environment: dict[str, str],
    credential_state: CredentialState,
) -> None:
    task = waiting(verbs, environment=environment, harness=harness, account=account)
    assert sign_ins.credential_state(task) == credential_state


def test_a_run_whose_environment_is_gone_says_nothing(verbs: Verbs, sign_ins: SignIns) -> None:
    task = waiting(verbs)
    verbs.environments.forget(task.environment_id)
    assert sign_ins.credential_state(task) == CredentialState(opens=False)


def test_the_mark_of_an_account_is_that_of_its_files(sign_ins: SignIns, files: Files) -> None:
    assert sign_ins.stamp(Account(harness="claude", name="own"), CALLER) == "m1"
    assert sign_ins.stamp(Account(harness="command", name="own"), CALLER) == ""
    assert sign_ins.stamp(Account(harness="claude", name="gone"), CALLER) == ""
    assert sign_ins.stamp(Account(harness="unheard-of", name="own"), CALLER) == ""


def test_what_was_seen_is_news_once(verbs: Verbs, sign_ins: SignIns) -> None:
    look = SignInCheck(sign_in=SignIn.OUT, detail="signed out")
    assert sign_ins.record("claude:own", look)
    verbs.clock.step(5)
    assert not sign_ins.record("claude:own", look)
    (entry,) = verbs.store.read(lambda tx: tx.journal.after(0, 10))
    assert (entry.kind, dict(entry.data)) == (
        "account.seen",
        {"account": "claude:own", "machine": "m1", "sign_in": "out"},
    )


def test_a_missing_program_is_lacking_until_it_is_found(verbs: Verbs, sign_ins: SignIns) -> None:
    """It closes the harness, whatever its account is; without a task that was allowed there is nothing to find."""
    missing = HarnessState(harness="claude", machine="m1", present=False, detail="it is missing", at=verbs.clock.now())
    _ = verbs.store.transact("test", lambda tx: tx.accounts.record_harness(missing))
    signed_out(sign_ins)
    assert sign_ins.lacks() == []
    _ = waiting(verbs)
    (lack,) = sign_ins.lacks()
    assert (lack.harness, lack.state, lack.account_id) == ("claude", None, "claude:own")
    assert sign_ins.check_again(lack) is None


def test_an_older_look_changes_nothing(verbs: Verbs, sign_ins: SignIns) -> None:
    signed_out(sign_ins)
    earlier = SignInSeen(sign_in=SignIn.IN, at=verbs.clock.now() - timedelta(seconds=1))
    assert not verbs.store.transact("test", lambda tx: tx.accounts.observe("claude:own", "m1", earlier))


@pytest.mark.parametrize(
    ("account", "look"),
    [
        (Account(harness="claude", name="own"), SignInCheck(sign_in=SignIn.IN, detail="signed in")),
        (Account(harness="claude", name="gone"), SignInCheck(sign_in=SignIn.OUT, detail="The home of account claude:gone is gone: {homes}/claude/gone")),
        (Account(harness="unheard-of", name="own"), None),
        (Account(harness="claude", name="key"),
         SignInCheck(sign_in=SignIn.UNKNOWN, detail=f"it works with the key in {' or '.join(Claude.key_variables)}, which is not set here")),
    ],
)  # fmt: skip
def test_asking_says_what_keeps_the_program_from_being_asked(
    tmp_path: Path, files: Files, account: Account, look: SignInCheck | None
) -> None:
    homes = tmp_path / "homes"
    asker = Asker(
        harness=Registry().get, options=lambda name: {"of": name},
        accounts=AccountEnvironments(homes=AccountHomes(homes)), looker=files,
    )  # fmt: skip
    found = asker.ask(account, CALLER)
    if look is None:
        assert found.sign_in is SignIn.UNKNOWN and "unheard-of" in found.detail and not found.detail.endswith(".")
    else:
        assert found == replace(look, detail=look.detail.format(homes=homes))
    assert files.asked == ([(CALLER, {"of": "claude"})] if account.name == "own" and look is not None else [])
    with_key = asker.ask(Account(harness="claude", name="key"), CALLER | {Claude.key_variables[1]: "sk-test-1"})
    assert with_key == files.answer
