"""A subscription's sign-in that has expired: the real program renews it before it says a word, so a refused sign-in that it does tell of is final."""

import base64
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.codex import MODEL, fetched

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import EndReason, ExitFact, TaskSpec, Trace
from watchkeeper.harnesses.codex import Codex
from watchkeeper.harnesses.codex_reader import CodexReader
from watchkeeper.ports.harness import LaunchRequest, Program
from watchkeeper_testing.stub_model import StubModel

pytestmark = [
    pytest.mark.codex,
    pytest.mark.timeout(1200),  # the first of these tests may have to fetch the program
]

LATER = int((datetime.now(UTC) + timedelta(days=5)).timestamp())


def token(name: str) -> str:
    """A token with the shape of a subscription's, without a valid signature."""
    account = {"chatgpt_account_id": "stub", "chatgpt_plan_type": "plus", "chatgpt_user_id": "stub"}
    parts = ({"alg": "none"}, {"exp": LATER, "name": name, "https://api.openai.com/auth": account})
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*coded, "stub"])


class Renewals:
    """A stand-in for the service that renews sign-ins."""

    def __init__(self, *, grants: bool) -> None:
        """Renew, or say that it is too late."""
        self.asked = 0
        renewals = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
                """Keep quiet."""

            def do_POST(self) -> None:
                """Answer a wish for new tokens."""
                renewals.asked += 1
                _ = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                new = {"id_token": token("id"), "access_token": token("new"), "refresh_token": "stub-2"}
                body = json.dumps(new if grants else {"error": {"code": "refresh_token_expired"}}).encode()
                self.send_response(200 if grants else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                _ = self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/oauth/token"


@pytest.fixture
def renewals(request: pytest.FixtureRequest) -> Iterator[Renewals]:
    """The stand-in, served by threads of this process."""
    made = Renewals(grants=request.param)
    thread = threading.Thread(target=made.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def run(program: Path, stub: StubModel, place: Path, renewal_url: str) -> tuple[Trace, list[dict[str, Any]]]:
    """Run the program with an access token that is no longer accepted; what it came to, and its events."""
    home, project = place / "home", place / "project"
    for each in (home / ".codex", project):
        each.mkdir(parents=True)
    tokens = {
        "id_token": token("id"),
        "access_token": token("old"),
        "refresh_token": "stub-1",
        "account_id": "stub",
    }
    sign_in = {"auth_mode": "chatgpt", "tokens": tokens, "last_refresh": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    _ = (home / ".codex" / "auth.json").write_text(json.dumps(sign_in))
    url = stub.url("renew", place.name)
    config = (
        f'openai_base_url = "{url}/v1"\nchatgpt_base_url = "{url}/backend"\nfeatures.enable_request_compression = false'
    )
    request = LaunchRequest(
        spec=TaskSpec(prompt="", title="", harness="codex", model=MODEL, cwd=str(project)),
        program=Program(path=str(program), version=None),
        environment={"PATH": os.defpath, "HOME": str(home), "CODEX_REFRESH_TOKEN_URL_OVERRIDE": renewal_url},
        directory=str(home),
        options={"config": config},
    )
    plan = Codex().plan(request)
    argv = [each for each in plan.argv if each is not None]
    done = subprocess.run(
        argv, cwd=project, env=plan.environment, input=b"Do it.", capture_output=True, timeout=60, check=False
    )
    reader = CodexReader(MODEL)
    _ = reader.feed(done.stdout)
    fact = ExitFact(status=done.returncode << 8, reason=EndReason.EXITED, at=datetime.now(UTC), elapsed_s=1.0)
    return reader.trace(fact, done.stderr.decode()), [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("renewals", [True, False], ids=["renewed", "too-late"], indirect=True)
def test_an_expired_sign_in_is_renewed_before_a_word_is_said(
    pytestconfig: pytest.Config, tmp_path: Path, renewals: Renewals, request: pytest.FixtureRequest
) -> None:
    """And if it cannot be, the run is signed out at once."""
    program = fetched(pytestconfig)
    scenario = {"turns": [{"text": "Renewed."}], "keys": [token("new")]}
    with StubModel({"renew": scenario}) as stub:
        trace, events = run(program, stub, tmp_path, renewals.url)
        asked = [each.outcome for each in stub.board.requests("renew") if each.path == "/v1/responses"]
    assert renewals.asked == 1
    assert not [each for each in events if "Reconnecting" in each.get("message", "")]
    if "too-late" in request.node.name:
        assert (trace.kind, set(asked)) == (FailureKind.SIGNED_OUT, {"fault 401"})
        assert "could not be refreshed" in trace.reason
    else:
        assert (trace.ok, trace.text, asked[-1]) == (True, "Renewed.", "turn 0")
        assert set(asked[:-1]) == {"fault 401"}
