"""Many threads share a way into a server that hangs: each of them gets an error in the time that one call may take."""

import signal
import threading
import time

import pytest
from support.postgres import Server, open_store

from watchkeeper.errors import DatabaseUnusable
from watchkeeper.store.postgres import store as module


def test_nobody_waits_for_everybody_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """And all is well again when the server continues."""
    monkeypatch.setattr(module, "_WAITED_LONG_S", 0.5)
    server = Server()
    store = open_store(server.url(server.database()), wait_s=1, answer_s=1)
    told: list[DatabaseUnusable] = []

    def ask() -> None:
        try:
            store.transact("t", lambda tx: tx.runs.next_fence())
        except DatabaseUnusable as problem:
            told.append(problem)

    try:
        ask()
        assert not told
        server.signal_all(signal.SIGSTOP)
        threads = [threading.Thread(target=ask) for _ in range(8)]
        began_s = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(told) == 8
        assert time.monotonic() - began_s < 7, (
            "3 s for the first one; 1 s more for each of the others, if they took turns"
        )
        server.signal_all(signal.SIGCONT)
        store.transact("t", lambda tx: tx.runs.next_fence())
    finally:
        store.close()
        server.remove()
