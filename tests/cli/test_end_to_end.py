"""The real `wk` as a process, with a real daemon, real shims and scripted agents."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.forks import start_program
from support.readable import wait_readable
from support.waiting import wait_until

QUICK = {
    "WATCHKEEPER_DAEMON_POLL": "0.5",
    "WATCHKEEPER_QUEUE_RETRY_BASE": "0.05",
    "WATCHKEEPER_QUEUE_PROBE_BASE": "0.5",
    "WATCHKEEPER_STOP_GRACE": "0.5",
}


@dataclass
class Real:
    """A scratch installation."""

    root: Path

    @property
    def environ(self) -> dict[str, str]:
        """Nothing of the person who runs the tests."""
        own = {"HOME": str(self.root / "home"), "WATCHKEEPER_HOME": str(self.root / "state")}
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": str(self.root / "run"),
            **own,
            **QUICK,
        }

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        """Call `wk` and continue."""
        return start_program(
            arguments,
            cwd=self.root / "work",
            env=self.environ,
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=options.pop("stderr", subprocess.PIPE),
            text=True,
            encoding="utf-8",
            **options,
        )

    def __call__(self, *arguments: str, code: int | None = 0) -> "subprocess.CompletedProcess[str]":
        """Call `wk` and expect an exit code."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=60)
        if code is not None:
            assert process.returncode == code, (arguments, out, err)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def add(self, *script: str, options: tuple[str, ...] = ()) -> str:
        """Hand a script over; returns its id."""
        return self("run", "--harness", "demo", *options, "--", "\n".join(script)).stdout.strip()

    def row(self, task_id: str) -> Any:
        """A task as `wk show --json` has it."""
        return json.loads(self("show", task_id, "--json").stdout)

    def becomes(self, task_id: str, shown: str) -> Any:
        """Wait until a task is shown so."""
        return wait_until(
            lambda: (row := self.row(task_id))["shown"] == shown and row, within_s=30, what=f"{task_id} is {shown}"
        )

    def printed(self, task_id: str, text: str) -> None:
        """Wait until an agent has printed something."""
        wait_until(lambda: text in self("logs", task_id).stdout, within_s=30, what=f"the agent prints {text}")

    def daemon(self) -> int | None:
        """The pid of the daemon."""
        return json.loads(self("daemon", "status", "--json", code=None).stdout)["pid"]


@pytest.fixture
def wk(tmp_path: Path) -> Iterator[Real]:
    """A scratch installation whose daemon and agents end with the test."""
    for name in ("home", "work", "run"):
        (tmp_path / name).mkdir(mode=0o700)
    real = Real(tmp_path)
    yield real
    # One that was killed left agents behind: a new one takes them over and ends them. One that still starts hears nothing yet.
    wait_until(
        lambda: (
            real("daemon", "start", code=None).returncode == 0
            and real("daemon", "stop", "--interrupt", code=None).returncode == 0
        ),
        within_s=60,
        what="the daemon and its agents end",
    )
    assert real.daemon() is None


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_way_of_a_task(wk: Real) -> None:
    """From the hand-over to what became of it."""
    (wk.root / "work" / "task.md").write_text("say working\nwrite made.txt\nsay finished", encoding="utf-8")
    done = wk("run", "--harness", "demo", "-f", "task.md", "--wait")
    task_id = done.stdout.split()[0]
    assert done.stdout == f"{task_id}\n{task_id}  done: 1 file changed\n"
    row = wk.row(task_id)
    assert (row["shown"], row["state"]) == ("done", "done")
    run = row["runs"][0]
    assert run["exit"]["code"] == 0 and run["outcome"]["proof"] == "proven"
    assert Path(run["stdout"]).is_file()
    shown = wk("show", task_id).stdout
    assert "proven: nothing of it is alive" in shown and "code 0" in shown
    logs = wk("logs", task_id).stdout
    assert "working" in logs and "▸ write made.txt" in logs and "finished" in logs
    assert b'"type"' in Path(run["stdout"]).read_bytes() and '"type"' in wk("logs", "--raw", task_id).stdout
    assert [json.loads(line)["run"] for line in wk("logs", "--json", "--tail", "2", task_id).stdout.splitlines()] == [
        1,
        1,
    ]
    assert wk("logs", "--run", "2", task_id, code=3).stdout == ""
    assert wk("logs", "--since", "1h", task_id).stdout == logs
    assert "daemon up" in wk("status").stdout


@pytest.mark.parametrize(
    ("script", "code", "word"),
    [("fail crash it broke", 1, "failed"), ("fail permission_denied", 10, "needs you"), ("no-result", 1, "failed")],
)
def test_exit_codes_tell_how_it_ended(wk: Real, script: str, code: int, word: str) -> None:
    """With `--wait`, with `--follow`, and with `wk wait`."""
    waited = wk("run", "--harness", "demo", "--retries", "0", "--wait", "--", f"say hello\n{script}", code=code)
    task_id = waited.stdout.split()[0]
    assert f"{task_id}  {word}" in waited.stdout
    wk("wait", task_id, code=code)
    followed = wk("run", "--harness", "demo", "--retries", "0", "--follow", "--", f"say hello\n{script}", code=code)
    assert "hello" in followed.stdout


