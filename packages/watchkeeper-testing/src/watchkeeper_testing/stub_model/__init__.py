"""A stand-in for a hosted model: answers as its scenario states, on the loopback interface, to any key.

It speaks the Messages protocol well enough that a real agent program works against it, offline and for nothing. What it answers depends only on the
scenario, on the request, and, for faults, on how many requests the scenario has seen.

    with StubModel({"hello": {"turns": [{"text": "Hello."}]}}) as stub:
        run_agent(env={"ANTHROPIC_BASE_URL": stub.url("hello"), "ANTHROPIC_API_KEY": "sk-test-local"})
        assert stub.board.requests("hello")

A turn with a `hold` waits at a gate until the test releases it, so that a test can act while an agent works, and never sleeps:

    stub.board.wait_held("end")
    ...                              # kill something
    stub.board.release("end")
"""

from watchkeeper_testing.stub_model.board import Board, Request
from watchkeeper_testing.stub_model.process import StubClient, stub_process
from watchkeeper_testing.stub_model.scenarios import Scenario, ScenarioError
from watchkeeper_testing.stub_model.server import StubModel

__all__ = ["Board", "Request", "Scenario", "ScenarioError", "StubClient", "StubModel", "stub_process"]
