"""Record what the real Codex prints, against a stub model: `python tests/harnesses/codex/record.py [NAME …]`.

Every recording runs offline in a directory, a home and an environment of its own, with a key that is not a real one; the command
line is the adapter's own. Paths, ids and times are replaced by neutral ones, so that recording again gives nearly the same files.
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
from watchkeeper.harnesses.codex import Codex
from watchkeeper.ports.harness import LaunchRequest, Program
from watchkeeper_testing.codex import codex_program
from watchkeeper_testing.stub_model import StubModel

HERE = Path(__file__).parent
LIMIT_S = 90.0
NO_NAMESPACES = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all")
"""Runs the program as a user who may set up no sandbox."""
FULL_NAMESPACES = (
    "unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"', "sh", *NO_NAMESPACES,
)  # fmt: skip
"""Runs it where no further namespace can be made."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One run to record."""

    scenario: str
    options: dict[str, str] = field(default_factory=dict[str, str])
    flags: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    refused: bool = False
    """No server listens where the model should be."""
    tries: int = 1
    own_provider: bool = False
    """By the program's own provider, which cannot be told how often to try, instead of one that the recording configures."""
    stop: int = 0
    """The signal that ends the run once the model's turn is held."""
    stop_at: str = ""


def _shell(command: str) -> dict[str, Any]:
    return {"text": "I try.", "tools": [{"do": "shell", "command": command}]}


