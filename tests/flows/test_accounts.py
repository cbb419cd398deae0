"""Two accounts of one harness: the tasks of the one that is signed out wait, those of the other run, and after a sign-in all continue without a command."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.flow_words import refused
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import Task, TaskState
from watchkeeper.errors import Exit

TRANSCRIPTS = Path(__file__).parents[1] / "harnesses" / "claude" / "transcripts"


@pytest.fixture(autouse=True)
def untroubled(rig: Rig) -> Iterator[None]:
    """No loop of a daemon has failed in the end."""
    yield
    logs = [path.read_text() for path in (rig.root / "daemon.log", rig.state / "daemon.log") if path.exists()]
    assert "tick failed" not in "".join(logs)


def hand_over(rig: Rig, account: str, prompt: str = "say Done.", *options: str) -> str:
    """A task of the demo agent under an account."""
    what = ("--harness", "demo", "--account", account, "--expect", "answer")
    done = rig.wk("run", *what, "--json", *options, prompt)
    return str(json.loads(done.stdout.splitlines()[0])["id"])


def accounts(rig: Rig) -> dict[str, dict[str, object]]:
    """What `wk account ls` lists, by id."""
    return {str(row["id"]): row for row in json.loads(rig.wk("account", "ls", "--json").stdout)}


def home(rig: Rig, name: str) -> Path:
    """Where a managed home is."""
    return rig.state / "accounts" / "demo" / name


def waiting(rig: Rig, task_id: str, runs: int = 1) -> Task:
    """Wait until the task has had so many runs and waits again."""

    def back() -> Task | None:
        rig.keep_daemon()
        task = rig.task(task_id)
        return task if task.state is TaskState.QUEUED and task.runs == runs else None

    return wait_until(back, within_s=20, what=f"{task_id} waits after run {runs}")


def signed_in_and_out(rig: Rig) -> None:
    """Two accounts, of which the first is signed in."""
    for name in ("good", "bad"):
        rig.wk("account", "add", "demo", name)
    rig.wk("account", "login", "demo:good", given=b"a word\n")
    rig.start_daemon()


def test_tasks_of_a_signed_out_account_wait_and_those_of_another_run(rig: Rig) -> None:
    """The file of the sign-in appears, as if the program's own login had made it elsewhere; no message reaches the daemon, which died in between."""
    signed_in_and_out(rig)
    first, second = hand_over(rig, "bad"), hand_over(rig, "bad")
    waiting(rig, first)
    others = [hand_over(rig, "good") for _ in range(2)]
    for other in others:
        assert rig.wait_resting(other).state is TaskState.DONE
    seen = accounts(rig)
    assert [seen[f"demo:{name}"]["sign_in"] for name in ("good", "bad")] == ["in", "out"]
    assert [seen[f"demo:{name}"]["tasks"] for name in ("good", "bad")] == [0, 2]
    task = rig.task(first)
    assert task.attempts == 0
    assert "`wk account login demo:bad` signs in" in task.reason
    rig.kill_daemon()
    (home(rig, "bad") / "signed-in").touch()
    for each in (first, second):
        assert rig.wait_resting(each).state is TaskState.DONE
    assert accounts(rig)["demo:bad"]["sign_in"] == "in"


def test_a_change_of_the_sign_in_allows_one_try_and_no_more(rig: Rig) -> None:
    """The service refuses what the file holds, so the program says "signed in" and every run is refused."""
    signed_in_and_out(rig)
    task_id = hand_over(rig, "good", "fail signed_out")
    waiting(rig, task_id)
    for tries in (2, 3):
        (home(rig, "good") / "signed-in").write_text(f"another one, {tries}")
        waiting(rig, task_id, tries)
    marker = hand_over(rig, "own")  # time for the daemon to look, more than once
    assert rig.wait_resting(marker).state is TaskState.DONE
    looks = [entry for entry in rig.journal() if entry.kind == "account.seen" and entry.data.get("sign_in") == "in"]
    assert rig.task(task_id).runs == 3
    assert len([entry for entry in looks if entry.data["account"] == "demo:good"]) == 3, "the login, and two changes"


