"""Looking at sign-ins from outside: what is reported, and that a change is noticed."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.claude_code import fetched

from watchkeeper.domain.account import SignIn
from watchkeeper.harnesses.claude import Claude
from watchkeeper.harnesses.command import CommandHarness
from watchkeeper.harnesses.demo import Demo
from watchkeeper.harnesses.sign_in import SignInLooker, run_login
from watchkeeper.ports.harness import Program
from watchkeeper.ports.sign_in import signs_in

LOOKER = SignInLooker(timeout_s=5)


def scripted(tmp_path: Path, body: str) -> dict[str, str]:
    """An environment in which `claude` is this shell script."""
    program = tmp_path / "claude"
    _ = program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo 1.0 && exit\n{body}\n')
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.defpath}", "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path)}


def look(environment: Mapping[str, str]) -> SignIn:
    """What is reported of Claude Code."""
    return LOOKER.check(Claude(), environment, {}).sign_in


@pytest.mark.parametrize(
    ("body", "told"), [("exit 0", SignIn.IN), ("exit 1", SignIn.OUT), ("exit 7", SignIn.UNKNOWN), ("kill -9 $$", SignIn.UNKNOWN)]
)  # fmt: skip
def test_the_programs_exit_code_tells(tmp_path: Path, body: str, told: SignIn) -> None:
    """Any other than 0 and 1 tells nothing."""
    assert look(scripted(tmp_path, body)) is told


def test_a_program_that_does_not_answer_tells_nothing(tmp_path: Path) -> None:
    """It is not waited for."""
    environment = scripted(tmp_path, "exec sleep 60")
    told = SignInLooker(timeout_s=0.2).check(Claude(), environment, {})
    assert told.sign_in is SignIn.UNKNOWN
    assert "did not answer" in told.detail


def test_a_missing_program_tells_nothing(tmp_path: Path) -> None:
    """And says so."""
    told = LOOKER.check(Claude(), {"PATH": str(tmp_path)}, {})
    assert told.sign_in is SignIn.UNKNOWN
    assert "missing" in told.detail


def test_a_key_in_the_environment_is_named_and_never_shown(tmp_path: Path) -> None:
    """The program is not even asked: it would say the same."""
    environment = {**scripted(tmp_path, "exit 1"), "ANTHROPIC_API_KEY": "sk-test-local"}
    told = LOOKER.check(Claude(), environment, {})
    assert told.sign_in is SignIn.IN
    assert "ANTHROPIC_API_KEY" in told.detail
    assert "sk-test" not in told.detail


def test_a_mark_changes_with_the_file_and_only_with_it(tmp_path: Path) -> None:
    """Written, replaced by one of the same size, removed."""
    environment, file = {"CLAUDE_CONFIG_DIR": str(tmp_path)}, tmp_path / ".credentials.json"
    marks = [LOOKER.stamp(Claude(), environment).text]
    _ = file.write_text("one")
    marks.append(LOOKER.stamp(Claude(), environment).text)
    assert LOOKER.stamp(Claude(), environment).text == marks[-1]
    other = tmp_path / "other"
    _ = other.write_text("two")
    os.utime(other, (1, 1))  # put back from a backup, with its old time
    _ = other.replace(file)
    now = LOOKER.stamp(Claude(), environment)
    assert now.changed_ns > 1e18
    file.unlink()
    marks += [now.text, LOOKER.stamp(Claude(), environment).text]
    assert marks[0] == marks[3] == ""
    assert len(set(marks)) == 3


def test_a_harness_that_says_nothing_of_sign_ins_is_unknown() -> None:
    """As users' own harnesses are."""
    assert signs_in(CommandHarness()) is None
    assert LOOKER.check(CommandHarness(), {}, {}).sign_in is SignIn.UNKNOWN


def test_the_demo_agents_sign_in_is_a_file(tmp_path: Path) -> None:
    """Without a home it needs none."""
    environment = {"DEMO_HOME": str(tmp_path)}
    assert LOOKER.check(Demo(), environment, {}).sign_in is SignIn.OUT
    (tmp_path / "signed-in").touch()
    assert LOOKER.check(Demo(), environment, {}).sign_in is SignIn.IN
    assert LOOKER.check(Demo(), {}, {}).sign_in is SignIn.IN


def test_the_login_is_the_programs_own() -> None:
    """Claude Code's needs a terminal."""
    program = Program(path="/bin/claude", version=None)
    assert Claude().login(program, terminal=True) == ("/bin/claude", "auth", "login")
    assert Claude().login(program, terminal=False) is None


@pytest.mark.claude
@pytest.mark.timeout(1200)
def test_the_real_program_says_whether_it_is_signed_in(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """A home without a sign-in, one with a pretended one, and asking changes neither's mark."""
    program = fetched(pytestconfig)
    environment = {"PATH": f"{program.parent}:{os.defpath}", "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path)}
    assert look(environment) is SignIn.OUT
    before = LOOKER.stamp(Claude(), environment)
    assert look(environment) is SignIn.OUT
    assert LOOKER.stamp(Claude(), environment) == before
    sign_in = (
        '{"claudeAiOauth": {"accessToken": "sk-test-local", "expiresAt": 9999999999999, "scopes": ["user:inference"]}}'
    )
    _ = (tmp_path / ".credentials.json").write_text(sign_in)
    assert LOOKER.stamp(Claude(), environment) != before
    assert look(environment) is SignIn.IN


def test_a_login_stands_in_no_project(tmp_path: Path) -> None:
    """A project's settings could name another service to sign in to."""
    _ = run_login(["/bin/sh", "-c", 'pwd >"$OUT"'], {"OUT": str(tmp_path / "out")})
    assert (tmp_path / "out").read_text() == "/\n"
