"""What an account makes of the environment that a task's agent gets."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.records import make_task

from watchkeeper.app.accounts import AccountEnvironments, HomeGone, with_keys
from watchkeeper.app.environments import EnvironmentUnknown, TaskEnvironments
from watchkeeper.domain.account import OWN, Account
from watchkeeper.errors import BadTask
from watchkeeper.harnesses.claude import Claude
from watchkeeper.harnesses.command import CommandHarness
from watchkeeper.harnesses.registry import Registry
from watchkeeper.runtimes.account_homes import AccountHomes
from watchkeeper.runtimes.environments import FileEnvironments

KEYED = Account(harness="claude", name="keyed", variables=("ANTHROPIC_API_KEY=WORK_KEY", "OTHER"))
CALLER = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "ANTHROPIC_API_KEY": "sk-test-mine",
    "CLAUDE_CODE_OAUTH_TOKEN": "sk-test-mine",
}


def environments(tmp_path: Path) -> AccountEnvironments:
    """Homes under the directory."""
    return AccountEnvironments(homes=AccountHomes(tmp_path))


def test_the_users_own_account_changes_nothing(tmp_path: Path) -> None:
    """An account of a harness that has no homes changes nothing either."""
    own = Account(harness="claude", name=OWN)
    assert environments(tmp_path).apply(Claude(), own, CALLER) == CALLER
    keys = Account(harness="command", name="k", variables=("TOKEN",))
    assert environments(tmp_path).apply(CommandHarness(), keys, CALLER) == CALLER


def test_another_account_has_its_home_and_no_key_of_somebody_else(tmp_path: Path) -> None:
    """A key that the account or the task names is theirs."""
    work = Account(harness="claude", name="work")
    accounts = environments(tmp_path)
    assert accounts.homes.make("claude", "work")
    home = str(tmp_path / "claude" / "work")
    kept = {"PATH": "/bin", "HOME": "/home/me", "CLAUDE_CONFIG_DIR": home}
    assert accounts.apply(Claude(), work, CALLER | {"CLAUDE_CONFIG_DIR": "/mine"}) == kept
    asked = accounts.apply(Claude(), work, CALLER, ("ANTHROPIC_API_KEY",))
    assert asked == kept | {"ANTHROPIC_API_KEY": "sk-test-mine"}
    named = accounts.apply(Claude(), replace(work, variables=("CLAUDE_CODE_OAUTH_TOKEN=X",)), CALLER)
    assert named == kept | {"CLAUDE_CODE_OAUTH_TOKEN": "sk-test-mine"}


def test_a_home_that_is_gone_is_said(tmp_path: Path) -> None:
    """And an account that is."""
    with pytest.raises(HomeGone, match="The home of account claude:work is gone"):
        _ = environments(tmp_path).apply(Claude(), Account(harness="claude", name="work"), CALLER)
    with pytest.raises(HomeGone, match="was removed"):
        _ = environments(tmp_path).apply(Claude(), None, CALLER)


def test_the_keys_of_an_account_come_under_the_names_that_its_program_knows() -> None:
    """One that is not set is named, without any value."""
    environ, names = with_keys(KEYED, CALLER | {"WORK_KEY": "sk-test-work", "OTHER": "x"})
    assert (environ["ANTHROPIC_API_KEY"], names) == ("sk-test-work", ("ANTHROPIC_API_KEY", "OTHER"))
    with pytest.raises(BadTask, match="from the variable WORK_KEY, which is not set"):
        _ = with_keys(KEYED, CALLER)


def test_a_task_from_another_machine_gets_the_keys_that_are_here(tmp_path: Path) -> None:
    """Under the right names; where they are missing, its environment is unknown."""
    spec = replace(make_task().spec, harness="claude", argv=(), account="keyed")
    task = replace(make_task(spec=spec), environment_machine="elsewhere")
    (tmp_path / "environments").mkdir()

    def task_environments(**more: str) -> TaskEnvironments:
        kept = FileEnvironments(tmp_path / "environments")
        return TaskEnvironments(environments=kept, machine="here", harness=Registry().get, environ=CALLER | more)

    assert (
        task_environments(WORK_KEY="sk-test-work", OTHER="x").for_task(task, KEYED)["ANTHROPIC_API_KEY"]
        == "sk-test-work"
    )
    with pytest.raises(EnvironmentUnknown, match="WORK_KEY"):
        _ = task_environments().for_task(task, KEYED)


def test_a_managed_home_is_deleted_and_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """What it points to belongs to another owner."""
    homes = AccountHomes(tmp_path / "accounts")
    assert homes.make("claude", "work")
    assert not homes.make("claude", "work")
    (Path(homes.path("claude", "work")) / "kept").touch()
    assert homes.delete("claude", "work")
    assert not homes.delete("claude", "work")
    (tmp_path / "mine").mkdir()
    Path(homes.path("claude", "work")).symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="symbolic link"):
        _ = homes.delete("claude", "work")
    assert (tmp_path / "mine").is_dir()