_ESCALATE = {"cmd": "touch /elsewhere", "sandbox_permissions": "require_escalated", "justification": "I need it."}
SCENARIOS: dict[str, Any] = {
    "elsewhere": {
        "turns": [
            {"text": "I write.", "tools": [{"do": "write", "path": "/elsewhere/note.txt", "content": "x"}]},
            {"text": "I was not allowed to."},
        ]
    },
    "escalate": {
        "turns": [
            {"text": "I ask.", "tools": [{"do": "raw", "name": "exec_command", "args": _ESCALATE}]},
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
    "denied_command": {"turns": [_shell("touch /var/tmp/elsewhere"), {"text": "It said: {{tool_result}}"}]},
    "failing_command": {"turns": [_shell("echo no >&2; exit 3"), {"text": "It failed: {{tool_result}}"}]},
    "true": {"turns": [_shell("true"), {"text": "It said: {{tool_result}}"}]},
    "thinking": {"turns": [{"thinking": "Let me see.", "text": "Here you are."}]},
    "nothing": {"turns": [{"text": ""}]},
    "usage": {"turns": [{"text": "Here.", "usage": {"input": 1000, "output": 20, "cached": 900}}]},
}
RECORDINGS: dict[str, Recording] = {
    "success": Recording(scenario="work"),
    "answer_only": Recording(scenario="text"),
    "usage": Recording(scenario="usage"),
    "thinking": Recording(scenario="thinking"),
    "nothing": Recording(scenario="nothing"),
    "failing_command": Recording(scenario="failing_command"),
    "bad_key": Recording(scenario="bad_key", tries=3),
    "bad_key_own_provider": Recording(scenario="bad_key", own_provider=True),
    "not_logged_in": Recording(scenario="text", without=("OPENAI_API_KEY",)),
    "forbidden": Recording(scenario="forbidden"),
    "no_model": Recording(scenario="no_model"),
    "bad_request": Recording(scenario="bad_request"),
    "too_long": Recording(scenario="too_long"),
    "credit": Recording(scenario="credit"),
    "limit": Recording(scenario="limit"),
    "overloaded_once": Recording(scenario="overloaded_once"),
    "overloaded_forever": Recording(scenario="overloaded_forever"),
    "unavailable_forever": Recording(scenario="unavailable_forever"),
    "stream_overloaded": Recording(scenario="stream_overloaded"),
    "rate_once": Recording(scenario="rate_once"),
    "rate_forever": Recording(scenario="rate_forever"),
    "truncate_once": Recording(scenario="truncate_once"),
    "truncate_forever": Recording(scenario="truncate_forever"),
    "reset": Recording(scenario="reset"),
    "reset_stream": Recording(scenario="reset_stream"),
    "connection_refused": Recording(scenario="text", refused=True),
    "garbage": Recording(scenario="garbage"),
    "hang_stream": Recording(
        scenario="hang_stream", flags=("-c", "model_providers.stub.stream_idle_timeout_ms=700"), tries=0
    ),
    "refusal": Recording(scenario="refusal"),
    "max_tokens": Recording(scenario="max_tokens"),
    "permission_denied": Recording(scenario="elsewhere"),
    "escalation_denied": Recording(scenario="escalate"),
    "read_only": Recording(scenario="work", options={"sandbox": "read-only"}),
    "way_round": Recording(scenario="way_round"),
    "denied_command": Recording(scenario="denied_command"),
    "sandbox_command": Recording(scenario="true", prefix=FULL_NAMESPACES),
    "sandbox_edit": Recording(scenario="work", prefix=NO_NAMESPACES),
    "unknown_option": Recording(scenario="text", flags=("--no-such-option",)),
    "bad_configuration": Recording(scenario="text", flags=("-c", "model_providers.openai.name=1")),
    "terminated": Recording(scenario="held", stop=signal.SIGTERM, stop_at="end"),
    "interrupted": Recording(scenario="held", stop=signal.SIGINT, stop_at="end"),
    "killed": Recording(scenario="held", stop=signal.SIGKILL, stop_at="end"),
}


def main() -> int:
    """Record the runs of these names, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=Path, help="another version of the program")
    parser.add_argument("--into", type=Path, default=HERE / "transcripts")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    program = options.program or codex_program()
    options.into.mkdir(exist_ok=True)
    with StubModel(SCENARIOS) as stub:
        for name in options.names or sorted(RECORDINGS):
            lines, facts = record(program, stub, name, RECORDINGS[name])
            _ = (options.into / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
            _ = sys.stdout.write(f"{name}: {facts}\n")
    return 0


def provider(url: str, tries: int) -> str:
    """Codex's configuration for a service elsewhere."""
    settings = {"name": '"stub"', "base_url": f'"{url}/v1"', "env_key": '"OPENAI_API_KEY"'}
    settings |= {"request_max_retries": "0", "stream_max_retries": str(tries)}
    return "\n".join(
        ['model_provider = "stub"', *(f"model_providers.stub.{key} = {value}" for key, value in settings.items())]
    )


def record(program: Path, stub: StubModel, name: str, recording: Recording) -> tuple[list[str], dict[str, Any]]:
    """Run once; the first line of what comes back says how it ended, the others are what the program printed."""
    with tempfile.TemporaryDirectory(prefix="codex-") as scratch:
        home, work = Path(scratch) / "home", Path(scratch) / "project"
        for each in (home / "tmp", work):
            each.mkdir(parents=True)
        url = "http://127.0.0.1:9" if recording.refused else stub.url(recording.scenario, name)
        own = recording.own_provider
        config = f'openai_base_url = "{url}/v1"' if own else provider(url, recording.tries)
        environment = {
            "PATH": os.defpath,
            "HOME": str(home),
            "TMPDIR": str(home / "tmp"),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "CODEX_API_KEY" if own else "OPENAI_API_KEY": "sk-test-local",
        }
        for each in recording.without:
            del environment[each]
        request = LaunchRequest(
            spec=TaskSpec(prompt="", title="", harness="codex", model="gpt-5", cwd=str(work)),
            program=Program(path=str(program), version=None),
            environment=environment,
            directory=str(home),
            options={"config": config, **recording.options},
        )
        plan = Codex().plan(request)
        *argv, prompt = [each for each in plan.argv if each is not None]
        begin = time.monotonic()
        with subprocess.Popen(
            [*recording.prefix, *argv, *recording.flags, prompt],
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
                out, err = process.communicate("Please do it.\n", timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
        facts = {"exit": process.returncode, "seconds": round(time.monotonic() - begin, 1), "stderr": err.strip()}
        facts["requests"] = len(stub.board.requests(recording.scenario, name))
        facts["files"] = sorted(each.name for each in work.iterdir())
    head = {"recording": name, "flags": [*recording.flags], "exit": facts["exit"], "stderr": facts["stderr"]}
    seen: dict[str, str] = {}
    lines = [_neutral(line, scratch, stub, seen) for line in (json.dumps(head), *out.splitlines())]
    return [line + "\n" for line in lines], facts


def _stop_when_held(stub: StubModel, process: subprocess.Popen[str], name: str, recording: Recording) -> None:
    if stub.board.wait_held(f"{recording.stop_at}@{name}"):
        process.send_signal(recording.stop)


def _neutral(line: str, scratch: str, stub: StubModel, seen: dict[str, str]) -> str:
    """The line without what differs from machine to machine and from run to run."""
    line = line.replace(scratch, "/home/user")
    line = line.replace(stub.base_url.removeprefix("http://"), "127.0.0.1:8000")
    line = re.sub(r"again at (?:[A-Z][a-z]{2} [^,]+, \d{4} )?[\d:]+ [AP]M", "again at 9:01 PM", line)
    line = re.sub(r"20\d\d-\d\d-\d\dT[\d:.]+Z", "2026-01-01T00:00:00.000Z", line)
    line = re.sub(r"\(pid \d+\)|main' \(\d+\)", lambda found: re.sub(r"\d+", "1", found[0]), line)

    def numbered(found: re.Match[str]) -> str:
        return seen.setdefault(found[0], f"00000000-0000-4000-8000-{len(seen) + 1:012}")

    return re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", numbered, line)


if __name__ == "__main__":
    sys.exit(main())
