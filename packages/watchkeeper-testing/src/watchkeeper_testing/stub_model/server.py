"""The stub model as an HTTP server on the loopback interface.

    /s/<scenario>[@<key>]/v1/messages               the Messages route, streamed or not
    /s/<scenario>[@<key>]/v1/messages/count_tokens
    /s/<scenario>[@<key>]/v1/responses              the Responses route, streamed or not
    /__stub/…                                       see `_control`

Give a client the base URL `/s/<scenario>@<key>`; the key keeps the fault counts and gates of clients apart that share a stub. A client whose base URL
is fixed can name `<scenario>@<key>` in the header `x-stub-scenario` instead.
"""

import json
import socket
import struct
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from watchkeeper_testing.stub_model import messages, responses
from watchkeeper_testing.stub_model.board import Board
from watchkeeper_testing.stub_model.exchange import Ask, Reply, Speech, build_reply, fill
from watchkeeper_testing.stub_model.scenarios import Fault, Scenario, ScenarioError

_LOOPBACK = "127.0.0.1"
_ROUTES: Mapping[str, Speech] = {"/messages": messages, "/responses": responses}
"""The end of a path, and the protocol that is spoken there."""


class StubModel:
    """A stub model served by threads of this process: `with StubModel() as stub: …`."""

    def __init__(
        self,
        scenarios: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        port: int = 0,
        max_hold_s: float = 600.0,
    ) -> None:
        """Listen on `port` of the loopback interface, any free one by default."""
        self.board = Board(scenarios)
        self.max_hold_s = max_hold_s
        handler = type("_BoundHandler", (_Handler,), {"stub": self})
        self._server = _Server((_LOOPBACK, port), handler)
        self.base_url = f"http://{_LOOPBACK}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="stub-model", daemon=True)

    def __enter__(self) -> Self:
        """Start to answer."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of every request and stop."""
        self.board.stop()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, scenario: str, key: str = "") -> str:
        """The base URL to give to a client."""
        return f"{self.base_url}/s/{scenario}{'@' + key if key else ''}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing about clients that leave: agents are killed on purpose."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType] - passed on unread


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "stub-model"
    stub: StubModel

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Keep quiet: the request log tells more."""

    def do_HEAD(self) -> None:
        """Answer a probe."""
        self._json({})

    def do_GET(self) -> None:
        """Answer a control route, and the wish for a web socket with the advice to do without; there is nothing else to get."""
        if self.headers.get("Upgrade"):
            self._json({"error": {"message": "The stub speaks plain HTTP only."}}, 426)
        else:
            self._any({})

    def do_POST(self) -> None:
        """Answer a route of the model or a control route."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            self._json({"error": "That is not JSON."}, 400)
            return
        self._any(body)

    def _any(self, body: Mapping[str, Any]) -> None:
        parts = urlsplit(self.path)
        if parts.path.startswith("/__stub/"):
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self._control(parts.path.removeprefix("/__stub/"), query, body)
            return
        name, _, rest = parts.path.removeprefix("/s/").partition("/")
        name, _, key = (self.headers.get("x-stub-scenario") or name).partition("@")
        what = {"path": f"/{rest}", "scenario": name, "key": key, "credential": self._credential(), "body": body}
        scenario = self.stub.board.scenario(name)
        speech = next((each for end, each in _ROUTES.items() if f"/{rest}".endswith(end)), None)
        if rest.endswith("messages/count_tokens"):
            self.stub.board.log(**what, outcome="count", end="sent")
            self._json({"input_tokens": max(1, len(json.dumps(body)) // 4)})
        elif scenario is None or speech is None:
            self.stub.board.log(**what, outcome="no such scenario" if scenario is None else "no such route", end="sent")
            fault = Fault(status=404, message="The stub has no such scenario or route.")
            self._json((speech or messages).refuse(fault)[1], 404)
        else:
            self._model(speech, scenario, what)

    # -- the model ----------------------------------------------------------

    def _model(self, speech: Speech, scenario: Scenario, what: Mapping[str, Any]) -> None:
        board = self.stub.board
        name, key = what["scenario"], what["key"]
        ask = speech.parse_ask(what["body"])
        fault = board.take_fault(name, key, scenario, main=bool(ask.tools))
        if scenario.keys and self._key() not in scenario.keys:
            fault = Fault(status=401)
        seen = {"model": ask.model, "tools": tuple(ask.tools), "prompts": ask.prompts, "rounds": ask.rounds}
        request = board.log(**what, **seen)
        reply = build_reply(scenario, ask, request.number)
        board.note(request.number, outcome=f"fault {_name(fault)}" if fault else reply.label)
        try:
            gate = f"{reply.turn.hold}@{key}" if key else reply.turn.hold
            gate = gate if reply.turn.hold and not fault else ""
            end = self._answer(speech, request.number, ask, reply, fault or Fault(), gate)
        except OSError:
            end = "client left"
        if end != "sent":
            self.close_connection = True
        board.note(request.number, end=end)

    def _answer(self, speech: Speech, number: int, ask: Ask, reply: Reply, fault: Fault, gate: str) -> str:
        """Put an answer or a fault on the wire; returns how it ended."""
        if fault.status:
            headers = {"request-id": "req_stub", **fill(fault.headers, {})}
            if fault.retry_after is not None:
                headers["retry-after"] = f"{fault.retry_after:g}"
            status, body = speech.refuse(fault)
            self._json(body, status, headers)
            return "sent"
        if fault.garbage:
            self._send(b"<html>This is not the page you are looking for.</html>", "text/html")
            return "sent"
        if fault.hang == "accept" or (fault.hang and not ask.stream):
            return self._hang()
        if fault.reset == "accept" or (fault.reset and not ask.stream):
            return self._reset()
        if gate and (reply.turn.hold_at == "start" or not ask.stream) and not self._hold(gate):
            return "client left"
        if reply.turn.first_delay_s:
            self.stub.board.pause(reply.turn.first_delay_s)
        if not ask.stream:
            self._json(speech.whole(reply, ask, number))
            return "sent"
        return self._stream(speech, number, ask, reply, fault, gate)

    def _stream(self, speech: Speech, number: int, ask: Ask, reply: Reply, fault: Fault, gate: str) -> str:
        self.send_response(200)
        for name, value in (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")):
            self.send_header(name, value)
        self.send_header("request-id", "req_stub")
        self.end_headers()
        if fault.hang == "headers":
            return self._hang()
        for index, each in enumerate(speech.stream_frames(reply, ask, number)):
            if index == speech.FIRST_WORDS and fault.in_stream:
                return self._break(fault, speech.overloaded_frame(ask, number))
            if index == speech.FIRST_WORDS and gate and reply.turn.hold_at == "stream" and not self._hold(gate):
                return "client left"
            self._chunk(each)
            if reply.turn.chunk_delay_s:
                self.stub.board.pause(reply.turn.chunk_delay_s)
        self._chunk(b"")
        return "sent"

    def _break(self, fault: Fault, overloaded: bytes) -> str:
        """End a stream in the middle, as the fault says."""
        if fault.hang:
            return self._hang()
        if fault.reset:
            self.stub.board.pause(0.1)  # so that the client has read the first words when the reset overtakes them
            return self._reset()
        if fault.stream_error:
            self._chunk(overloaded)
        self._chunk(b"")
        return "cut"

    def _hang(self) -> str:
        self._hold("")
        return "client left"

    def _hold(self, gate: str) -> bool:
        return self.stub.board.hold(gate, self._client_left, self.stub.max_hold_s)

    def _client_left(self) -> bool:
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _reset(self) -> str:
        """Close with RST instead of FIN."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True
        return "reset"

    # -- control ------------------------------------------------------------

    def _control(self, verb: str, query: Mapping[str, str], body: Mapping[str, Any]) -> None:
        """The control routes, by GET or POST.

        `health`; `requests` [scenario=, key=, bodies=1]; `scenarios` (body: name to scenario);
        `release`, `close` and `held` [gate=, timeout=]; `forget`.
        """
        board = self.stub.board
        match verb:
            case "health":
                self._json({"ok": True})
            case "requests":
                found = [asdict(each) for each in board.requests(query.get("scenario"), query.get("key"))]
                if "bodies" not in query:
                    found = [{**each, "body": {}} for each in found]
                self._json(found)
            case "scenarios":
                try:
                    board.add(body)
                except (ScenarioError, TypeError) as error:
                    self._json({"ok": False, "error": str(error)}, 400)
                else:
                    self._json({"ok": True})
            case "held":
                self._json({"ok": board.wait_held(query.get("gate", ""), float(query.get("timeout", "30")))})
            case "release" | "close" | "forget":
                act = {"release": board.release, "close": board.close}.get(verb)
                if act:
                    act(query.get("gate", ""))
                else:
                    board.forget()
                self._json({"ok": True})
            case _:
                self._json({"ok": False, "error": f"The stub has no control route '{verb}'."}, 404)

    # -- small things -------------------------------------------------------

    def _key(self) -> str:
        value = self.headers.get("x-api-key") or self.headers.get("authorization") or ""
        return value.split(" ")[-1]

    def _credential(self) -> str:
        for name in ("x-api-key", "authorization"):
            if value := self.headers.get(name):
                return f"{name}: {value if 'test' in value else '(not shown)'}"
        return ""

    def _json(self, data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:  # noqa: ANN401 - JSON
        self._send(json.dumps(data).encode(), "application/json", status, headers)

    def _send(self, data: bytes, kind: str, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _chunk(self, data: bytes) -> None:
        """Send one piece of a chunked body; an empty one ends it."""
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()


def _name(fault: Fault) -> str:
    """A fault in one word, for the log."""
    if fault.status:
        return str(fault.status)
    if fault.hang:
        return f"hang {fault.hang}"
    if fault.reset:
        return f"reset {fault.reset}"
    return "truncate" if fault.truncate else "stream_error" if fault.stream_error else "garbage"
