"""A shim of an earlier version gets a request in words that it knows."""

import json
import socket
import threading

import pytest
from runtimes.stage import Stage

from watchkeeper.domain import former_names
from watchkeeper.domain.model import EndReason, StopHow


class EarlierShim:
    """Listens at the address of a shim, and accepts only the reasons of its own version."""

    def __init__(self, stage: Stage, reasons: set[str]) -> None:
        self._reasons = reasons
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(stage.sockets / "exec1.sock"))
        self._server.listen()
        self._server.settimeout(30)
        self.heard: list[str] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self.heard or self.heard[-1] not in self._reasons:
            connection, _ = self._server.accept()
            with connection, connection.makefile("rb") as lines:
                how = json.loads(lines.readline())["how"]
                ok = how in self._reasons
                answer = {"ok": True} if ok else {"ok": False, "error": f"'{how}' is no reason to stop"}
                connection.sendall(json.dumps(answer).encode() + b"\n")
                self.heard.append(how)

    def close(self) -> None:
        """Wait until it has heard a reason that it knows."""
        self._thread.join(30)
        self._server.close()


@pytest.mark.parametrize("why", [EndReason.ANSWERED, EndReason.EARLY_FAIL])
def test_a_reason_that_it_does_not_know_is_sent_again_under_the_former_word(stage: Stage, why: EndReason) -> None:
    run = stage.prepared()
    shim = EarlierShim(stage, {"stop", former_names.EARLY_FAIL, "interrupted"})
    assert stage.runtime.end(run, StopHow.STOP, grace_s=1.0, why=why)
    shim.close()
    assert shim.heard == [why.value, former_names.EARLY_FAIL]
