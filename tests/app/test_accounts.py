"""Accounts: which are refused, what is kept of them, and what an unknown one is called."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from app.stage import Verbs
from support.records import add as add_task
from support.records import make_spec, make_task

from watchkeeper.app.accounts import add, check, find_any, implicit, key_of, remove, require, users
from watchkeeper.domain.account import Account
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import NotFound, Refused, UsageError, WatchkeeperError
from watchkeeper.harnesses.claude import Claude
from watchkeeper.harnesses.command import CommandHarness
from watchkeeper.ports.harness import Harness
from watchkeeper.runtimes.account_homes import AccountHomes

WORK = Account(harness="claude", name="work", variables=("OTHER=MINE",), by="ada")
NAMES = "Names are small letters, digits, dots, dashes and underscores, and begin with a letter or a digit."


def said(problem: WatchkeeperError) -> tuple[str, str]:
    """What a person reads: the sentence, and what to do next."""
    return str(problem), problem.hint


@pytest.mark.parametrize(
    ("harness", "given", "detail", "hint"),
    [
        (Claude(), {"name": "Work"}, "'Work' cannot be the name of an account.", NAMES),
        (Claude(), {"name": "a" * 65}, f"'{'a' * 64}' cannot be the name of an account.", NAMES),
        (Claude(), {"name": "-work"}, "'-work' cannot be the name of an account.", NAMES),
        (Claude(), {"harness": "my claude"}, "'my claude' cannot be the name of an harness.", NAMES),
        (Claude(), {"name": "own"}, "claude:own is your own home: it is there without being added.", "Choose another name."),
        (Claude(), {"name": "key"}, "claude:key is your own home: it is there without being added.", "Choose another name."),
        (Claude(), {"variables": ("A-B",)}, "'A-B' is neither NAME nor NAME=FROM.",
         "Give names of variables only; the values are taken from your environment when a task is handed over."),
        (Claude(), {"variables": ("9" * 61,)}, f"'{'9' * 60}' is neither NAME nor NAME=FROM.",
         "Give names of variables only; the values are taken from your environment when a task is handed over."),
        (Claude(), {"variables": ("B=X", "A", "B")}, "The variable 'B' is named twice.", "Name it once; was another one meant?"),
        (Claude(), {"variables": ("CLAUDE_CONFIG_DIR",)}, "An account cannot set the variable 'CLAUDE_CONFIG_DIR'.", "--home names its home."),
        (Claude(), {"variables": ("WATCHKEEPER_HOME=X",)}, "An account cannot set the variable 'WATCHKEEPER_HOME'.", "--home names its home."),
        (CommandHarness(), {"harness": "command", "variables": ()},
         "The harness command does not say where its program keeps a sign-in, so it has no homes to choose from.",
         "An account of it can still name a key: wk account add command work --env NAME=FROM"),
        (CommandHarness(), {"harness": "command", "home": "/"},
         "The harness command does not say where its program keeps a sign-in, so it has no homes to choose from.",
         "An account of it can still name a key: wk account add command work --env NAME=FROM"),
        (Claude(), {"home": "/not/there"}, "'/not/there' is not a directory.", "Make it, or leave --home out for a managed one."),
    ],
)  # fmt: skip
def test_an_account_that_cannot_be_is_refused(harness: Harness, given: dict[str, Any], detail: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(harness, replace(WORK, **given))
    assert said(caught.value) == (detail, hint)


def test_an_account_that_can_be_passes(tmp_path: Path) -> None:
    check(Claude(), WORK)
    check(Claude(), replace(WORK, name="9a.b_c-d" + "e" * 56, home=str(tmp_path), variables=("A", "B=A", "_c=d9")))
    check(CommandHarness(), Account(harness="command", name="k", variables=("TOKEN",)))


def test_a_home_that_every_user_may_write_to_is_refused(tmp_path: Path) -> None:
    """Another user could replace the sign-in there."""
    home = tmp_path / "a home"
    home.mkdir()
    home.chmod(0o702)
    with pytest.raises(UsageError) as caught:
        check(Claude(), replace(WORK, home=str(home)))
    assert said(caught.value) == (f"Everybody may write to '{home}'.", f"Close it: chmod o-w '{home}'")
    home.chmod(0o775)
    check(Claude(), replace(WORK, home=str(home)))


def history(verbs: Verbs) -> list[tuple[str, dict[str, Any]]]:
    """The journal, with its data."""
    return [(entry.kind, dict(entry.data)) for entry in verbs.store.read(lambda tx: tx.journal.after(0, 1000))]


def test_an_account_is_kept_once_and_its_managed_home_is_made(verbs: Verbs, tmp_path: Path) -> None:
    homes = AccountHomes(tmp_path / "accounts")
    (tmp_path / "accounts").mkdir()
    assert add(verbs.store, verbs.clock, homes, WORK)
    assert Path(homes.path("claude", "work")).is_dir()
    with pytest.raises(Refused) as caught:
        _ = add(verbs.store, verbs.clock, homes, WORK)
    hint = "`wk account show claude:work` tells what it is; or choose another name."
    assert said(caught.value) == ("There is an account claude:work already.", hint)
    elsewhere = replace(WORK, name="home", home=str(tmp_path))
    assert not add(verbs.store, verbs.clock, homes, elsewhere)
    assert not Path(homes.path("claude", "home")).exists()
    assert history(verbs) == [
        ("account.added", {"account": "claude:work", "home": None, "variables": ["OTHER=MINE"], "by": "ada"}),
        ("account.added", {"account": "claude:home", "home": str(tmp_path), "variables": ["OTHER=MINE"], "by": "ada"}),
    ]
    found = verbs.store.read(lambda tx: find_any(tx, "claude:home"))
    assert found is not None and (found.home, found.variables) == (str(tmp_path), ("OTHER=MINE",))


def test_an_account_is_removed_once_its_tasks_have_ended(verbs: Verbs, tmp_path: Path) -> None:
    homes = AccountHomes(tmp_path)
    _ = add(verbs.store, verbs.clock, homes, WORK)
    spec = make_spec(harness="claude", account="work")
    for number in range(7):
        _ = verbs.store.transact("test", lambda tx, n=number: add_task(tx, make_task(f"t{n}", spec=spec)))
    other = make_task("o1", spec=make_spec(harness="claude"))
    done = make_task("d1", spec=spec, state=TaskState.DONE, ended_at=verbs.clock.now())
    for task in (other, done):
        _ = verbs.store.transact("test", lambda tx, each=task: add_task(tx, each))
    named = [task.id for task in verbs.store.read(lambda tx: users(tx, "claude:work"))]
    assert sorted(named) == [f"t{number}" for number in range(7)]
    with pytest.raises(Refused) as caught:
        _ = remove(verbs.store, verbs.clock, "claude:work", "ada")
    detail = f"Tasks of account claude:work have not ended: {', '.join(named[:5])} and 2 more."
    assert said(caught.value) == (detail, "Stop them first, or wait for them.")
    with pytest.raises(NotFound) as missing:
        _ = remove(verbs.store, verbs.clock, "claude:none", "ada")
    listed = "There are: claude:own, claude:work. Add it: wk account add claude none"
    assert said(missing.value) == ("There is no account 'claude:none'.", listed)


def test_a_removed_account_is_gone_and_on_record(verbs: Verbs, tmp_path: Path) -> None:
    _ = add(verbs.store, verbs.clock, AccountHomes(tmp_path), WORK)
    assert verbs.store.read(lambda tx: require(tx, "claude:work")).variables == ("OTHER=MINE",)
    assert remove(verbs.store, verbs.clock, "claude:work", "bob").by == "ada"
    assert history(verbs)[-1] == ("account.removed", {"account": "claude:work", "by": "bob"})
    with pytest.raises(NotFound, match="There is no account 'claude:work'"):
        _ = verbs.store.read(lambda tx: require(tx, "claude:work"))
    assert verbs.store.read(lambda tx: require(tx, "codex:own")) == Account(harness="codex", name="own")


def test_an_account_works_with_a_key_that_it_names() -> None:
    """The one of the caller's environment, or a variable whose name the program knows."""
    first, second = Claude.key_variables[:2]
    own = implicit("claude:key")
    assert own is not None
    assert key_of(Claude(), own) == (first, " or ".join(Claude.key_variables))
    named = replace(WORK, variables=("OTHER=MINE", f"{second}=WORK_KEY"))
    assert key_of(Claude(), named) == (second, "WORK_KEY")
    assert key_of(Claude(), replace(WORK, variables=(second,))) == (second, second)
    assert key_of(Claude(), WORK) is None
    assert key_of(CommandHarness(), replace(named, harness="command")) is None
    assert implicit("claude:work") is None
