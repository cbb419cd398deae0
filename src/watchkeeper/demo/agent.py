"""A scripted agent: a real process that does what its prompt says, one instruction a line.

It is run by path with `python -I -S`, so it imports the standard library only. Like a real agent
program it prints one JSON object a line, starts shell tools in sessions of their own, and says with a final `result` event
how it went. A prompt in plain prose gets a little story instead, so that a whole run can be seen without a model.

The whole script is read before anything of it is done. Nothing that it leaves behind lives longer than `MAX_LIFE_S`.
"""

import itertools
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

MAX_LIFE_S, POLL_S = 3600.0, 0.01
TOOL_TEXT = 4000
"""Characters of a tool's output that are printed."""
_KINDS = """signed_out quota overloaded network context_full turn_limit budget permission_denied bad_request program_missing directory_missing
directory_changed program_broken sandbox crash deadline silence refused nothing_recorded nothing_changed asked never_launched lost interrupted stopped
environment_unknown session_gone setup_failed check_failed check_not_run unknown"""
KINDS = frozenset(_KINDS.split())
"""Failure kinds that a script may name."""


class Bad(Exception):  # noqa: N818 - a mistake in a script, not an error of the program
    """A line of the script cannot be done."""


class ToolFailed(Exception):  # noqa: N818 - the result of a tool, not an error of the program
    """A command ended with another code than 0; the agent sees it and continues."""


