"""Record what the real Claude Code prints, against a stub model: `python tests/harnesses/claude/record.py [NAME …]`.

Every recording runs offline in a directory, a home and an environment of its own, with a key that is not a real one; the command
line is the adapter's own. Paths, ids and times are replaced by neutral ones, and parts that say nothing about how a run
went are cut, so that recording again gives nearly the same files.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from watchkeeper.domain.model import TaskSpec
from watchkeeper.harnesses.claude import Claude
from watchkeeper.ports.harness import LaunchRequest, Program
from watchkeeper_testing.claude_code import claude_program
from watchkeeper_testing.stub_model import StubModel

HERE = Path(__file__).parent
LIMIT_S = 90.0


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One run to record."""

    scenario: str
    flags: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict[str, str])
    stop: int = 0
    """The signal that ends the run once the model's turn is held."""
    stop_at: str = ""
    model: str = "claude-sonnet-4-5"
    given: str = "Please do it.\n"
    """What the program gets on standard input: where it is a command of the program, the adapter would have kept it from being one."""


RETRIES = {"CLAUDE_CODE_MAX_RETRIES": "2"}
_BACKGROUND = {"command": "sleep 2; echo done > done.txt", "run_in_background": True, "description": "wait"}
SCENARIOS: dict[str, Any] = {
    "other_tool": {
        "turns": [
            {"text": "I write.", "tools": [{"do": "write", "path": "/elsewhere/note.txt", "content": "x"}]},
            {"text": "I was not allowed to."},
        ]
    },
    "way_round": {
        "turns": [
            {"text": "I write.", "tools": [{"do": "write", "path": "/elsewhere/note.txt", "content": "x"}]},
            {"text": "Then here.", "tools": [{"do": "write", "path": "{{cwd}}/note.txt", "content": "x"}]},
            {"text": "It is here."},
        ]
    },
    "background": {
        "turns": [
            {"text": "I wait.", "tools": [{"do": "raw", "name": "Bash", "args": _BACKGROUND}]},
            {"text": "It runs."},
        ]
    },
    "failing_command": {
        "turns": [
            {"text": "I try.", "tools": [{"do": "shell", "command": "echo no >&2; exit 3"}]},
            {"text": "It failed: {{tool_result}}"},
        ]
    },
    "thinking": {"turns": [{"thinking": "Let me see.", "text": "Here you are."}]},
}
RECORDINGS: dict[str, Recording] = {
    "success": Recording(scenario="work"),
    "answer_only": Recording(scenario="text"),
    "thinking": Recording(scenario="thinking"),
    "failing_command": Recording(scenario="failing_command"),
    "bad_key": Recording(scenario="bad_key", environment={"CLAUDE_CODE_MAX_RETRIES": "3"}),
    "not_logged_in": Recording(scenario="text", without=("ANTHROPIC_API_KEY",)),
    "forbidden": Recording(scenario="forbidden", environment=RETRIES),
    "no_model": Recording(scenario="no_model", environment=RETRIES),
    "bad_request": Recording(scenario="bad_request", environment=RETRIES),
    "too_long": Recording(scenario="too_long", environment=RETRIES),
    "credit": Recording(scenario="credit", environment=RETRIES),
    "overloaded_once": Recording(scenario="overloaded_once", environment=RETRIES),
    "overloaded_forever": Recording(scenario="overloaded_forever", environment=RETRIES),
    "overloaded_repeatedly": Recording(
        scenario="overloaded_forever", model="claude-opus-4-1", environment={"CLAUDE_CODE_MAX_RETRIES": "5"}
    ),
    "own_command": Recording(scenario="text", given="/login returns 500"),
    "own_command_without_words": Recording(scenario="text", given="/clear the cache"),
    "unavailable_forever": Recording(scenario="unavailable_forever", environment=RETRIES),
    "stream_overloaded": Recording(scenario="stream_overloaded", environment=RETRIES),
    "rate_forever": Recording(scenario="rate_forever", environment=RETRIES),
    "limit": Recording(scenario="limit", environment=RETRIES),
    "limit_subscription": Recording(
        scenario="limit",
        without=("ANTHROPIC_API_KEY",),
        environment={**RETRIES, "CLAUDE_CODE_OAUTH_TOKEN": "sk-test-local"},
    ),
    "truncate_once": Recording(scenario="truncate_once", environment=RETRIES),
    "truncate_forever": Recording(scenario="truncate_forever", environment=RETRIES),
    "reset_stream": Recording(scenario="reset_stream", environment=RETRIES),
    "connection_refused": Recording(
        scenario="text", environment={**RETRIES, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    ),
    "garbage": Recording(scenario="garbage", environment=RETRIES),
    "hang": Recording(scenario="hang", environment={**RETRIES, "API_TIMEOUT_MS": "2000"}),
    "refusal": Recording(scenario="refusal"),
    "max_tokens": Recording(scenario="max_tokens", environment=RETRIES),
    "permission_denied": Recording(scenario="other_tool"),
    "way_round": Recording(scenario="way_round"),
    "background": Recording(scenario="background"),
    "unknown_option": Recording(scenario="text", flags=("--no-such-option",)),
    "max_turns": Recording(scenario="loop", flags=("--max-turns", "3")),
    "budget": Recording(scenario="loop", flags=("--max-budget-usd", "0.000001")),
    "terminated": Recording(scenario="held", stop=signal.SIGTERM, stop_at="end"),
    "interrupted": Recording(scenario="held", stop=signal.SIGINT, stop_at="end"),
    "killed": Recording(scenario="held", stop=signal.SIGKILL, stop_at="end"),
    "unknown_session": Recording(scenario="text", flags=("--resume", "00000000-0000-4000-8000-000000000000")),
}
_DROPPED = (
    "tools",
    "slash_commands",
    "terminal_slash_commands",
    "agents",
    "skills",
    "plugins",
    "memory_paths",
    "capabilities",
)
"""Long lists in the first event that say nothing about the run."""


def main() -> int:
    """Record the runs of these names, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=Path, help="another version of the program")
    parser.add_argument("--into", type=Path, default=HERE / "transcripts")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    program = options.program or claude_program()
    options.into.mkdir(exist_ok=True)
    with StubModel(SCENARIOS) as stub:
        for name in options.names or sorted(RECORDINGS):
            lines, facts = record(program, stub, name, RECORDINGS[name])
            _ = (options.into / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
            _ = sys.stdout.write(f"{name}: {facts}\n")
    return 0


def record(program: Path, stub: StubModel, name: str, recording: Recording) -> tuple[list[str], dict[str, Any]]:
    """Run once; the first line of what comes back says how it ended, the others are what the program printed."""
    with tempfile.TemporaryDirectory(prefix="claude-") as scratch:
        home, work = Path(scratch) / "home", Path(scratch) / "project"
        for each in (home / "tmp", work):
            each.mkdir(parents=True)
        environment = {
            "PATH": os.defpath,
            "HOME": str(home),
            "TMPDIR": str(home / "tmp"),
            "LANG": "C.UTF-8",
            "ANTHROPIC_BASE_URL": stub.url(recording.scenario, name),
            "ANTHROPIC_API_KEY": "sk-test-local",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            **recording.environment,
        }
        for each in recording.without:
            del environment[each]
        request = LaunchRequest(
            spec=TaskSpec(prompt="", title="", harness="claude", model=recording.model, cwd=str(work)),
            program=Program(path=str(program), version=None),
            environment=environment,
            directory=str(home),
        )
        plan = Claude().plan(request)
        begin = time.monotonic()
        with subprocess.Popen(
            [*(each for each in plan.argv if each is not None), *recording.flags],
            cwd=work,
            env=plan.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            if recording.stop:
                threading.Thread(target=_stop_when_held, args=(stub, process, name, recording), daemon=True).start()
            try:
                out, err = process.communicate(recording.given, timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
        facts = {"exit": process.returncode, "seconds": round(time.monotonic() - begin, 1), "stderr": err.strip()}
        facts["requests"] = len(stub.board.requests(recording.scenario, name))
        facts["files"] = sorted(each.name for each in work.iterdir())
    head = {"recording": name, "flags": [*recording.flags], "exit": facts["exit"], "stderr": facts["stderr"]}
    seen: dict[str, str] = {}
    lines = [_neutral(line, scratch, stub, seen) for line in (json.dumps(head), *map(_trimmed, out.splitlines()))]
    return [line + "\n" for line in lines], facts


def _stop_when_held(stub: StubModel, process: subprocess.Popen[str], name: str, recording: Recording) -> None:
    if stub.board.wait_held(f"{recording.stop_at}@{name}"):
        process.send_signal(recording.stop)


def _trimmed(line: str) -> str:
    """The line without what is long and says nothing."""
    try:
        event = json.loads(line)
    except ValueError:
        return line
    for each in _DROPPED:
        if each in event:
            event[each] = event[each][:2] if isinstance(event[each], list) else {}
    for each in [each for each in event if each.endswith("_ms") and each != "retry_delay_ms"]:
        event[each] = 1
    return json.dumps(event, ensure_ascii=False)


def _neutral(line: str, scratch: str, stub: StubModel, seen: dict[str, str]) -> str:
    """The line without what differs from machine to machine and from run to run."""
    line = line.replace(scratch.replace("/", "-"), "-home-user").replace(scratch, "/home/user")
    line = line.replace(stub.base_url.removeprefix("http://"), "127.0.0.1:8000")
    line = re.sub(r'("resetsAt": )\d+', r"\g<1>1767229200", line)
    line = re.sub(r"resets [\d:]+[ap]m", "resets 1am", line)
    line = re.sub(r"20\d\d-\d\d-\d\dT[\d:.]+Z", "2026-01-01T00:00:00.000Z", line)

    def numbered(found: re.Match[str]) -> str:
        return seen.setdefault(found[0], f"00000000-0000-4000-8000-{len(seen) + 1:012}")

    return re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", numbered, line)


if __name__ == "__main__":
    sys.exit(main())