@pytest.mark.parametrize("what", ["file", "link"])
def test_a_login_says_what_stands_in_the_place_of_a_home(rig: Rig, what: str) -> None:
    """A file, or a link to a directory that is gone; when it is taken away, a login makes the home again."""
    rig.wk("account", "add", "demo", "work")
    place = home(rig, "work")
    place.rmdir()
    place.touch() if what == "file" else place.symlink_to(rig.root / "nowhere")
    refused(rig, "account", "login", "demo:work", code=Exit.STATE, detail="home of account demo:work is gone")
    place.unlink()
    assert b"demo:work is signed in" in rig.wk("account", "login", "demo:work", given=b"a word\n").stdout


def test_a_login_lets_the_tasks_go_on(rig: Rig) -> None:
    """The daemon is poked by the command."""
    signed_in_and_out(rig)
    task_id = hand_over(rig, "bad")
    waiting(rig, task_id)
    assert b"is not signed in" in rig.wk("account", "login", "demo:bad", given=b"\n", check=False).stdout
    said = rig.wk("account", "login", "demo:bad", given=b"a word\n").stdout
    assert said.startswith(b"demo:bad is signed in")
    assert rig.wait_resting(task_id).state is TaskState.DONE


def test_a_home_that_is_gone_keeps_its_tasks_waiting(rig: Rig) -> None:
    """Nothing is lost, and they continue when it is back."""
    mine = rig.root / "mine"
    mine.mkdir()
    (mine / "signed-in").touch()
    rig.wk("account", "add", "demo", "mine", "--home", str(mine))
    rig.start_daemon()
    mine.rename(rig.root / "away")
    task_id = hand_over(rig, "mine")
    task = waiting(rig, task_id)
    assert task.reason.startswith(f"The home of account demo:mine is gone: {mine}.")
    assert task.attempts == 0
    shown = rig.wk("account", "show", "demo:mine").stdout.decode()
    assert "which is not there" in shown
    (rig.root / "away").rename(mine)
    assert rig.wait_resting(task_id).state is TaskState.DONE


def test_an_account_with_open_tasks_is_not_removed(rig: Rig) -> None:
    """They are named; its home stays unless it is wanted gone, and a task that comes back to it later says so."""
    signed_in_and_out(rig)
    task_id = hand_over(rig, "bad")
    waiting(rig, task_id)
    refused = rig.wk("account", "rm", "demo:bad", check=False)
    assert refused.returncode == 8
    assert task_id.encode() in refused.stderr
    rig.wk("stop", task_id)
    assert f"Its home stays: {home(rig, 'bad')}".encode() in rig.wk("account", "rm", "demo:bad").stdout
    assert home(rig, "bad").is_dir()
    again = rig.wk("retry", task_id, check=False)
    assert again.returncode == 3
    assert b"There is no account 'demo:bad'" in again.stderr
    rig.wk("account", "add", "demo", "bad")
    rig.wk("account", "rm", "demo:bad", "--delete-home")
    assert not home(rig, "bad").exists()


def test_an_accounts_key_comes_from_the_callers_variable(rig: Rig) -> None:
    """Under the name that its agents know; the user's own variable of that name is not taken, and no key is in the database."""
    rig.wk("account", "add", "demo", "keyed", "--env", "SERVICE_KEY=WORK_KEY", "--env", "OTHER")
    rig.wk("account", "login", "demo:keyed", given=b"a word\n")
    missing = rig.wk("run", "--account", "demo:keyed", "read-env SERVICE_KEY", check=False)
    assert missing.returncode == 5
    assert b"from the variable WORK_KEY, which is not set" in missing.stderr
    rig.settings = {"WORK_KEY": "sk-test-work", "OTHER": "x", "SERVICE_KEY": "sk-test-wrong"}
    task_id = hand_over(rig, "keyed", "read-env SERVICE_KEY\nread-env WORK_KEY")
    rig.wait_resting(task_id)
    log = rig.log(rig.runs(task_id)[0]).decode()
    assert "SERVICE_KEY=sk-test-work" in log
    assert "WORK_KEY is not set" in log
    assert b"sk-test-work" not in (rig.state / "wk.db").read_bytes()


