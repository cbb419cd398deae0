"""What a stub model remembers: scenarios, how many requests each has seen, the request log, and the gates where turns wait."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from watchkeeper_testing.stub_model.scenarios import BUILT_IN, Fault, Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as the log has it."""

    number: int
    path: str
    scenario: str
    key: str
    credential: str = ""
    """The name of the header that carried it, and its value only if that is plainly a test key."""
    model: str = ""
    tools: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    rounds: int = 0
    outcome: str = ""
    """`turn 0`, `fault 529`, `side`, `count`, `no such scenario` …"""
    end: str = ""
    """How the answer ended: `sent`, `client left`, `cut`, `reset`; empty while it is under way."""
    body: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)


class Board:
    """The memory that all of a stub's threads share; every method is safe to call from any of them."""

    def __init__(self, scenarios: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Know the built-in scenarios and `scenarios`, which win."""
        self._changed = threading.Condition()
        self._scenarios: dict[str, Scenario] = {}
        self._requests: list[Request] = []
        self._counted: Counter[tuple[str, str]] = Counter()
        self._open: set[str] = set()
        self._waiting: Counter[str] = Counter()
        self._stopping = False
        self.add({**BUILT_IN, **(scenarios or {})})

    def add(self, scenarios: Mapping[str, Mapping[str, Any]]) -> None:
        """Know these scenarios too.

        Raises:
            ScenarioError: one is not written as it must be; none is added then.
        """
        parsed = {name: Scenario.parse(data) for name, data in scenarios.items()}
        with self._changed:
            self._scenarios.update(parsed)

    def scenario(self, name: str) -> Scenario | None:
        """The scenario of that name."""
        with self._changed:
            return self._scenarios.get(name)

    def log(self, **what: Any) -> Request:  # noqa: ANN401 - the fields of a Request
        """Write a request into the log and give it its number."""
        with self._changed:
            request = Request(number=len(self._requests) + 1, **what)
            self._requests.append(request)
            self._changed.notify_all()
            return request

    def note(self, number: int, **what: Any) -> None:  # noqa: ANN401 - the fields of a Request
        """Add what became of a request."""
        with self._changed:
            self._requests[number - 1] = replace(self._requests[number - 1], **what)
            self._changed.notify_all()

    def requests(self, scenario: str | None = None, key: str | None = None) -> list[Request]:
        """The log so far, in order of arrival, of one scenario and key if they are given."""
        with self._changed:
            return [
                each
                for each in self._requests
                if (scenario is None or each.scenario == scenario) and (key is None or each.key == key)
            ]

    def take_fault(self, name: str, key: str, scenario: Scenario, *, main: bool) -> Fault | None:
        """The fault that is due for this request; counts the request."""
        if not scenario.faults or not (main or scenario.fault_scope == "all"):
            return None
        with self._changed:
            index = self._counted[name, key]
            self._counted[name, key] += 1
        if index >= len(scenario.faults):
            return scenario.faults[-1] if scenario.faults_forever else None
        fault = scenario.faults[index]
        return None if fault == Fault() else fault

    def wait_until(self, ready: Callable[[list[Request]], bool], timeout_s: float = 30.0) -> bool:
        """Wait until the log satisfies `ready`; False if the time runs out first."""
        with self._changed:
            return self._changed.wait_for(lambda: ready(list(self._requests)), timeout_s)

    def hold(self, gate: str, client_left: Callable[[], bool], max_s: float) -> bool:
        """Wait at the gate until it is released; False if the client leaves, the stub stops or `max_s` pass first."""
        end = time.monotonic() + max_s
        with self._changed:
            self._waiting[gate] += 1
            self._changed.notify_all()
            try:
                while gate not in self._open:
                    if self._stopping or client_left() or time.monotonic() > end:
                        return False
                    self._changed.wait(0.1)
                return True
            finally:
                self._waiting[gate] -= 1

    def wait_held(self, gate: str, timeout_s: float = 90.0) -> bool:
        """Wait until a request waits at the gate; False if the time runs out first."""
        with self._changed:
            return self._changed.wait_for(lambda: self._waiting[gate] > 0, timeout_s)

    def release(self, gate: str) -> None:
        """Open the gate for who waits there and for who comes later."""
        with self._changed:
            self._open.add(gate)
            self._changed.notify_all()

    def close(self, gate: str) -> None:
        """Close the gate again."""
        with self._changed:
            self._open.discard(gate)

    def forget(self) -> None:
        """Forget the counts and the gates, not the log."""
        with self._changed:
            self._counted.clear()
            self._open.clear()

    def stop(self) -> None:
        """Let every request that waits or is silent go."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def pause(self, seconds: float) -> bool:
        """Let time pass for pacing; True as soon as the stub stops."""
        with self._changed:
            return self._changed.wait_for(lambda: self._stopping, seconds)
