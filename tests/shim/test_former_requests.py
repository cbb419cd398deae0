"""A shim takes the words of earlier versions."""

import os
import signal

from shim.stage import Bench, sh


def test_a_request_under_a_former_word_is_obeyed_and_recorded_under_the_word_of_today(bench: Bench) -> None:
    execution = bench.started(sh("read x"), input=True)
    assert execution.ask("stop", grace_s=5, how="condemned") == {"ok": True}
    assert execution.shims[-1].wait(timeout=60) == 0
    record = execution.record("exit.json")
    assert (os.WTERMSIG(int(str(record["status"]))), record["reason"]) == (signal.SIGTERM, "early_fail")
    assert execution.record("stop.json")["how"] == "early_fail"
