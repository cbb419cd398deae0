"""An agent gives its secrets away; none of them gets into the database, into what is shown, into one of our logs or onto a command line."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from support.flow_words import daemon_log, go_file, let_go, refused
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import Run, RunState, TaskState
from watchkeeper.errors import Exit

AGENT = Path(__file__).parents[1] / "support" / "leaking_agent.py"

SECRETS = {
    "NPM_TOKEN": "kA1n4kZx2Lw9Rt5vkA",
    "MADE_UP": "v5tR9wL2xZk4nB2kQv5tR9w",
    "AWKWARD_SECRET": 'kC3"4kZ\\x2Lw/9R\tt5é😀kC3',
    "SPLIT_KEY": "kD4n4kZx2Lw9Rt5vkD4kDx",
    "FILE_TOKEN": "kE5n4kZx2Lw9Rt5vkE5",
    "CHILD_TOKEN": "kF6n4kZx2Lw9Rt5vkF6",
    "DEPLOY_KEY": "first kG7n4kZx2Lw9Rt\nsecond kH8n4kZx2Lw9Rt\nthird kI9n4kZx2Lw9Rt",
    "DATABASE_URL": "postgres://app:kJ1n4kZx2Lw9Rt@db.example.org/app",
    "PLAIN_NAME": "kK2n4kZx2Lw9Rt5vkK2",
    "FINAL_PASSWORD": "kL3n4kZx2Lw9Rt5vkL3",
    "CRASH_CREDENTIALS": "kM4n4kZx2Lw9Rt5vkM4",
}
"""What the agent gets, all made up. It turns MADE_UP around, so that no program can know that one but by its looks."""

TRACES = {
    "NPM_TOKEN": ["kA1n4kZx"],
    "MADE_UP": ["Qk2Bn4kZ", "v5tR9wL2"],
    "AWKWARD_SECRET": ["x2Lw", "kC3"],
    "SPLIT_KEY": ["kD4n4kZx2Lw", "9Rt5vkD4kDx"],
    "FILE_TOKEN": ["kE5n4kZx"],
    "CHILD_TOKEN": ["kF6n4kZx"],
    "DEPLOY_KEY": ["kG7n4kZx", "kH8n4kZx", "kI9n4kZx"],
    "DATABASE_URL": ["kJ1n4kZx"],
    "PLAIN_NAME": ["kK2n4kZx"],
    "FINAL_PASSWORD": ["kL3n4kZx"],
    "CRASH_CREDENTIALS": ["kM4n4kZx"],
}
"""Parts of each that survive any way of writing it. `x2Lw` of the awkward one is part of others, too: none may be seen."""

ASKED = tuple(word for name in SECRETS for word in ("--env", name))


@pytest.fixture
def rig(rig: Rig) -> Rig:
    """A rig in whose shell the secrets are set."""
    rig.settings = SECRETS
    return rig


def seen(text: str | bytes) -> list[str]:
    """Which secrets a text gives away."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return [name for name, traces in TRACES.items() if any(trace.encode() in data for trace in traces)]


def leaking(rig: Rig) -> str:
    """Hand the leaking agent over; returns the task's id."""
    done = rig.wk("run", "--json", *ASKED, "--", sys.executable, str(AGENT), str(go_file(rig)))
    assert seen(done.stdout + done.stderr) == []
    return str(json.loads(done.stdout)["id"])


def at_work(rig: Rig, task_id: str) -> Run:
    """The run, when it has given away all it gives away before it waits."""

    def run() -> Run | None:
        found = [run for run in rig.runs(task_id) if run.state is RunState.RUNNING]
        return found[0] if found and b"waiting\n" in rig.log(found[0]) else None

    return wait_until(run, within_s=30, what="the agent has said it all")


def everything_shown(rig: Rig, task_id: str) -> dict[str, bytes]:
    """What every command that looks prints, by its words."""
    commands = [
        ("logs", task_id), ("logs", "--raw", task_id), ("logs", "--json", task_id), ("logs", "--stderr", task_id),
        ("logs", "--stderr", "--raw", task_id), ("logs", "--tail", "2", task_id), ("logs", "--raw", "--tail", "3", task_id),
        ("show", task_id), ("show", "--json", task_id), ("events",), ("events", "--json", "--after", "0"), ("status",),
        ("status", "--json"), ("ls", "--all"), ("ls", "--all", "--json"), ("env", task_id), ("env", "--json", task_id),
    ]  # fmt: skip
    found: dict[str, bytes] = {}
    for command in commands:
        done = rig.wk(*command)
        found[" ".join(command)] = done.stdout + done.stderr
    return found


def stored(rig: Rig) -> dict[str, bytes]:
    """Every file of the state directory but those of executions and environments, which are for their owner alone and hold secrets by design."""
    files = [path for path in rig.state.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(rig.state)): path.read_bytes()
        for path in files
        if path.relative_to(rig.state).parts[0] not in {"executions", "environments"}
    }