def test_a_command_line_as_an_agent(wk: Real) -> None:
    """Its output, its errors, its exit code."""
    script = "cat; echo '\033[31mred'; echo wrong >&2; exit 3"
    answer = wk("run", "--retries", "0", "--wait", "the text", "--", "sh", "-c", script, code=1)
    task_id = answer.stdout.split()[0]
    assert "exit code 3" in answer.stdout
    assert wk("logs", task_id).stdout.startswith("the text")
    assert "\x1b" not in wk("logs", task_id).stdout
    assert "\x1b[31mred" in wk("logs", "--raw", task_id).stdout
    assert wk("logs", "--stderr", task_id).stdout == "wrong\n"
    assert "code 3" in wk("show", task_id).stdout


def test_a_retry_is_followed_into_its_next_run(wk: Real) -> None:
    """Each run under its heading, until the task rests."""
    answer = wk(
        "run",
        "--harness",
        "demo",
        "--expect",
        "answer",
        "--follow",
        "--",
        "say hello\nfail-once overloaded count.txt\nsay again",
    )
    assert answer.stdout.count("hello") == 2 and "again" in answer.stdout
    assert "── run 2 ──" in answer.stderr
    task_id = answer.stdout.split()[0]
    assert "again" not in wk("logs", "--run", "1", task_id).stdout
    assert wk.row(task_id)["run_count"] == 2


def test_stop_ends_the_agent_and_says_so(wk: Real) -> None:
    """It is dead when the command returns, and stays stopped until a person retries it."""
    task_id = wk.add("say ready", "hang")
    wk.printed(task_id, "ready")
    row = wk.becomes(task_id, "running")
    pid = row["evidence"]["agent_pid"]
    assert f"agent pid {pid}" in wk("show", task_id).stdout
    assert str(pid) in wk("stop", "--dry-run", task_id).stdout and _alive(pid)
    stopped = wk("stop", task_id)
    assert stopped.stdout == f"{task_id}  stopped\n"
    assert not _alive(pid)
    wk("wait", task_id, code=11)
    assert wk.row(task_id)["runs"][0]["outcome"]["proof"] == "proven"
    wk("retry", task_id)
    wk.becomes(task_id, "running")
    assert wk("kill", task_id).stdout == f"{task_id}  stopped\n"


def test_several_are_stopped_in_one_call(wk: Real) -> None:
    """Also one that ignores TERM."""
    first = wk.add("ignore TERM", "say ready", "hang")
    second = wk.add("say ready", "hang")
    for task_id in (first, second):
        wk.printed(task_id, "ready")
    assert wk("stop", first, second).stdout == f"{first}  stopped\n{second}  stopped\n"


def test_ctrl_c_detaches_and_stops_nothing(wk: Real) -> None:
    """While following, waiting, reading logs and events."""
    task_id = wk.add("say ready", "hang")
    wk.printed(task_id, "ready")
    followers = [
        wk.start("run", "--harness", "demo", "--follow", "--", "say ready\nhang"),
        wk.start("logs", "-f", task_id),
        wk.start("wait", task_id),
        wk.start("events", "-f", "--json"),
    ]
    wait_until(lambda: wk("ls", "--json").stdout.count('"shown": "running"') == 2, within_s=30, what="both run")
    for follower in followers:
        _is_waiting(follower)
        follower.send_signal(signal.SIGINT)
    for follower in followers:
        out, err = follower.communicate(timeout=30)
        assert follower.returncode == 130, (follower.args, out, err)
        assert "Detached" in err and "wk stop" in err and "Traceback" not in err
    assert wk.becomes(task_id, "running")["stop"] is None


def _is_waiting(process: "subprocess.Popen[str]") -> None:
    """Wait until a process watches directories: it has done its imports and its first look."""
    descriptors = Path(f"/proc/{process.pid}/fd")
    wait_until(
        lambda: any("inotify" in _target(each) for each in descriptors.iterdir()), within_s=30, what="it watches"
    )


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""


def test_following_is_told_by_the_kernel(wk: Real) -> None:
    """Lines arrive while the agent works, not when it ends."""
    task_id = wk.add("say first", "wait-for go.txt", "say second")
    follower = wk.start("logs", "-f", "--json", task_id)
    assert follower.stdout is not None
    lines: list[Any] = []
    while not lines or lines[-1]["text"] != "first":
        lines.append(json.loads(follower.stdout.readline()))
    assert follower.poll() is None
    (wk.root / "work" / "go.txt").touch()
    rest, _ = follower.communicate(timeout=30)
    assert follower.returncode == 0
    assert "second" in rest


