"""The stub model says what its scenario says, on the wire that a real program reads."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from watchkeeper_testing.stub_model import ScenarioError, StubModel, stub_process

pytest_plugins = ["watchkeeper_testing.stub_model.fixtures"]

WRITE = {
    "name": "Write",
    "input_schema": {
        "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}, "mode": {"type": "integer"}},
        "required": ["file_path", "content", "mode"],
    },
}
BASH = {"name": "Bash", "input_schema": {"properties": {"command": {"type": "string"}}, "required": ["command"]}}
PROMPT = {"role": "user", "content": "Do it"}


@pytest.fixture
def stub() -> Iterator[StubModel]:
    """A stub served by threads of this process."""
    with StubModel() as running:
        yield running


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer of the stub."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.raw)


def connect(url: str, path: str, body: Any, key: str = "sk-test-local") -> Answer:
    """Post to a base URL and read the answer to its end."""
    parts = urlsplit(url)
    with closing(http.client.HTTPConnection(parts.netloc, timeout=20)) as connection:
        connection.request("POST", parts.path + path, json.dumps(body), {"x-api-key": key})
        response = connection.getresponse()
        with closing(response):
            return Answer(response.status, dict(response.headers), response.read())


def ask(url: str, messages: list[Any] | None = None, **more: Any) -> Answer:
    """Ask as an agent program does."""
    body = {"model": "m", "tools": [WRITE, BASH], "messages": messages or [PROMPT], **more}
    return connect(url, "/v1/messages", body)


def events(raw: bytes) -> list[dict[str, Any]]:
    """The events of a stream."""
    return [json.loads(line[6:]) for line in raw.decode().splitlines() if line.startswith("data: ")]


def result(text: str) -> list[Any]:
    """One round of tool results."""
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Write", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": text}]},
    ]


def test_a_turn_is_chosen_by_the_rounds_of_tool_results_since_the_last_prompt(stub: StubModel) -> None:
    """The script continues with each result and starts again with a new prompt."""
    history = [PROMPT, *result("ok"), *result("hello")]
    first = ask(stub.url("work")).json()
    second = ask(stub.url("work"), history[:3]).json()
    third = ask(stub.url("work"), history).json()
    again = ask(stub.url("work"), [*history, {"role": "assistant", "content": "."}, PROMPT]).json()
    assert [each["stop_reason"] for each in (first, second, third)] == ["tool_use", "tool_use", "end_turn"]
    assert third["content"][0]["text"] == "Done. The file says: hello"
    assert again["content"][1:] == [{**first["content"][1], "id": again["content"][1]["id"]}]


def test_tool_arguments_follow_the_schema_that_was_offered(stub: StubModel) -> None:
    """Names are the client's, required arguments that the scenario does not know get a plain value."""
    system = "Primary working directory: /somewhere/here\n"
    answer = ask(stub.url("work"), system=system).json()
    call = answer["content"][1]
    assert call["name"] == "Write"
    assert call["input"] == {"file_path": "/somewhere/here/hello.txt", "content": "hello from the stub\n", "mode": 1}


def test_text_that_the_client_injects_is_no_prompt(stub: StubModel) -> None:
    """Reminders in the user's messages do not count as what the user said."""
    reminder = {"type": "text", "text": "<system-reminder>be nice</system-reminder>"}
    content = [reminder, {"type": "text", "text": "Do it"}]
    answer = ask(stub.url("text"), [{"role": "user", "content": content}]).json()
    assert answer["content"][0]["text"] == "Answer 1: you said [Do it]."


def test_a_stream_carries_the_same_answer_as_a_body(stub: StubModel) -> None:
    """Text and tool input are put together from the deltas."""
    seen = events(ask(stub.url("work"), stream=True).raw)
    body = ask(stub.url("work")).json()
    text = "".join(e["delta"].get("text", "") for e in seen if e["type"] == "content_block_delta")
    raw = "".join(e["delta"].get("partial_json", "") for e in seen if e["type"] == "content_block_delta")
    assert text == body["content"][0]["text"]
    assert json.loads(raw) == body["content"][1]["input"]
    assert seen[-2]["delta"]["stop_reason"] == "tool_use"
    assert [seen[0]["type"], seen[-1]["type"]] == ["message_start", "message_stop"]


