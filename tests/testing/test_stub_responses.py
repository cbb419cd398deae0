"""The stub model speaks the Responses protocol too, from the same scenarios."""

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from watchkeeper_testing.stub_model import StubModel

SHELL = {
    "type": "function",
    "name": "exec_command",
    "parameters": {"properties": {"cmd": {"type": "string"}, "tty": {"type": "boolean"}}, "required": ["cmd"]},
}
SCRIPT = {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
PLACE = "<environment_context>\n  <cwd>/place</cwd>\n</environment_context>"
HEAD = "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n"


@pytest.fixture
def stub() -> Iterator[StubModel]:
    """A stub served by threads of this process."""
    with StubModel() as running:
        yield running


def user(*texts: str) -> dict[str, Any]:
    """A message of the user, or what the client puts into one."""
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}


def result(output: Any) -> list[dict[str, Any]]:
    """A call and what it came to."""
    call = {"type": "function_call", "call_id": "c", "name": "exec_command", "arguments": "{}"}
    return [call, {"type": "function_call_output", "call_id": "c", "output": output}]


def post(url: str, body: Mapping[str, Any], **headers: str) -> tuple[int, bytes]:
    """Ask the Responses route and read the answer to its end."""
    parts = urlsplit(url)
    with closing(http.client.HTTPConnection(parts.netloc, timeout=20)) as connection:
        sent = {"authorization": "Bearer sk-test-local", **headers}
        connection.request("POST", f"{parts.path}/v1/responses", json.dumps(body), sent)
        answer = connection.getresponse()
        with closing(answer):
            return answer.status, answer.read()


def ask(url: str, *items: Any, tools: Any = (SHELL,), **more: Any) -> dict[str, Any]:
    """A whole answer that is not streamed."""
    _, raw = post(url, {"model": "m", "tools": tools, "input": [user(PLACE), *items], **more})
    return json.loads(raw)


def said(answer: Mapping[str, Any]) -> str:
    """The text of an answer."""
    return "".join(part["text"] for item in answer["output"] for part in item.get("content", []))


def events(raw: bytes) -> list[dict[str, Any]]:
    """The events of a stream."""
    return [json.loads(line[6:]) for line in raw.decode().splitlines() if line.startswith("data: ")]


def test_a_turn_is_chosen_by_the_rounds_of_results_since_the_last_prompt(stub: StubModel) -> None:
    """What the client puts into the user's messages is not a prompt, and what it says about a command is not output."""
    url = stub.url("work")
    assert said(ask(url, user("Do it"))) == "I will write a file and look at it."
    assert said(ask(url, user("Do it"), *result("Success"))) == "Now I look."
    done = ask(url, user("Do it"), *result("Success"), *result(f"{HEAD}hello\n"))
    assert said(done) == "Done. The file says: hello"
    assert said(ask(url, user("Do it"), *result("Success"), user("And then?"))) == "I will write a file and look at it."
    assert [each.prompts for each in stub.board.requests("work")][-1] == ("Do it", "And then?")


def test_a_file_is_written_by_a_patch_where_only_a_shell_is_offered(stub: StubModel) -> None:
    """With the path filled in from what the client says of its place."""
    [_, call] = ask(stub.url("work"), user("Do it"))["output"]
    assert (call["type"], call["name"]) == ("function_call", "exec_command")
    command = json.loads(call["arguments"])["cmd"]
    assert command.startswith(
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: /place/hello.txt\n+hello from the stub\n"
    )


def test_a_client_that_takes_scripts_gets_its_calls_in_one(stub: StubModel) -> None:
    """Its tools come in the input."""
    offered = {"type": "additional_tools", "tools": [SCRIPT]}
    [_, call] = ask(stub.url("work"), offered, user("Do it"), *result("x"), tools=())["output"]
    assert (call["type"], call["name"]) == ("custom_tool_call", "exec")
    assert 'tools.exec_command({"cmd": "cat hello.txt"})' in call["input"]
    parts = [{"type": "input_text", "text": "Script completed\nOutput:\n"}, {"type": "input_text", "text": "hello\n"}]
    assert said(ask(stub.url("work"), offered, user("Do it"), *result("x"), *result(parts), tools=())).endswith(
        ": hello"
    )


def test_a_stream_tells_the_same_as_a_whole_answer(stub: StubModel) -> None:
    """In the order in which a client expects it."""
    _, raw = post(stub.url("work"), {"model": "m", "tools": [SHELL], "input": [user("Do it")], "stream": True})
    found = events(raw)
    assert [each["type"].removeprefix("response.") for each in found] == [
        "created", "in_progress",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done",
        "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
        "completed",
    ]  # fmt: skip
    whole = found[-1]["response"]
    assert said(whole) == "I will write a file and look at it."
    assert [each["item"] for each in found if each["type"].endswith("item.done")] == whole["output"]


@pytest.mark.parametrize(
    ("scenario", "status", "code"),
    [
        ("bad_key", 401, "invalid_api_key"),
        ("no_model", 404, "model_not_found"),
        ("too_long", 400, "context_length_exceeded"),
        ("credit", 429, "insufficient_quota"),
        ("limit", 429, "usage_limit_reached"),
        ("overloaded_forever", 529, None),
    ],
)
def test_a_refusal_has_the_services_own_envelope(stub: StubModel, scenario: str, status: int, code: str | None) -> None:
    """What a scenario means is put in this protocol's words, whatever the status is elsewhere."""
    got, raw = post(stub.url(scenario), {"model": "m", "tools": [SHELL], "input": [user("Do it")]})
    assert (got, json.loads(raw)["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("scenario", "last"),
    [
        ("truncate_forever", "response.output_text.delta"),
        ("stream_overloaded", "response.failed"),
        ("max_tokens", "response.incomplete"),
    ],
)
def test_a_stream_can_end_otherwise(stub: StubModel, scenario: str, last: str) -> None:
    """After its first words, or with an ending that is not a normal one."""
    _, raw = post(stub.url(scenario), {"model": "m", "tools": [SHELL], "input": [user("Do it")], "stream": True})
    assert events(raw)[-1]["type"] == last
    assert any(each["type"] == "response.output_text.delta" for each in events(raw))


def test_a_header_names_the_scenario_where_the_address_is_fixed(stub: StubModel) -> None:
    """With its key."""
    _, raw = post(f"{stub.base_url}/s/-", {"input": "Hi", "tools": [SHELL]}, **{"x-stub-scenario": "text@mine"})
    assert said(json.loads(raw)) == "Answer 1: you said [Hi]."
    assert [each.key for each in stub.board.requests("text", "mine")] == ["mine"]


def test_a_web_socket_is_refused_so_that_the_client_does_without(stub: StubModel) -> None:
    """With the status that says so."""
    parts = urlsplit(stub.url("text"))
    with closing(http.client.HTTPConnection(parts.netloc, timeout=20)) as connection:
        connection.request("GET", f"{parts.path}/v1/responses", headers={"Upgrade": "websocket"})
        with closing(connection.getresponse()) as answer:
            assert answer.status == 426