class Agent:
    """What the instructions act on: one method each."""

    def __init__(self, prompt: str, pace: float) -> None:
        self.prompt = prompt
        self.pace = pace
        self.text = ""
        self.used = [0, 0, 0.0]

    def emit(self, event_type: str, **values: object) -> None:
        """Print one event at once."""
        event = {"type": event_type, "at": datetime.now(UTC).isoformat(), **values}
        sys.stdout.buffer.write(json.dumps(event).encode() + b"\n")
        sys.stdout.buffer.flush()

    def result(self, *, kind: str | None = None, text: str = "", **more: object) -> NoReturn:
        """Print the final event and end."""
        self.emit("result", ok=kind is None, kind=kind, text=text or self.text, **more)
        sys.exit(0 if kind is None else 1)

    def tool(self, name: str, told: str, act: Callable[[], str]) -> None:
        """Do something as a tool, telling before and after."""
        self.emit("tool", name=name, text=told)
        try:
            self.emit("tool_result", name=name, ok=True, text=act()[-TOOL_TEXT:])
        except (OSError, ToolFailed) as error:
            self.emit("tool_result", name=name, ok=False, text=str(error)[-TOOL_TEXT:])
            if isinstance(error, OSError):
                raise

    def say(self, text: str) -> None:
        """Print the text; the last one is the text of the result."""
        self.text = text
        self.emit("text", text=text)

    def require_sign_in(self) -> None:
        """Pretend to need a sign-in, if there is a home to have it in."""
        home = os.environ.get("DEMO_HOME")
        if home and not os.path.lexists(f"{home}/signed-in"):
            self.result(kind="signed_out", text="Not signed in.")

    def echo_prompt(self) -> None:
        """Say the whole prompt."""
        self.say(self.prompt)

    def read_env(self, name: str) -> None:
        """Say the value of an environment variable, or that it is not set."""
        value = os.environ.get(name)
        self.say(f"{name} is not set" if value is None else f"{name}={value}")

    def stderr(self, text: str) -> None:
        """Print the text on standard error."""
        sys.stderr.buffer.write(text.encode() + b"\n")
        sys.stderr.buffer.flush()

    def print_bytes(self, count: str) -> None:
        """Print at least so many bytes of output that means nothing."""
        left = int(count)
        while left > 0:
            size = min(left, 8000)
            self.emit("output", data="x" * size)
            left -= size

    def usage(self, tokens_in: str, tokens_out: str, cost: str | None) -> None:
        """Add tokens, and dollars, to what was used, and tell the sum."""
        self.used = [self.used[0] + int(tokens_in), self.used[1] + int(tokens_out), self.used[2] + float(cost or 0)]
        used_in, used_out, used_cost = self.used
        self.emit("usage", input_tokens=used_in, output_tokens=used_out, cost_usd=used_cost)

    def write(self, path: str, text: str | None) -> None:
        r"""Write a file, and the directories above it; `\n` in the text is a line end."""
        self.tool("write", path, lambda: _put(path, text, "w"))

    def append(self, path: str, text: str | None) -> None:
        """Add a line to a file."""
        self.tool("append", path, lambda: _put(path, text, "a"))

    def delete(self, path: str) -> None:
        """Delete a file."""

        def act() -> str:
            Path(path).unlink()
            return f"deleted {path}"

        self.tool("delete", path, act)

    def run(self, command: str) -> None:
        """Run a shell command, in a session of its own; its exit code does not end the script."""
        self.tool("run", command, lambda: _shell(["/bin/sh", "-c", command]))

    def commit(self, message: str) -> None:
        """Commit everything with git."""
        git = shutil.which("git")
        if git is None:
            msg = "git is not installed"
            raise Bad(msg)
        who = ["-c", "user.name=Demo agent", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false"]
        add, commit = [git, "add", "-A"], [git, *who, "commit", "-q", "-m", message]
        self.tool("commit", message, lambda: _shell(add) + _shell(commit))

    def wait(self, seconds: str) -> None:
        """Wait."""
        time.sleep(float(seconds))

    def wait_for(self, path: str) -> None:
        """Wait until the path exists."""
        until = time.monotonic() + MAX_LIFE_S
        while not os.path.lexists(path) and time.monotonic() < until:
            time.sleep(POLL_S)

    def hang(self) -> None:
        """Wait, for an hour at most, and say nothing."""
        time.sleep(MAX_LIFE_S)

    def ignore(self, name: str) -> None:
        """Ignore a signal such as TERM from now on."""
        signal.signal(_signal(name), signal.SIG_IGN)

    def fork(self, count: str) -> None:
        """Leave so many children that sleep, in the same session."""
        self.emit("processes", pids=[_sleeper() for _ in range(int(count))])

    def double_fork(self, count: str, ignore: str | None) -> None:
        """Leave so many grandchildren that sleep, in sessions of their own."""
        self.emit("processes", pids=[_grandchild(ignore_term=ignore is not None) for _ in range(int(count))])

    def leave_child(self, seconds: str) -> None:
        """Leave a child, in a session of its own, that lives so long."""
        child = subprocess.Popen(["/bin/sleep", seconds], stdin=subprocess.DEVNULL, start_new_session=True)
        child.returncode = 0  # it is meant to outlive us: no complaint at the end
        self.emit("processes", pids=[child.pid])

    def exit(self, code: str) -> None:
        """End with this exit code, without a final event."""
        sys.exit(int(code))

    def no_result(self) -> None:
        """End with exit code 0, without a final event."""
        sys.exit(0)

    def die(self, name: str) -> None:
        """End by this signal, sent to itself."""
        number = _signal(name)
        if number not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    def fail(self, kind: str, text: str | None) -> None:
        """End with a final event of this failure kind."""
        self.result(kind=_kind(kind), text=text or f"The script says: fail {kind}.")

    def fail_once(self, kind: str, path: str, times: str | None) -> None:
        """Fail in the first run, or in the first TIMES runs, counted in the length of the file; then continue."""
        _kind(kind)
        counter = Path(path)
        failed = counter.stat().st_size if counter.exists() else 0
        if failed >= int(times or 1):
            return
        _put(path, "x" * (failed + 1), "w", end="")
        self.fail(kind, f"The script says: fail {kind}, time {failed + 1} of {times or 1}.")

    def quota(self, seconds: str) -> None:
        """End with a final event that says the limit is used up for so long."""
        until = datetime.now(UTC) + timedelta(seconds=float(seconds))
        self.result(kind="quota", text="The script says: the limit is used up.", until=until.isoformat())

    def retry_event(self, kind: str) -> None:
        """Print that the service failed in this way and will be tried again, and hang."""
        self.emit("retry", kind=_kind(kind), text=f"The script says: {kind}, trying again.")
        self.hang()

    def story(self) -> None:
        """What a newcomer sees who gives a prompt in prose: about five seconds, one file, one command, no model."""
        asked = next((line.strip() for line in self.prompt.splitlines() if line.strip()), "nothing in particular")[:200]
        self.say("I am the demo agent: I follow a script, ask no model, and cost nothing.")
        time.sleep(self.pace)
        self.tool("list", ".", _listing)
        time.sleep(self.pace)
        self.say(f"You asked: “{asked}”. I cannot do that, but I can show you what a run looks like.")
        time.sleep(self.pace)
        name = _free_name("hello", ".txt")
        self.tool("write", name, lambda: _put(name, f"Hello from the demo agent.\nYou asked: {asked}", "x"))
        time.sleep(self.pace)
        self.run(f"wc -c {name}")
        time.sleep(self.pace)
        self.usage("1200", "340", "0")
        self.say(f"Done: I wrote {name}. With a real harness this is where the agent's own summary stands.")


def _put(path: str, text: str | None, mode: str, end: str = "\n") -> str:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    content = (text or "").replace("\\n", "\n") + end
    with target.open(mode, encoding="utf-8") as out:
        out.write(content)
    return f"{len(content)} characters in {path}"


def _shell(argv: list[str]) -> str:
    # In a session of its own, as real programs start their tools. The output goes to a file: a child of the command that
    # keeps a pipe open would keep us.
    with tempfile.TemporaryFile() as out:
        done = subprocess.run(
            argv, check=False, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        out.seek(max(0, out.seek(0, os.SEEK_END) - TOOL_TEXT))
        text = out.read().decode("utf-8", "replace")
    if done.returncode != 0:
        raise ToolFailed(f"{text}[exit code {done.returncode}]")
    return text


def _listing() -> str:
    names = sorted(entry.name for entry in Path().iterdir())
    return f"{len(names)} names{': ' * bool(names)}{', '.join(names[:20])}{' …' if len(names) > 20 else ''}"


def _free_name(stem: str, suffix: str) -> str:
    names = (f"{stem}{f'-{number}' if number > 1 else ''}{suffix}" for number in itertools.count(1))
    return next(name for name in names if not os.path.lexists(name))


def _sleeper(*, ignore_term: bool = False) -> int:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN if ignore_term else signal.SIG_DFL)
        time.sleep(MAX_LIFE_S)
        os._exit(0)
    return pid


def _grandchild(*, ignore_term: bool) -> int:
    out, told = os.pipe()
    middle = os.fork()
    if middle == 0:
        os.setsid()
        os.write(told, str(_sleeper(ignore_term=ignore_term)).encode())
        os._exit(0)
    os.waitpid(middle, 0)  # it has told by then; the pipe's other end stays open in the grandchild
    pid = int(os.read(out, 20))
    os.close(out)
    os.close(told)
    return pid


def _signal(name: str) -> signal.Signals:
    try:
        return signal.Signals["SIG" + name.upper().removeprefix("SIG")]
    except KeyError:
        msg = f"there is no signal {name}"
        raise Bad(msg) from None


def _kind(name: str) -> str:
    if name not in KINDS:
        msg = f"there is no failure kind {name}"
        raise Bad(msg)
    return name


TABLE: dict[str, tuple[str, str, Callable[..., None]]] = {
    "say": ("TEXT", r"(.+)", Agent.say),
    "echo-prompt": ("", r"", Agent.echo_prompt),
    "read-env": ("NAME", r"(\w+)", Agent.read_env),
    "stderr": ("TEXT", r"(.+)", Agent.stderr),
    "print": ("N [bytes]", r"(\d+)(?: bytes)?", Agent.print_bytes),
    "usage": ("IN OUT [COST]", r"(\d+) (\d+)(?: (\d+(?:\.\d+)?))?", Agent.usage),
    "write": ("PATH [TEXT]", r"(\S+)(?: (.*))?", Agent.write),
    "append": ("PATH [TEXT]", r"(\S+)(?: (.*))?", Agent.append),
    "delete": ("PATH", r"(\S+)", Agent.delete),
    "run": ("COMMAND", r"(.+)", Agent.run),
    "commit": ("MESSAGE", r"(.+)", Agent.commit),
    "wait": ("SECONDS", r"(\d+(?:\.\d+)?|\.\d+)", Agent.wait),
    "wait-for": ("PATH", r"(\S+)", Agent.wait_for),
    "hang": ("", r"", Agent.hang),
    "ignore": ("SIGNAL", r"([A-Z0-9]+)", Agent.ignore),
    "fork": ("N", r"(\d{1,3})", Agent.fork),
    "double-fork": ("N [ignore-term]", r"(\d{1,3})(?: (ignore-term))?", Agent.double_fork),
    "leave-child": ("SECONDS", r"(\d{1,4}(?:\.\d+)?)", Agent.leave_child),
    "exit": ("N", r"(\d{1,3})", Agent.exit),
    "no-result": ("", r"", Agent.no_result),
    "die": ("SIGNAL", r"([A-Z0-9]+)", Agent.die),
    "fail": ("KIND [TEXT]", r"([a-z_]+)(?: (.+))?", Agent.fail),
    "fail-once": ("KIND STATEFILE [TIMES]", r"([a-z_]+) (\S+)(?: (\d+))?", Agent.fail_once),
    "quota": ("SECONDS", r"(\d+(?:\.\d+)?)", Agent.quota),
    "retry-event": ("KIND", r"([a-z_]+)", Agent.retry_event),
}
"""Instruction → its arguments in words, their shape, what it does."""


def is_script(prompt: str) -> bool:
    """Whether the prompt is a script: its first word is an instruction, and it does not read like a sentence.

    `delete the unused imports` alone is a sentence. In one line alone, the paths of a script hold a `.` or a `/`.
    """
    lines = _lines(prompt)
    if not lines:
        return False
    word, _, rest = lines[0][1].partition(" ")
    if word not in TABLE:
        return False
    if len(lines) > 1:
        return True
    if re.fullmatch(TABLE[word][1], rest) is None:
        return False
    return word not in {"write", "append", "delete"} or bool(set("./") & set(rest.partition(" ")[0]))


def parsed(prompt: str) -> list[tuple[int, str, tuple[str | None, ...]]]:
    """The script's steps as line number, instruction, arguments. Raises Bad for the first line that is not an instruction."""
    steps: list[tuple[int, str, tuple[str | None, ...]]] = []
    for number, line in _lines(prompt):
        word, _, rest = line.partition(" ")
        if word not in TABLE:
            msg = f"line {number}: there is no instruction '{word}'"
            raise Bad(msg)
        shape = re.fullmatch(TABLE[word][1], rest.strip())
        if shape is None:
            msg = f"line {number}: it is `{f'{word} {TABLE[word][0]}'.strip()}`"
            raise Bad(msg)
        steps.append((number, word, shape.groups()))
    return steps


def _lines(prompt: str) -> list[tuple[int, str]]:
    lines = [(number, line.strip()) for number, line in enumerate(prompt.splitlines(), 1)]
    return [(number, line) for number, line in lines if line and not line.startswith("#")]


def _follow(agent: Agent) -> None:
    for number, word, arguments in parsed(agent.prompt):
        try:
            TABLE[word][2](agent, *arguments)
        except Bad as error:
            msg = f"line {number}: {error}"
            raise Bad(msg) from error
        except PermissionError as error:
            agent.result(kind="permission_denied", text=f"line {number}: {error}")
        except OSError as error:
            agent.result(kind="unknown", text=f"line {number}: {error}")


def main(arguments: list[str]) -> None:
    """Read the prompt from standard input and do it. `--pace`: seconds between the steps of the story; `--session`: the conversation to continue."""
    given = dict(zip(arguments[::2], arguments[1::2], strict=False))
    agent = Agent(sys.stdin.buffer.read().decode("utf-8", "replace"), float(given.get("--pace", "0.9")))
    agent.emit("session", session=given.get("--session") or f"demo-{secrets.token_hex(4)}", model="demo")
    try:
        agent.require_sign_in()
        _follow(agent) if is_script(agent.prompt) else agent.story()
    except Bad as error:
        agent.result(kind="bad_request", text=f"The script cannot be followed, {error}.")
    agent.result()


if __name__ == "__main__":
    main(sys.argv[1:])