def test_the_truth_is_shown_when_no_daemon_runs(wk: Real) -> None:
    """A daemon that was killed takes nothing with it; an agent whose shim was killed is called lost."""
    task_id = wk.add("say ready", "hang")
    wk.printed(task_id, "ready")
    row = wk.becomes(task_id, "running")
    pid = wk.daemon()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: wk.daemon() is None, what="the daemon is gone")
    listed = wk("ls")
    assert "running" in listed.stdout and "No daemon runs" in listed.stderr
    shim = int(
        Path(f"/proc/{row['evidence']['agent_pid']}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
    )
    os.kill(shim, signal.SIGKILL)
    assert wk.becomes(task_id, "lost?")["state"] == "running"
    assert wk.daemon() is None
    started = wk("daemon", "start", "-v")
    assert f"{task_id}.1  lost" in started.stdout
    assert wk.becomes(task_id, "held")["kind"] == "lost"
    assert task_id in wk("status").stdout


def test_the_daemon_from_the_command_line(wk: Real) -> None:
    """Started once, stopped once, each said."""
    assert "No daemon" in wk("daemon", "status", code=7).stdout
    assert "No daemon" in wk("daemon", "stop").stdout
    assert "was started (pid" in wk("daemon", "start").stdout
    assert "is running already" in wk("daemon", "start").stdout
    assert json.loads(wk("daemon", "status", "--json").stdout)["running"] is True
    assert wk("daemon", "run", code=7).stderr.startswith("wk: A daemon")
    assert wk("daemon", "stop", "--drain", "--interrupt", code=2).stdout == ""
    assert json.loads(wk("daemon", "stop", "--drain", "--json").stdout) == {
        "stopped": True,
        "working": 0,
        "unsettled": 0,
        "waiting": 0,
    }
    assert wk.daemon() is None


def test_an_agent_starts_no_daemon(wk: Real) -> None:
    """Not even by asking for one; looking is free, and ending one is refused."""
    wk("daemon", "start")
    wk("daemon", "stop")
    for command, code in (("start", 13), ("run", 13), ("stop", 8), ("status", 7)):
        process = subprocess.run(
            [sys.executable, "-m", "watchkeeper", "daemon", command],
            env={**wk.environ, "WATCHKEEPER_RUN": "abc.1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert process.returncode == code, (command, process)
    assert wk.daemon() is None


def test_the_demonstration(wk: Real) -> None:
    """The whole way, with the daemon killed in the middle, without a terminal."""
    began = time.monotonic()
    answer = wk("demo")
    assert time.monotonic() - began < 60
    task_id = re.search(r"Task (\w+) is on record", answer.stdout)
    assert task_id is not None
    for part in (
        "was just killed (SIGKILL",
        "What it says of the run: adopted",
        "added hello.txt",
        "wk show",
        "proven",
    ):
        assert part in answer.stdout, answer.stdout
    # On a machine that is busy with something else the agent may be through before the new daemon looks.
    assert re.search("What it says of the run: (adopted|ended meanwhile)", answer.stdout)
    (file,) = wk.row(task_id[1])["runs"][0]["outcome"]["changes"]["files"]
    assert (file["path"], file["change"], file["committed"]) == ("hello.txt", "added", False)


def test_the_demonstration_spares_other_work(wk: Real) -> None:
    """A daemon that has other tasks is not killed."""
    task_id = wk.add("say ready", "hang")
    wk.printed(task_id, "ready")
    pid = wk.daemon()
    answer = wk("demo")
    assert "other work of yours" in answer.stdout and "just killed" not in answer.stdout
    assert wk.daemon() == pid


def test_on_a_terminal(wk: Real) -> None:
    """Colour, one line of progress, an id with what to type next; no control codes of the agent's."""
    wk.add("say warm")
    seen = _on_terminal(wk, "run", "--harness", "demo", "--expect", "answer", "--", "say \x1b[2Jhello\nwait 0.5")
    assert "does what its script says" in seen and "may edit files" not in seen and "wk logs -f" in seen
    seen = _on_terminal(
        wk, "run", "--harness", "demo", "--expect", "answer", "--follow", "--", "say \x1b]0;owned\x07hello\nwait 1.5"
    )
    assert "␛]0;owned␇hello" in seen and "\x1b]0;" not in seen
    assert re.search(r"running · \d+ steps? · \d", seen)
    seen = _on_terminal(wk, "ls", "--all")
    assert "\x1b[32mdone\x1b[0m" in seen
    asked = _on_terminal(wk, "run", "hello", answers=b"demo\n")
    assert "Which agent shall do it?" in asked and "wk logs -f" in asked


def _on_terminal(wk: Real, *arguments: str, answers: bytes = b"") -> str:
    """What a person would see."""
    master, slave = pty.openpty()
    process = wk.start(*arguments, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    if answers:
        _ = os.write(master, answers)
    seen = b""
    while wait_readable(master, within_s=60):
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(master)
    assert process.wait(timeout=30) == 0, seen
    return seen.decode()
