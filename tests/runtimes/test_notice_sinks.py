"""Sinks against the real thing: a shell, a web server, a program that stands in for the desktop's, the real Apprise."""

import base64
import hashlib
import hmac
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.waiting import wait_until

from watchkeeper.domain.notice import Notice, NoticeKind
from watchkeeper.runtimes import notice_sinks
from watchkeeper.runtimes.notice_sinks import CommandSink, DesktopSink, ServicesSink, WebhookSink

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOTICE = Notice(
    id="db-7", seq=7, kind=NoticeKind.NEEDS_YOU, at=AT, task_id="t1", title='Say "hi" \x1b[31m', reason="It asks.",
    command="wk show t1",
)  # fmt: skip


APPRISE = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")
"""A module that Apprise looks for."""


class Server(ThreadingHTTPServer):
    """Answers as a test says, and remembers what was posted."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.code = 200
        self.hangs = threading.Event()
        self.hangs.set()
        self.posted: list[tuple[dict[str, str], bytes]] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?token=secret"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        body = self.rfile.read(int(self.headers["content-length"]))
        server.posted.append(({name.lower(): value for name, value in self.headers.items()}, body))
        server.hangs.wait(30)
        self.send_response(server.code)
        self.send_header("location", "/other")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.hangs.set()
    made.shutdown()
    made.server_close()


def webhook(server: Server, key: Path | None = None, limit_s: float = 20) -> WebhookSink:
    return WebhookSink(server.address, None if key is None else str(key), lambda: AT, limit_s=limit_s)


def test_a_webhook_gets_the_notice_and_its_id(server: Server) -> None:
    assert webhook(server).send(NOTICE).problem == ""
    ((headers, body),) = server.posted
    assert json.loads(body) == notice_sinks.as_json(NOTICE)
    assert headers["webhook-id"] == "db-7" and headers["content-type"] == "application/json"
    assert "webhook-signature" not in headers
    assert "secret" not in webhook(server).detail


@pytest.mark.parametrize("written", ["a plain key\n", "whsec_" + base64.b64encode(b"\x00\xff key").decode()])
def test_what_is_posted_is_signed(server: Server, tmp_path: Path, written: str) -> None:
    file = tmp_path / "key"
    file.write_text(written)
    file.chmod(0o600)
    assert webhook(server, file).send(NOTICE).problem == ""
    ((headers, body),) = server.posted
    key = b"a plain key" if written.startswith("a") else b"\x00\xff key"
    at = str(int(AT.timestamp()))
    wanted = base64.b64encode(hmac.digest(key, f"db-7.{at}.".encode() + body, hashlib.sha256)).decode()
    assert (headers["webhook-timestamp"], headers["webhook-signature"]) == (at, f"v1,{wanted}")


def test_the_signature_is_that_of_the_specification() -> None:
    """The example of https://github.com/standard-webhooks/standard-webhooks, by its published library."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    found = notice_sinks.signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert found["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("key", 0o644, "chmod 600"),
        ("\n", 0o600, "it is empty"),
        (None, 0, "No such file"),
        ("whsec_!", 0o600, "key cannot be read"),
    ],
)
def test_a_key_that_cannot_be_used_posts_nothing(
    server: Server, tmp_path: Path, text: str | None, mode: int, said: str
) -> None:
    file = tmp_path / "key"
    if text is not None:
        file.write_text(text)
        file.chmod(mode)
    answer = webhook(server, file).send(NOTICE)
    assert said in answer.problem and answer.passing and server.posted == []


@pytest.mark.parametrize(
    ("code", "passing", "said"), [(500, True, "500"), (429, True, "429"), (404, False, "404"), (410, False, "410")]
)
def test_what_a_server_refuses_for_good_is_not_tried_again(server: Server, code: int, passing: bool, said: str) -> None:
    server.code = code
    answer = webhook(server).send(NOTICE)
    assert said in answer.problem and answer.passing is passing


