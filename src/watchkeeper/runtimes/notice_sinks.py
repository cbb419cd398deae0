"""Where notices go: a command, a webhook, the desktop, and the services of the library Apprise.

Nothing here raises: what went wrong is in the answer, in words that hold no secret of an address. Each attempt ends within half a minute.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from http.client import HTTPException
from importlib import import_module
from pathlib import Path
from typing import IO, Protocol, cast
from urllib import request
from urllib.error import HTTPError, URLError

from watchkeeper.crash import crashpoint
from watchkeeper.domain.notice import Answer, Notice, NoticeKind, SinkName
from watchkeeper.domain.notice_settings import masked_address
from watchkeeper.domain.plain_text import clean
from watchkeeper.errors import describe_os_error

LIMIT_S = 20.0
"""How long one attempt may take."""

_KEY_PREFIX = "whsec_"
_LARGEST_KEY = 4096
_SHOWN = 200
_NOT_PASSING = frozenset({400, 401, 403, 404, 405, 410, 411, 413, 414, 415, 422})
"""Answers of a web server that the same request will get again."""

_GONE = "its program is not installed"


def as_json(notice: Notice) -> dict[str, object]:
    """A notice as programs get it."""
    return {
        "id": notice.id,
        "kind": notice.kind.value,
        "at": notice.at.isoformat(),
        "task": notice.task_id,
        "title": notice.title,
        "reason": notice.reason,
        "command": notice.command,
    }


class CommandSink:
    """Runs a command line of the user's for each notice."""

    name = SinkName.COMMAND

    def __init__(self, line: str, environ: Mapping[str, str], *, limit_s: float = LIMIT_S) -> None:
        """Run `line` by `sh`, with the daemon's environment, in the home directory."""
        self._line = line
        self._environ = dict(environ)
        self._limit_s = limit_s

    @property
    def detail(self) -> str:
        """The program alone: an argument may be a secret."""
        return clean(self._line).partition(" ")[0]

    def send(self, notice: Notice) -> Answer:
        """Give it the notice as JSON on standard input."""
        text = json.dumps(as_json(notice)).encode() + b"\n"
        home = self._environ.get("HOME", "/")
        return _run(
            ["/bin/sh", "-c", self._line], text, self._environ, home if Path(home).is_dir() else "/", self._limit_s
        )


class DesktopSink:
    """Shows notices on the desktop of this machine."""

    name = SinkName.DESKTOP
    detail = "this machine's desktop"

    def __init__(self, environ: Mapping[str, str], platform: str = sys.platform) -> None:
        """`environ`: tells the user's session."""
        self._environ = dict(environ)
        self._platform = platform

    def send(self, notice: Notice) -> Answer:
        """Show it, the urgent ones until they are looked at."""
        head, body = clean(notice.head), clean(notice.body)
        if self._platform == "darwin":
            script = f"display notification {_applescript(body)} with title {_applescript(head)}"
            command = ["osascript", "-e", script]
        else:
            urgency = "critical" if notice.kind is NoticeKind.NEEDS_YOU else "normal"
            command = ["notify-send", "--app-name=Watchkeeper", f"--urgency={urgency}", "--", head, body]
        if shutil.which(command[0], path=self._environ.get("PATH")) is None:
            return Answer(problem=f"{_GONE} ({command[0]})")
        return _run(command, b"", self._environ, "/", LIMIT_S)


class WebhookSink:
    """Posts notices to a web address, signed as Standard Webhooks says (https://www.standardwebhooks.com) if there is a key."""

    name = SinkName.WEBHOOK

    def __init__(
        self, address: str, key_file: str | None, now: Callable[[], datetime], *, limit_s: float = LIMIT_S
    ) -> None:
        """`key_file`: holds the key, plain or as `whsec_` with base64; None: what is posted is not signed. `now`: the wall clock."""
        self._address = address
        self._now = now
        self._key_file = key_file
        self._limit_s = limit_s

    @property
    def detail(self) -> str:
        """Its host."""
        return masked_address(self._address)

    def send(self, notice: Notice) -> Answer:
        """Post it. A redirect is not followed: the key and what is sent are for the address that was set."""
        body = json.dumps(as_json(notice)).encode()
        headers = {"content-type": "application/json", "user-agent": "watchkeeper", "webhook-id": notice.id}
        if self._key_file is not None:
            try:
                headers |= signature(
                    read_key(Path(self._key_file).expanduser()), notice.id, int(self._now().timestamp()), body
                )
            except (OSError, ValueError) as error:
                what = describe_os_error(error) if isinstance(error, OSError) else str(error)
                return Answer(problem=f"its key cannot be read ({what})")
        order = request.Request(self._address, data=body, headers=headers, method="POST")  # noqa: S310 - the setting allows http and https alone
        try:
            with cast("IO[bytes]", request.build_opener(_NoRedirect).open(order, timeout=self._limit_s)):
                return Answer()
        except HTTPError as error:
            with error:
                return _refused(error.code)
        except URLError as error:
            return Answer(problem=_cause(error.reason))
        except (OSError, HTTPException, ValueError) as error:
            return Answer(problem=_cause(error))


