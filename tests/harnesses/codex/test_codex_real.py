"""The real program, run as the adapter says, against a stub model."""

import json
import os
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.codex import MODEL, fetched, provider
from support.odd_prompts import ODD_PROMPTS

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import EndReason, ExitFact, TaskSpec, Trace
from watchkeeper.harnesses.codex import Codex
from watchkeeper.harnesses.codex_reader import CodexReader
from watchkeeper.ports.harness import LaunchRequest
from watchkeeper_testing.codex import VERSION
from watchkeeper_testing.stub_model import StubModel

pytestmark = [
    pytest.mark.codex,
    pytest.mark.timeout(1200),  # the first of these tests may have to fetch the program
]

HOOK = '{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch %s"}]}]}}'
SKILL = "---\nname: %s\ndescription: %s\n---\nDo it.\n"


@pytest.fixture(scope="module")
def program(pytestconfig: pytest.Config) -> Path:
    """The real program; without it the test fails."""
    return fetched(pytestconfig)


@pytest.fixture(scope="module")
def stub() -> Iterator[StubModel]:
    """One stub for all."""
    with StubModel() as running:
        yield running


class Agent:
    """One real run."""

    def __init__(
        self, program: Path, stub: StubModel, scenario: str, place: Path, options: dict[str, str] | None = None
    ) -> None:
        """Prepare it in a home and a project of its own."""
        self.model: str | None = MODEL
        self.prompt = "Please do it."
        self.home, self.project = place / "home", place / "project"
        for each in (self.home / ".codex", self.project):
            each.mkdir(parents=True)
        self.environment = {
            "PATH": os.defpath,
            "HOME": str(self.home),
            "OPENAI_API_KEY": "sk-test-local",
            "STUB_SCENARIO": scenario,
        }
        self.options = {"program": str(program), "config": provider(stub.base_url), **(options or {})}

    @contextmanager
    def started(self) -> Generator["subprocess.Popen[bytes]"]:
        """Start it as the adapter says."""
        harness = Codex()
        spec = TaskSpec(prompt=self.prompt, title="", harness="codex", model=self.model, cwd=str(self.project))
        found = harness.find(self.environment, self.options)
        assert found.version == VERSION
        plan = harness.plan(
            LaunchRequest(
                spec=spec,
                program=found,
                environment=self.environment,
                directory=str(self.home),
                options=self.options,
            )
        )
        argv = [each for each in plan.argv if each is not None]
        with subprocess.Popen(
            argv, cwd=self.project, env=plan.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdin is not None
            _ = process.stdin.write((spec.prompt if plan.prompt is None else plan.prompt).encode())
            process.stdin.close()
            try:
                yield process
            finally:
                process.kill()

    def run(self) -> Trace:
        """Run it to its end."""
        reader = CodexReader(self.model)
        with self.started() as process:
            assert process.stdout is not None
            for line in process.stdout:
                _ = reader.feed(line)
            return reader.trace(_fact(process.wait()), "")


def _fact(code: int) -> ExitFact:
    status = -code if code < 0 else code << 8
    return ExitFact(status=status, reason=EndReason.EXITED, at=datetime.now(UTC), elapsed_s=1.0)


def _furnish(agent: Agent) -> None:
    """Give the user and the project instructions, skills, hooks and an MCP server each."""
    config = f'[mcp_servers.%s]\ncommand = "touch"\nargs = ["{agent.home.parent}/%s-server"]\n'
    trusted = f'[projects."{agent.project}"]\ntrust_level = "trusted"\n'
    for owner, place in (("user", agent.home / ".codex"), ("project", agent.project / ".codex")):
        place.mkdir(exist_ok=True)
        skill = (place if owner == "user" else agent.project / ".agents") / "skills" / owner / "SKILL.md"
        skill.parent.mkdir(parents=True)
        _ = skill.write_text(SKILL % (owner, f"{owner}-skill"))
        _ = (place / "hooks.json").write_text(HOOK % (agent.home.parent / f"{owner}-hook"))
        _ = (place / "config.toml").write_text(config % (owner, owner) + (trusted if owner == "user" else ""))
    _ = (agent.home / ".codex" / "AGENTS.md").write_text("user-word")
    _ = (agent.project / "AGENTS.md").write_text("project-word")


@pytest.mark.parametrize(
    ("isolation", "words", "started"),
    [
        ("strict", {"user-word"}, set[str]()),
        ("project", {"user-word", "project-word", "user-skill", "project-skill"}, set[str]()),
        (
            "user",
            {"user-word", "project-word", "user-skill", "project-skill"},
            {"user-server", "project-server"},
        ),
    ],
)
def test_isolation_holds(
    program: Path, stub: StubModel, tmp_path: Path, isolation: str, words: set[str], started: set[str]
) -> None:
    """Servers and hooks start only where everything of the user's is asked for. The user's AGENTS.md cannot be kept out, as the page says."""
    agent = Agent(program, stub, f"text@{isolation}", tmp_path, {"isolation": isolation})
    _furnish(agent)
    assert agent.run().ok
    sent = json.dumps(stub.board.requests("text", isolation)[0].body)
    said = {f"{owner}-{what}" for owner in ("user", "project") for what in ("word", "skill")}
    assert {word for word in said if word in sent} == words
    assert {each.name for each in tmp_path.iterdir() if each.is_file()} == started


@pytest.mark.parametrize("model", [None, MODEL], ids=["default", "plain"])
def test_it_edits_a_file_and_runs_a_command(program: Path, stub: StubModel, tmp_path: Path, model: str | None) -> None:
    """The default profile is enough for both, also as root; the default model calls its tools out of a script."""
    agent = Agent(program, stub, f"work@{model}", tmp_path)
    agent.model = model
    trace = agent.run()
    assert trace.ok
    assert trace.tool_calls == 2
    assert (agent.project / "hello.txt").read_text() == "hello from the stub\n"
    assert trace.text == "Done. The file says: hello from the stub"


def test_a_configuration_home_elsewhere_is_used(program: Path, stub: StubModel, tmp_path: Path) -> None:
    """What the program keeps lies there, and nothing in the user's own home."""
    agent = Agent(program, stub, "text@elsewhere", tmp_path)
    (tmp_path / "other").mkdir()
    agent.environment["CODEX_HOME"] = str(tmp_path / "other")
    trace = agent.run()
    assert trace.ok
    assert [
        path for path in (tmp_path / "other" / "sessions").rglob("*.jsonl") if str(trace.harness_session) in path.name
    ]
    assert list((agent.home / ".codex").iterdir()) == []


def test_a_sign_in_of_the_configuration_home_is_used(program: Path, stub: StubModel, tmp_path: Path) -> None:
    """Made by the program's own login, as the adapter names it; the program says the same by its exit code."""
    agent = Agent(
        program, stub, "text@login", tmp_path, {"config": f'openai_base_url = "{stub.url("text", "login")}/v1"'}
    )
    del agent.environment["OPENAI_API_KEY"]
    codex = Codex()
    found = codex.find(agent.environment, agent.options)

    def ends(argv: tuple[str, ...], given: bytes = b"") -> int:
        done = subprocess.run(argv, env=agent.environment, input=given, capture_output=True, timeout=60, check=False)
        return done.returncode

    assert ends(codex.sign_in_question(found)) == 1
    assert ends(codex.login(found, terminal=False), b"sk-test-local\n") == 0
    assert ends(codex.sign_in_question(found)) == 0
    assert [Path(each).exists() for each in codex.sign_in_files(agent.environment)] == [True]
    assert agent.run().ok
    assert [each.credential for each in stub.board.requests("text", "login")] == ["authorization: Bearer sk-test-local"]


def test_a_refused_key_is_known_before_the_program_gives_up(program: Path, stub: StubModel, tmp_path: Path) -> None:
    """The stream makes the run fail early while the program still waits for its next try."""
    reader = CodexReader()
    patient = {"config": provider(stub.base_url, 9)}
    with Agent(program, stub, "bad_key@early", tmp_path, patient).started() as process:
        assert process.stdout is not None
        while reader.early_fail() is None:
            line = process.stdout.readline()
            assert line, "it ended first"
            _ = reader.feed(line)
        assert process.poll() is None
    early_fail = reader.early_fail()
    assert early_fail is not None
    assert early_fail.kind is FailureKind.SIGNED_OUT


def test_an_answer_that_stops_in_its_middle_is_given_up(program: Path, stub: StubModel, tmp_path: Path) -> None:
    """After the program's own bound, which is five minutes by default."""
    impatient = {"config": provider(stub.base_url, 0, stream_idle_timeout_ms="500")}
    trace = Agent(program, stub, "hang_stream@idle", tmp_path, impatient).run()
    assert trace.kind is FailureKind.NETWORK
    assert "idle timeout" in trace.reason


def test_a_run_that_is_killed_in_the_middle_is_no_success(program: Path, stub: StubModel, tmp_path: Path) -> None:
    """It had edited a file and waited for the model."""
    agent = Agent(program, stub, "held@kill", tmp_path)
    reader = CodexReader()
    with agent.started() as process:
        assert stub.board.wait_held("end@kill")
        process.kill()
        assert process.stdout is not None
        _ = reader.feed(process.stdout.read())
        trace = reader.trace(_fact(process.wait()), "")
    assert (agent.project / "a.txt").exists()
    assert (trace.finished, trace.ok, trace.tool_calls) == (False, False, 1)


@pytest.mark.parametrize("name", ODD_PROMPTS)
def test_an_odd_beginning_reaches_the_model_as_it_is(program: Path, stub: StubModel, tmp_path: Path, name: str) -> None:
    """In one request, and nothing of it is done by the program."""
    key = f"odd-{name.replace(' ', '-')}"
    agent = Agent(program, stub, f"text@{key}", tmp_path)
    agent.prompt = ODD_PROMPTS[name]
    (agent.project / "README").write_text("Read me.\n")
    trace = agent.run()
    assert (trace.ok, trace.kind) == (True, None)
    [request] = stub.board.requests("text", key)
    assert request.prompts[-1] == agent.prompt
    assert [path.name for path in agent.project.iterdir()] == ["README"]
