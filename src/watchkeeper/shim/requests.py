"""What the control socket may be asked, and what is done about it. All of it is repeatable."""

from . import json_text, records
from .control import Client, Reply
from .ladder import Ladder
from .spec import BadSpec, Spec, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .feed import Feed

_RECORD = "request.json"
_OK: Reply = {"ok": True}
_REASONS = ("stop", "early_fail", "interrupted", "answered")
_FORMER = {"condemned": "early_fail"}
"""Reasons that a request may name as earlier versions did; one on record does, because any shim may read it."""


class Requests:
    """Answers requests about one execution."""

    def __init__(self, spec: Spec, ladder: Ladder) -> None:
        """The feed is added when there is one."""
        self._spec = spec
        self._ladder = ladder
        self.feed: Feed | None = None
        self._obeyed: bytes | None = None

    def obey_record(self, directory: int) -> str | None:
        """Do what a record in the directory asks for, once; it is for a shim whose socket was cleared away. Returns a complaint about a bad one."""
        try:
            data = records.read_bytes(directory, _RECORD)
        except OSError:
            return None  # nothing was asked
        if data == self._obeyed:
            return None
        self._obeyed = data
        try:
            request = json_text.decode(data)
        except (ValueError, RecursionError):
            request = None
        if not json_text.is_object(request) or request.get("do") not in {"stop", "kill"}:
            return f"{_RECORD} asks for nothing that can be asked so"
        answer = self._kill() if request["do"] == "kill" else self._stop(request)
        return None if answer is _OK else f"{_RECORD}: {answer.get('error')}"

    def answer(self, request: Reply, client: Client) -> Reply | None:
        """Do as asked; None if the answer comes later."""
        match request.get("do"):
            case "status":
                return self._status()
            case "stop":
                return self._stop(request)
            case "kill":
                return self._kill()
            case "input":
                return self._input(request, client)
            case "close_input":
                if self.feed is not None:
                    self.feed.close()
                return _OK
            case other:
                return _no(f"there is no '{other}'")

    def _status(self) -> Reply:
        return {
            "ok": True,
            "state": "ended" if self._ladder.ended else "running",
            "pid": self._ladder.pid,
            "run": self._spec.run,
            "leftovers": self._ladder.count_living(),
            "how": self._ladder.how,
        }

    def _kill(self) -> Reply:
        self._ladder.begin("kill", 0.0)
        return _OK

    def _stop(self, request: Reply) -> Reply:
        how = request.get("how", "stop")
        how = _FORMER.get(how, how) if isinstance(how, str) else how
        if how not in _REASONS:
            return _no(f"'{how}' is no reason to stop")
        try:
            grace_s = seconds(request.get("grace_s"), "grace_s")
        except BadSpec as problem:
            return _no(str(problem))
        self._ladder.begin(str(how), self._spec.grace_s if grace_s is None else grace_s)
        return _OK

    def _input(self, request: Reply, client: Client) -> Reply | None:
        data, message_id = request.get("data"), request.get("id")
        if not isinstance(data, str) or not isinstance(message_id, str):
            return _no("input needs data and an id")
        if self.feed is None:
            return _no("this agent's input is not open")
        try:
            return self.feed.add(client, message_id, data.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            return _no("data is not a text")


def _no(error: str) -> Reply:
    return {"ok": False, "error": error}