class _NoRedirect(request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] # all that it gets is ignored
        """Treat it as any other answer that is not a success."""


class _Apprise(Protocol):
    def add(self, servers: str) -> bool: ...
    def notify(self, *, body: str, title: str, notify_type: str) -> bool | None: ...


class ServicesSink:
    """Sends notices to the services that Apprise knows."""

    name = SinkName.SERVICES

    def __init__(self, addresses: Sequence[str]) -> None:
        """`addresses`: as Apprise takes them."""
        self._addresses = addresses

    @property
    def detail(self) -> str:
        """The kinds of the services."""
        return " ".join(masked_address(each) for each in self._addresses)

    def send(self, notice: Notice) -> Answer:
        """Send it to all of them; one that fails has all of them tried again, with the same text."""
        try:
            apprise = import_module("apprise")  # an extra
        except ImportError:
            return Answer(problem="the library Apprise is not installed: pip install 'watchkeeper[notify]'")
        kind = {NoticeKind.NEEDS_YOU: "warning", NoticeKind.FAILED: "failure", NoticeKind.DONE: "success"}[notice.kind]
        failed: list[str] = []
        for address in self._addresses:
            service = cast("_Apprise", apprise.Apprise())
            if not service.add(address):
                return Answer(
                    problem=f"Apprise does not know such an address: {masked_address(address)}", passing=False
                )
            if not service.notify(body=clean(notice.body), title=clean(notice.head), notify_type=kind):
                failed.append(masked_address(address))
        return Answer(problem=f"not sent to {' '.join(failed)}" if failed else "")


def read_key(file: Path) -> bytes:
    """The key that signs. Raises OSError, and ValueError for a file that others may read or that holds none."""
    with file.open("rb") as opened:
        if os.fstat(opened.fileno()).st_mode & 0o077:
            raise ValueError("others may read it; chmod 600 it")
        text = opened.read(_LARGEST_KEY).strip()
    if not text:
        raise ValueError("it is empty")
    prefix = _KEY_PREFIX.encode()
    return base64.b64decode(text.removeprefix(prefix), validate=True) if text.startswith(prefix) else text


def signature(key: bytes, notice_id: str, at: int, body: bytes) -> dict[str, str]:
    """The headers that let a receiver check who posted, when, and that nothing was changed: Standard Webhooks, symmetric."""
    signed = f"{notice_id}.{at}.".encode() + body
    mark = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-timestamp": str(at), "webhook-signature": f"v1,{mark}"}


def _refused(code: int) -> Answer:
    if 300 <= code < 400:
        return Answer(problem=f"it answered with a redirect ({code}), which is not followed: set the new address")
    return Answer(problem=f"it answered with {code}", passing=code not in _NOT_PASSING)


def _cause(reason: object) -> str:
    if isinstance(reason, TimeoutError):
        return "it did not answer in time"
    return clean(describe_os_error(reason) if isinstance(reason, OSError) else str(reason))[:_SHOWN]


def _run(command: Sequence[str], given: bytes, environ: Mapping[str, str], cwd: str, limit_s: float) -> Answer:
    """Run a program to its end or to the end of its time, in a session of its own, which is ended with it."""
    crashpoint("notice.run.before")
    try:
        process = subprocess.Popen(
            command, cwd=cwd, env=environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return Answer(problem=f"it could not be started ({describe_os_error(error)})")
    crashpoint("notice.run.after")
    with process:
        try:
            _, err = process.communicate(given, limit_s)
        except subprocess.TimeoutExpired:
            _end(process)
            return Answer(problem=f"it took longer than {limit_s:g} s and was ended")
    if process.returncode == 0:
        return Answer()
    said = clean(err.decode("utf-8", "replace"))[:_SHOWN]
    return Answer(problem=f"it ended with {process.returncode}{f': {said}' if said else ''}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End what it started, too. It is our own child, which is not reaped yet, so its number is its own (R7)."""
    crashpoint("notice.end.before")
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # noqa: TID251 - see above
    for stream in (process.stdin, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    _ = process.wait()
    crashpoint("notice.end.after")


def _applescript(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