def test_a_redirect_is_not_followed(server: Server) -> None:
    server.code = 307
    answer = webhook(server).send(NOTICE)
    assert "redirect" in answer.problem and len(server.posted) == 1


def test_a_server_that_does_not_answer_or_is_not_there(server: Server) -> None:
    server.hangs.clear()
    assert "in time" in webhook(server, limit_s=0.2).send(NOTICE).problem
    address = server.address
    server.hangs.set()
    server.shutdown()
    server.server_close()
    answer = WebhookSink(address, None, lambda: AT).send(NOTICE)
    assert "refused" in answer.problem and answer.passing and "secret" not in answer.problem


def environ(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **more}


def test_a_command_gets_the_notice_on_standard_input(tmp_path: Path) -> None:
    sink = CommandSink("cat > told; pwd > where", environ(tmp_path))
    assert sink.send(NOTICE).problem == ""
    assert json.loads((tmp_path / "told").read_bytes()) == notice_sinks.as_json(NOTICE)
    assert (tmp_path / "where").read_text().strip() == str(tmp_path)
    assert sink.detail == "cat"


@pytest.mark.parametrize(
    ("line", "said"),
    [("echo no way >&2; exit 3", "ended with 3: no way"), ("exit 1", "ended with 1"), ("nowhere", "127")],
)
def test_a_command_that_fails_says_why(tmp_path: Path, line: str, said: str) -> None:
    answer = CommandSink(line, environ(tmp_path)).send(NOTICE)
    assert said in answer.problem and answer.passing


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    sink = CommandSink("sleep 300 & echo $! > child; wait", environ(tmp_path), limit_s=1)
    assert "took longer than 1 s" in sink.send(NOTICE).problem
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not _lives(child), what="its child has ended")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_command_that_reads_nothing_is_no_trouble(tmp_path: Path) -> None:
    assert CommandSink("exit 0", environ(tmp_path)).send(replace(NOTICE, reason="x" * 1_000_000)).problem == ""


@pytest.mark.parametrize(("platform", "program"), [("linux", "notify-send"), ("darwin", "osascript")])
def test_the_desktop_gets_plain_text(tmp_path: Path, platform: str, program: str) -> None:
    """By the system's own program; a stand-in writes its arguments down."""
    stand_in = tmp_path / program
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/told\n')
    stand_in.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    assert DesktopSink(environ(tmp_path, PATH=path), platform).send(NOTICE).problem == ""
    told = (tmp_path / "told").read_text()
    assert "\x1b" not in told and "It asks. wk show t1" in told
    assert ('\\"hi\\"' in told) == (platform == "darwin")
    assert ("critical" in told) == (platform == "linux")


def test_a_desktop_without_the_program_says_so(tmp_path: Path) -> None:
    assert "notify-send" in DesktopSink(environ(tmp_path, PATH=str(tmp_path)), "linux").send(NOTICE).problem


@APPRISE
def test_services_are_told_by_apprise(server: Server) -> None:
    address = f"json://127.0.0.1:{server.server_port}/secret"
    sink = ServicesSink((address,))
    assert sink.send(NOTICE).problem == ""
    ((_, body),) = server.posted
    told = json.loads(body)
    assert told["title"].startswith('Needs you: Say "hi"') and "\x1b" not in told["title"]
    assert told["message"] == "It asks. wk show t1" and told["type"] == "warning"
    server.code = 500
    answer = sink.send(NOTICE)
    assert "not sent to json://***" in answer.problem and answer.passing and "secret" not in answer.problem


@APPRISE
def test_an_address_that_apprise_does_not_know_is_named_without_its_token() -> None:
    answer = ServicesSink(("nowhere://secret",)).send(NOTICE)
    assert "nowhere://***" in answer.problem and not answer.passing and "secret" not in answer.problem


def test_services_without_the_library_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "apprise", None)
    assert "watchkeeper[notify]" in ServicesSink(("json://127.0.0.1",)).send(NOTICE).problem