def test_the_default_account_is_set_for_each_harness(rig: Rig) -> None:
    """And a flag wins over it."""
    signed_in_and_out(rig)
    rig.settings = {"WATCHKEEPER_HARNESS_DEMO_ACCOUNT": "good"}
    task_id = str(
        json.loads(
            rig.wk("run", "--harness", "demo", "--expect", "answer", "--json", "say Done.").stdout.splitlines()[0]
        )["id"]
    )
    assert rig.wait_resting(task_id).spec.account == "good"
    assert rig.wait_resting(hand_over(rig, "demo:own")).spec.account == "own"
    wrong = rig.wk("run", "--harness", "demo", "--account", "claude:good", "say Done.", check=False)
    assert wrong.returncode == 2


def test_a_home_is_closed_to_others(rig: Rig) -> None:
    """All the way up."""
    rig.wk("account", "add", "demo", "good")
    for directory in (home(rig, "good"), home(rig, "good").parent, home(rig, "good").parent.parent):
        assert directory.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(home(rig, "good"))
    rig.wk("account", "login", "demo:good", given=b"a word\n")
    assert (home(rig, "good") / "signed-in").exists()


@pytest.mark.parametrize("isolation", ["strict", "project"])
def test_a_harness_that_isolates_nothing_says_so(rig: Rig, isolation: str) -> None:
    """Instead of pretending."""
    refused = rig.wk("run", "--harness", "demo", "--isolation", isolation, "say Done.", check=False)
    assert refused.returncode == 2
    assert b"has no isolation" in refused.stderr


def replaying(rig: Rig, transcript: str) -> Path:
    """A program `claude` that prints what the real one did; its directory comes first on PATH."""
    directory = rig.root / "bin"
    directory.mkdir(exist_ok=True)
    program, recorded = directory / "claude", TRANSCRIPTS / f"{transcript}.jsonl"
    words = (
        f'#!/bin/sh\n[ "$1" = --version ] && echo 1.0 && exit\n[ "$1" = auth ] && exit 1\n'
        f"cat >/dev/null\ntail -n +2 {recorded}\n"
    )
    _ = program.write_text(words)
    program.chmod(0o755)
    rig.settings = {**rig.settings, "PATH": f"{directory}:{rig.environment['PATH']}"}
    return program


def claude_task(rig: Rig) -> str:
    """A task of that program under the user's own account."""
    return str(
        json.loads(
            rig.wk("run", "--harness", "claude", "--expect", "answer", "--json", "Do it.").stdout.splitlines()[0]
        )["id"]
    )


def test_tasks_wait_for_a_missing_program_and_go_on_when_it_is_there(rig: Rig) -> None:
    """It was there when the task was handed over."""
    rig.settings = {"WATCHKEEPER_QUEUE_LIMIT": "1"}
    program = replaying(rig, "answer_only")
    rig.start_daemon()
    first = hand_over(rig, "own", f"wait-for {rig.root / 'go'}\nsay Done.")
    task_id = claude_task(rig)
    away = program.rename(program.with_name("away"))
    (rig.root / "go").touch()
    task = waiting(rig, task_id)
    assert (task.kind, task.attempts) == (FailureKind.PROGRAM_MISSING, 0)
    assert rig.wait_resting(first).state is TaskState.DONE
    rig.kill_daemon()
    away.rename(program)
    assert rig.wait_resting(task_id).state is TaskState.DONE


def test_a_refused_key_is_its_tasks_own(rig: Rig) -> None:
    """A person is asked for another, and tasks that use the sign-in of the home do not wait."""
    _ = replaying(rig, "not_logged_in")
    rig.settings = {**rig.settings, "ANTHROPIC_API_KEY": "sk-test-refused"}
    rig.start_daemon()
    task = rig.wait_resting(claude_task(rig))
    assert (task.state, task.kind) == (TaskState.NEEDS_INPUT, FailureKind.SIGNED_OUT)
    assert task.reason.endswith(f"Check the key, then `wk retry {task.id}`.")
    assert accounts(rig)["claude:own"]["sign_in"] == "unknown"
    rig.settings = {name: value for name, value in rig.settings.items() if name != "ANTHROPIC_API_KEY"}
    other = claude_task(rig)
    waiting(rig, other)
    assert accounts(rig)["claude:own"]["sign_in"] == "out"
    status = rig.wk("status").stdout.decode()
    assert "claude:own is signed out; 1 task. Sign in: wk account login claude:own" in status


