"""Homes of the real programs, of which some are signed in to the stub model."""

import json
from pathlib import Path

import pytest
from support.claude_code import KEY, ClaudeRig
from support.codex import CodexRig
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import TaskState

pytestmark = [
    pytest.mark.claude,
    pytest.mark.codex,
    pytest.mark.timeout(1200),  # the first of these tests may have to fetch the program
]

GOOD, BAD = "sk-test-good", "sk-test-bad"
CHOOSY = {"turns": [{"text": "Done."}], "keys": [GOOD]}


def sign_in(rig: ClaudeRig, name: str, token: str) -> None:
    """What the program's own login leaves in a home."""
    kept = {
        "accessToken": token,
        "refreshToken": "sk-test-none",
        "expiresAt": 9999999999999,
        "scopes": ["user:inference"],
    }
    file = rig.state / "accounts" / "claude" / name / ".credentials.json"
    _ = file.write_text(json.dumps({"claudeAiOauth": kept}))


def state(rig: Rig, account: str) -> object:
    """What is known of an account."""
    rows = json.loads(rig.wk("account", "ls", "--json").stdout)
    return next(row["sign_in"] for row in rows if row["id"] == account)


def test_a_signed_out_account_waits_and_goes_on_after_a_sign_in(rig: ClaudeRig) -> None:
    """The caller's own key belongs to no account; a sign-in that the service refuses has one try; each account's conversations are in its own home."""
    rig.stub.board.add({"choosy": CHOOSY})
    for name in ("work", "other"):
        rig.wk("account", "add", "claude", name)
    sign_in(rig, "work", GOOD)
    waits = rig.give("choosy", "--expect", "answer", "--account", "other", sign_in=KEY)

    def runs(number: int) -> None:
        def back() -> bool:
            task = rig.task(waits)
            return (task.state, task.runs) == (TaskState.QUEUED, number)

        wait_until(back, within_s=60, what=f"it waits after run {number}")

    runs(1)
    assert rig.task(waits).reason.startswith("Not logged in (127.0.0.1")
    assert (
        rig.wait_resting(rig.give("choosy", "--expect", "answer", "--account", "work", sign_in=KEY)).state
        is TaskState.DONE
    )
    assert (state(rig, "claude:work"), state(rig, "claude:other")) == ("in", "out")
    sign_in(rig, "other", BAD)
    runs(2)
    assert "refused the sign-in" in rig.task(waits).reason
    rig.kill_daemon()
    sign_in(rig, "other", GOOD)
    assert rig.wait_resting(waits, within_s=60).state is TaskState.DONE
    assert rig.task(waits).runs == 3
    assert {request.credential for request in rig.requests("choosy")} <= {
        f"authorization: Bearer {GOOD}",
        f"authorization: Bearer {BAD}",
    }
    homes = rig.state / "accounts" / "claude"
    assert all(list((homes / name / "projects").iterdir()) for name in ("work", "other"))


def test_the_program_is_asked_whether_it_is_signed_in(rig: ClaudeRig, tmp_path: Path) -> None:
    """`wk account check` says it, by its exit code too."""
    home = tmp_path / "mine"
    home.mkdir()
    rig.wk("account", "add", "claude", "mine", "--home", str(home))
    out = rig.wk("account", "check", "claude:mine", check=False)
    assert out.returncode == 4
    assert b"claude:mine is not signed in" in out.stdout
    _ = (home / ".credentials.json").write_text(
        '{"claudeAiOauth": {"accessToken": "sk-test-x", "scopes": ["user:inference"]}}'
    )
    assert b"claude:mine is signed in" in rig.wk("account", "check", "claude:mine").stdout
    needs = rig.wk("account", "login", "claude:mine", check=False)
    assert needs.returncode == 2
    assert b"needs a terminal" in needs.stderr


def test_codex_signs_in_with_a_key_that_is_piped_in(codex_rig: CodexRig) -> None:
    """Into the account's home, closed to others; signing out in the program itself is seen, too."""
    rig = codex_rig
    rig.wk("account", "add", "codex", "work")
    assert rig.wk("account", "check", "codex:work", check=False).returncode == 4
    said = rig.wk("account", "login", "codex:work", given=b"sk-test-local\n")
    assert said.stdout.startswith(b"codex:work is signed in")
    assert b"sk-test-local" not in said.stdout + said.stderr
    kept = rig.state / "accounts" / "codex" / "work" / "auth.json"
    assert kept.stat().st_mode & 0o077 == 0
    assert state(rig, "codex:work") == "in"
    assert not (rig.root / "home" / ".codex" / "auth.json").exists()
    kept.unlink()
    assert rig.wk("account", "check", "codex:work", check=False).returncode == 4
    assert state(rig, "codex:work") == "out"