def test_faults_come_first_and_each_key_has_its_own_count(stub: StubModel) -> None:
    """A fault hits once per key, with the retry-after that it names."""
    answers = [ask(stub.url("rate_once", key)) for key in ("a", "a", "b")]
    assert [each.status for each in answers] == [429, 200, 429]
    assert answers[0].headers["retry-after"] == "1"
    assert answers[0].json()["error"]["type"] == "rate_limit_error"


def test_a_request_without_tools_is_a_side_request_and_takes_no_fault(stub: StubModel) -> None:
    """Titles and probes do not use up the faults that are meant for the agent."""
    side = connect(stub.url("rate_once"), "/v1/messages", {"messages": [PROMPT]})
    assert (side.status, side.json()["content"][0]["text"]) == (200, "A side answer.")
    assert ask(stub.url("rate_once")).status == 429


def test_a_null_fault_lets_the_faults_start_later(stub: StubModel) -> None:
    """A fault without a field set is not a fault."""
    stub.board.add({"later": {"faults": [{}, {"status": 529}]}})
    assert [ask(stub.url("later")).status for _ in range(3)] == [200, 529, 200]


def test_only_accepted_keys_are_let_in(stub: StubModel) -> None:
    """A scenario that lists keys answers any other with a 401."""
    stub.board.add({"mine": {"keys": ["sk-test-mine"], "turns": [{"text": "Hi"}]}})
    body = {"tools": [BASH], "messages": [PROMPT]}
    assert connect(stub.url("mine"), "/v1/messages", body).status == 401
    assert connect(stub.url("mine"), "/v1/messages", body, "sk-test-mine").status == 200


@pytest.mark.parametrize(
    ("scenario", "last"), [("truncate_once", "content_block_delta"), ("stream_overloaded", "error")]
)
def test_a_stream_can_be_cut_in_the_middle(stub: StubModel, scenario: str, last: str) -> None:
    """It ends cleanly after the first words, with or without the service's own error event."""
    seen = events(ask(stub.url(scenario), stream=True).raw)
    assert seen[0]["type"] == "message_start"
    assert seen[-1]["type"] == last


@pytest.mark.parametrize("scenario", ["reset", "reset_stream"])
def test_a_connection_can_be_reset(stub: StubModel, scenario: str) -> None:
    """The client sees a reset, not an end."""
    with pytest.raises(ConnectionResetError):
        _ = ask(stub.url(scenario), stream=True)


@pytest.mark.parametrize("scenario", ["hang", "hang_headers", "hang_stream"])
def test_silence_ends_when_the_client_leaves(stub: StubModel, scenario: str) -> None:
    """The stub holds the request without a word and notices that the client has gone."""
    parts = urlsplit(stub.url(scenario))
    body = json.dumps({"tools": [BASH], "messages": [PROMPT], "stream": True})
    with closing(http.client.HTTPConnection(parts.netloc, timeout=20)) as connection:
        connection.request("POST", parts.path + "/v1/messages", body)
        assert stub.board.wait_held("")
        assert stub.board.requests(scenario)[0].end == ""
    assert stub.board.wait_until(lambda log: log[0].end == "client left")


@pytest.mark.parametrize("where", ["start", "stream"])
def test_a_held_turn_waits_until_it_is_released(stub: StubModel, where: str) -> None:
    """Nothing more is said before the release, and everything after it."""
    stub.board.add({"wait": {"turns": [{"text": "words " * 40, "hold": "gate", "hold_at": where}]}})
    got: list[bytes] = []
    client = threading.Thread(target=lambda: got.append(ask(stub.url("wait", "k"), stream=True).raw))
    client.start()
    assert stub.board.wait_held("gate@k")
    assert not got
    stub.board.release("gate@k")
    client.join(20)
    assert events(got[0])[-1]["type"] == "message_stop"
    assert stub.board.wait_until(lambda log: log[0].end == "sent")