def command_lines(rig: Rig) -> bytes:
    """The command lines of all processes but the agents' own."""
    agents, found = set(rig.survivors()), b""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in agents:
            try:
                found += (entry / "cmdline").read_bytes() + b"\n"
            except OSError:
                continue
    return found


def nothing_leaks(rig: Rig, task_id: str) -> None:
    """None of the secrets is in anything that is stored, shown or logged."""
    places = {**everything_shown(rig, task_id), **stored(rig), "the daemon's log": daemon_log(rig).encode()}
    assert {"wk.db", "logs " + task_id, "env --json " + task_id} <= places.keys()
    assert {place: names for place, data in places.items() if (names := seen(data))} == {}
    kept = [path for part in ("executions", "environments") for path in (rig.state / part).rglob("*")]
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept if not path.is_socket())


def test_what_an_agent_gives_away_goes_nowhere(rig: Rig) -> None:
    """While it works and when it has crashed; its environment is deleted then, and its log is hidden as before."""
    rig.start_daemon()
    task_id = leaking(rig)
    run = at_work(rig, task_id)
    assert len(seen(rig.log(run) + rig.log(run, "stderr"))) >= 7, "the agent itself did print them"
    assert seen(command_lines(rig)) == []
    nothing_leaks(rig, task_id)
    let_go(rig)
    followed = rig.wk("logs", "-f", "--raw", task_id)
    assert seen(followed.stdout) == [] and followed.stdout.count(b"[redacted ") >= 10
    task = rig.wait_resting(task_id)
    assert task.state is TaskState.FAILED
    assert task.reason.endswith("cannot sign in with [redacted CRASH_CREDENTIALS]"), task.reason
    outcome = rig.outcome(run.id)
    assert outcome is not None and outcome.changes is not None
    assert "In the end it was [redacted FINAL_PASSWORD]." in outcome.text
    assert [file.path for file in outcome.changes.files] == ["dump-[redacted FILE_TOKEN].txt"]
    assert any("[redacted CHILD_TOKEN]" in leftover.command for leftover in outcome.leftovers), outcome.leftovers
    shown = rig.wk("logs", "--raw", task_id).stdout.decode()
    for name in (
        "NPM_TOKEN",
        "AWKWARD_SECRET",
        "SPLIT_KEY",
        "DEPLOY_KEY",
        "DATABASE_URL",
        "PLAIN_NAME",
        "authorization header",
    ):
        assert f"[redacted {name}]" in shown, shown
    wait_until(lambda: not list((rig.state / "environments").iterdir()), within_s=20, what="the environment is deleted")
    nothing_leaks(rig, task_id)
    assert json.loads(rig.wk("env", "--json", task_id).stdout)["kept"] == "deleted"


def test_what_the_sweep_found_is_hidden(rig: Rig) -> None:
    """After `kill -9` of the shim the command lines of what it left go into the history."""
    rig.start_daemon()
    task_id = leaking(rig)
    run = at_work(rig, task_id)
    shim = json.loads((rig.state / "executions" / run.execution_id / "proc.json").read_bytes())["shim_pid"]
    os.kill(shim, signal.SIGKILL)
    _ = rig.wait_resting(task_id)
    assert b'"kind":"run.swept"' in rig.wk("events", "--json", "--after", "0").stdout
    nothing_leaks(rig, task_id)


def test_what_the_demo_agent_gives_away_goes_nowhere(rig: Rig) -> None:
    """In events: its words, what its tools answer, its final text, and the reason for which it failed."""
    rig.start_daemon()
    reads = "".join(f"read-env {name}\n" for name in SECRETS if name != "MADE_UP")
    script = (
        f'{reads}run printenv AWKWARD_SECRET DEPLOY_KEY; printenv NPM_TOKEN >&2\nrun : > "dump-$FILE_TOKEN.txt"\n'
        "run printenv FINAL_PASSWORD | base64\nread-env FINAL_PASSWORD\nfail refused\n"
    )
    done = rig.wk("run", "--harness", "demo", *ASKED, "--follow", "-f", "-", given=script.encode(), check=False)
    assert done.returncode == 1
    assert seen(done.stdout + done.stderr) == [] and done.stdout.count(b"[redacted ") >= 10
    (task,) = rig.tasks()
    assert b"kL3n" not in rig.wk("logs", "--raw", task.id).stdout
    nothing_leaks(rig, task.id)