def test_a_task_with_a_key_does_not_wait_for_the_sign_in_of_the_home(rig: Rig) -> None:
    """It works under an account of its own, which no person adds; asked for again without any key it is refused."""
    program = replaying(rig, "not_logged_in")
    rig.start_daemon()
    out = claude_task(rig)
    waiting(rig, out)
    text = program.read_text()
    good = f'[ -n "$ANTHROPIC_API_KEY" ] && exec tail -n +2 {TRANSCRIPTS}/answer_only.jsonl\n'
    _ = program.write_text(text.replace("tail", f"{good}tail", 1))
    plain = rig.settings
    rig.settings = {**plain, "ANTHROPIC_API_KEY": "sk-test-fine"}
    keyed = rig.wait_resting(claude_task(rig))
    assert (keyed.state, keyed.spec.account) == (TaskState.DONE, "key")
    assert accounts(rig)["claude:key"]["sign_in"] == "in"
    assert re.search(r"^claude:key +works +\d+s ", rig.wk("account", "ls").stdout.decode(), re.MULTILINE)
    assert re.search(r"works, seen \d+s ago", rig.wk("account", "show", "claude:key").stdout.decode())
    assert rig.task(out).state is TaskState.QUEUED
    said = rig.wk("run", "--harness", "claude", "--dry-run", "Do it.").stderr.decode()
    assert "your key" in said.splitlines()[0] and "account    a key of your environment" in said
    rig.settings = plain
    refused = rig.wk("retry", keyed.id, check=False)
    assert refused.returncode == 5
    assert b"works with a key of your environment, and none is set" in refused.stderr
    assert rig.wk("account", "add", "claude", "key", check=False).returncode == 2


LOGIN = """\
#!/bin/sh
case "$1 $2" in
"--version ") echo 1.0 ;;
"auth login") [ -t 0 ] && [ -t 1 ] || exit 7; shift 2; printf 'Code for %s: ' "$*"; read -r code; echo "$code" > "$CLAUDE_CONFIG_DIR/.credentials.json" ;;
"auth status") [ -s "$CLAUDE_CONFIG_DIR/.credentials.json" ] ;;
esac
"""


def test_the_programs_own_login_has_the_terminal(rig: Rig) -> None:
    """With what follows `--`; without a terminal it is refused before anything is started."""
    program = replaying(rig, "answer_only")
    _ = program.write_text(LOGIN)
    rig.wk("account", "add", "claude", "work")
    refused = rig.wk("account", "login", "claude:work", check=False)
    assert refused.returncode == 2
    assert b"needs a terminal" in refused.stderr
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "watchkeeper", "account", "login", "claude:work", "--", "--sso"]
    with subprocess.Popen(
        command, env=rig.environment, cwd=rig.repo, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as login:
        os.close(theirs)
        said = b""
        while b"Code for --sso: " not in said:
            said += os.read(ours, 1000)
        os.write(ours, b"a secret code\n")
        with contextlib.suppress(OSError):  # what a terminal says whose other end is closed
            while data := os.read(ours, 1000):
                said += data
        assert login.wait() == 0
    os.close(ours)
    assert b"claude:work is signed in" in said
    assert (rig.state / "accounts" / "claude" / "work" / ".credentials.json").read_text() == "a secret code\n"
    assert accounts(rig)["claude:work"]["sign_in"] == "in"
    assert b"a secret code" not in (rig.state / "wk.db").read_bytes()


def test_a_persons_word_tries_a_limit_again(rig: Rig) -> None:
    """Of ten years, or because more was bought; if it is refused once more, the account is closed once more."""
    rig.start_daemon()
    rig.wk("account", "add", "demo", "work")
    rig.wk("account", "login", "demo:work", given=b"a word\n")
    task_id = hand_over(rig, "work", "quota 315360000")
    _ = waiting(rig, task_id)
    assert "limit" in rig.wk("why", task_id).stdout.decode()
    rig.wk("retry", task_id)
    _ = waiting(rig, task_id, runs=2)
    rig.wk("edit", task_id, "--prompt", "say Done.")
    rig.wk("retry", task_id)
    assert rig.wait_resting(task_id).state is TaskState.DONE