def test_a_gate_that_was_released_before_does_not_hold(stub: StubModel) -> None:
    """The order of release and request does not matter; closing it makes it hold again."""
    stub.board.release("end")
    assert ask(stub.url("held_stream"), stream=True).raw.endswith(b"\n\n")
    stub.board.close("end")
    client = threading.Thread(target=lambda: ask(stub.url("held_stream"), stream=True).raw)
    client.start()
    assert stub.board.wait_held("end")
    stub.board.release("end")
    client.join(20)
    assert not client.is_alive()


def test_headers_of_a_fault_can_name_a_time_to_come(stub: StubModel) -> None:
    """The reset of a limit lies in the future, whenever the test runs."""
    answer = ask(stub.url("limit"))
    assert answer.status == 429
    assert int(answer.headers["anthropic-ratelimit-unified-reset"]) > 1_600_000_000


def test_tokens_can_be_counted_and_usage_given(stub: StubModel) -> None:
    """The count route answers, and a turn's own usage wins over the estimate."""
    stub.board.add({"used": {"turns": [{"text": "x", "usage": {"input": 12, "output": 34}}]}})
    assert connect(stub.url("used"), "/v1/messages/count_tokens", {"messages": []}).json()["input_tokens"] > 0
    usage = ask(stub.url("used")).json()["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (12, 34)


@pytest.mark.parametrize(
    "scenario",
    [{"turn": []}, {"turns": [{"txt": "x"}]}, {"faults": [{"code": 1}]}, {"turns": [{"tools": [{"do": "fly"}]}]}],
)
def test_a_misspelt_scenario_is_refused(stub: StubModel, scenario: dict[str, Any]) -> None:
    """A fault that never happens because of a wrong word would make a test green for nothing."""
    with pytest.raises(ScenarioError):
        stub.board.add({"bad": scenario})
    assert stub.board.scenario("bad") is None


def test_credentials_are_not_kept_unless_they_are_test_keys(stub: StubModel) -> None:
    """A user who points a signed-in program at the stub by mistake finds no secret in its log."""
    body = {"messages": [PROMPT]}
    connect(stub.url("text"), "/v1/messages", body, "sk-secret")
    connect(stub.url("text"), "/v1/messages", body, "sk-test-local")
    assert [each.credential for each in stub.board.requests()] == ["x-api-key: (not shown)", "x-api-key: sk-test-local"]


def test_a_stub_process_is_driven_by_its_control_routes() -> None:
    """The same scenarios, log and gates, from another process."""
    with stub_process() as stub:
        stub.add({"wait": {"turns": [{"text": "Hi", "hold": "g"}]}})
        client = threading.Thread(target=lambda: ask(stub.url("wait")))
        client.start()
        assert stub.wait_held("g")
        stub.release("g")
        client.join(20)
        assert [each["outcome"] for each in stub.requests("wait")] == ["turn 0"]
        assert connect(stub.base_url, "/__stub/scenarios", {"bad": {"x": 1}}).status == 400


def test_a_stub_process_ends_when_its_parent_is_gone() -> None:
    """A test run that is killed leaves no stub behind: the pipe that only the stub still holds reaches its end."""
    code = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-m', 'watchkeeper_testing.stub_model'],"
        "stdout=subprocess.PIPE); p.stdout.readline(); print('up', flush=True); sys.stdin.read()"
    )
    held, write = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=write, pass_fds=()
    ) as parent:
        os.close(write)
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        parent.send_signal(signal.SIGKILL)
    with os.fdopen(held) as inherited:
        assert inherited.read() == ""


def test_a_stub_process_ends_after_its_life() -> None:
    """A forgotten stub does not stay."""
    argv = [sys.executable, "-m", "watchkeeper_testing.stub_model", "--max-life", "0.1"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.wait(20) == 0


def test_the_fixture_gives_a_stub_that_answers(stub_model: StubModel) -> None:
    assert stub_model.url("hello").startswith("http://127.0.0.1:")