@pytest.mark.parametrize(
    ("where", "command"),
    [
        ("The task", ("run", "--harness", "demo", "sign in with kA1n4kZx2Lw9Rt5vkA")),
        ("The task", ("run", "--harness", "demo", "clone https://me:Zk3x9Qw7Lm@example.org/x.git")),
        ("The title", ("run", "--harness", "demo", "--title", "use kA1n4kZx2Lw9Rt5vkA", "do it")),
        ("The model's name", ("run", "--harness", "demo", "--model", "kA1n4kZx2Lw9Rt5vkA", "do it")),
        ("The command line", ("run", "--", "curl", "-H", "Authorization: Bearer Zk3x9Qw7Lm2Pv5Rt8Yb1")),
        ("The command line", ("run", "--", "publish", "--auth-token", "Zk3x9Qw7Lm2Pv5Rt8Yb1")),
        ("The command line", ("run", "--", "env", "API_KEY=Zk3x9Qw7Lm2Pv5Rt8Yb1", "make")),
        ("came with a value", ("run", "--env", "NPM_TOKEN=kA1n4kZx2Lw9Rt5vkA", "--harness", "demo", "do it")),
        ("The account's name", ("account", "add", "demo", "sk-ant-api03-Zk3x9Qw7Lm2Pv5Rt8Yb1")),
        ("The name of a variable", ("account", "add", "demo", "x", "--env", "A_TOKEN=kA1n4kZx2Lw9Rt5vkA")),
        ("looks like a secret", ("account", "add", "demo", "x", "--env", "A=Zk3x9Qw7Lm2Pv5Rt8Yb1")),
        ("named twice", ("run", "--env", "NPM_TOKEN", "--env", "NPM_TOKEN", "--harness", "demo", "do it")),
    ],
)  # fmt: skip
def test_a_secret_that_would_be_stored_is_refused(rig: Rig, where: str, command: tuple[str, ...]) -> None:
    """Whether it is of the shell's environment or only looks like one: one sentence says where, never what, and nothing was stored."""
    refused(rig, *command, code=Exit.BAD_TASK, detail=where)
    done = rig.wk(*command, check=False)
    assert seen(done.stderr) == [] and b"Zk3x9" not in done.stderr
    assert rig.tasks() == []
    assert not any((rig.state / "environments").glob("*"))


def test_what_a_task_has_of_its_shell_is_named_and_never_told(rig: Rig) -> None:
    """Names, whether their values are hidden, and what became of it all; a name that the settings give too is not a mistake."""
    rig.settings = {**SECRETS, "WATCHKEEPER_ENVIRONMENT_NAMES": "PLAIN_NAME", "API_PIN": "1a2b", "PLACE": "/srv/place"}
    done = rig.wk("add", "--harness", "demo", "--env", "API_PIN", "--env", "PLACE", "--env", "PLAIN_NAME", "wait 0")
    task_id = done.stdout.decode().strip()
    told = json.loads(rig.wk("env", "--json", task_id).stdout)
    assert told["kept"] == "kept" and told["missing"] == []
    assert told["asked"] == ["PLAIN_NAME", "API_PIN", "PLACE"]
    values = {variable["name"]: variable["value"] for variable in told["variables"]}
    assert (values["PLAIN_NAME"], values["API_PIN"], values["PLACE"]) == ("hidden", "too short", "shown")
    assert values["HOME"] == "shown" and "NPM_TOKEN" not in values
    words = rig.wk("env", task_id).stdout.decode()
    assert told["file"] in words and "too short" in words and seen(words) == []
    Path(told["file"]).unlink()
    assert "missing     PLAIN_NAME, API_PIN, PLACE" in rig.wk("env", task_id).stdout.decode()


def test_a_task_is_not_renamed_to_a_secret(rig: Rig) -> None:
    """Nor edited to hold one."""
    task_id = rig.wk("add", "--harness", "demo", "do it").stdout.decode().strip()
    for words in (("rename", task_id), ("edit", task_id, "--title"), ("edit", task_id, "--label")):
        refused(rig, *words, SECRETS["NPM_TOKEN"], code=Exit.BAD_TASK, detail="NPM_TOKEN")
    nothing_leaks(rig, task_id)


def test_what_an_account_asks_for_is_hidden_whatever_it_is_called(rig: Rig) -> None:
    """Under the name that its program knows; also after the account is gone, as long as the log is there. Nor can a task hold it."""
    rig.settings = {"MY_GATEWAY": SECRETS["PLAIN_NAME"]}
    rig.wk("account", "add", "command", "work", "--env", "GATEWAY=MY_GATEWAY")
    refused(
        rig, "run", "--account", "work", "--", "echo", SECRETS["PLAIN_NAME"], code=Exit.BAD_TASK, detail="'GATEWAY'"
    )
    task_id = json.loads(rig.wk("add", "--json", "--account", "work", "--", "printenv", "GATEWAY").stdout)["id"]
    variables = json.loads(rig.wk("env", "--json", task_id).stdout)["variables"]
    assert [each["value"] for each in variables if each["name"] == "GATEWAY"] == ["hidden"]
    rig.start_daemon()
    _ = rig.wait_resting(task_id)
    rig.wk("account", "rm", "command:work")
    rig.settings = {}
    assert rig.wk("logs", "--raw", task_id).stdout == b"[redacted GATEWAY]\n"
    nothing_leaks(rig, task_id)
