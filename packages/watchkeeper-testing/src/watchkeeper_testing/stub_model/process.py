"""The stub model as a process of its own, for tests that must not share their interpreter with it."""

import json
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

_OPENER = build_opener(ProxyHandler({}))


class StubClient:
    """The control routes of a stub that runs elsewhere."""

    def __init__(self, base_url: str) -> None:
        """Speak to the stub at `base_url`."""
        self.base_url = base_url

    def url(self, scenario: str, key: str = "") -> str:
        """The base URL to give to a client."""
        return f"{self.base_url}/s/{scenario}{'@' + key if key else ''}"

    def add(self, scenarios: Mapping[str, Mapping[str, Any]]) -> None:
        """Make scenarios known."""
        self._call("scenarios", body=scenarios)

    def requests(self, scenario: str, key: str = "") -> list[dict[str, Any]]:
        """The request log of one scenario and key."""
        return self._call("requests", scenario=scenario, key=key)

    def wait_held(self, gate: str, timeout_s: float = 30.0) -> bool:
        """Wait until a request waits at the gate; False if the time runs out first."""
        return self._call("held", gate=gate, timeout=str(timeout_s))["ok"]

    def release(self, gate: str) -> None:
        """Open the gate for who waits there and for who comes later."""
        self._call("release", gate=gate)

    def _call(self, verb: str, *, body: Mapping[str, Any] | None = None, **query: str) -> Any:  # noqa: ANN401 - JSON
        request = Request(  # noqa: S310 - always our own loopback address
            f"{self.base_url}/__stub/{verb}?{urlencode(query)}",
            data=json.dumps(body or {}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with _OPENER.open(request, timeout=120) as answer:
            return json.load(answer)


@contextmanager
def stub_process(max_life_s: float = 600.0) -> Generator[StubClient]:
    """Run a stub model in a process of its own; it ends with the block, with this process, or after `max_life_s`."""
    argv = [sys.executable, "-m", "watchkeeper_testing.stub_model", "--max-life", f"{max_life_s:g}"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - asked for above
        try:
            yield StubClient(json.loads(process.stdout.readline())["url"])
        finally:
            process.terminate()
