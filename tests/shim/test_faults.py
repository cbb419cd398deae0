"""What goes wrong in the shim itself, or under it, does not cost an agent its work. The program is changed for each test so that it does go wrong."""

import shutil
import signal
from pathlib import Path
from typing import Any

from shim.stage import Bench, Execution, python, talk
from support.waiting import wait_until

import watchkeeper.shim

MIB = 1024 * 1024

GONE = """
import os, sys

class Gone:
    def find_spec(name, path=None, target=None):
        if os.path.exists(os.path.dirname(__file__) + "/gone"):
            raise ImportError(name + " is gone")

sys.meta_path.insert(0, Gone)
"""
"""From the moment that a file is there, nothing can be imported any more."""

TALKER = """
import sys, time
sys.stdin.readline()
sys.stdout.write("x" * (8 << 20))
print("up", flush=True)
time.sleep(600)
"""


def changed(bench: Bench, file: str, sound: str, broken: str) -> Path:
    """A copy of the program with one change."""
    copy = bench.root / "image"
    shutil.copytree(Path(watchkeeper.shim.__file__).parent, copy / "shim", ignore=shutil.ignore_patterns("__pycache__"))
    text = (copy / "shim" / file).read_text(encoding="utf-8")
    assert text.count(sound) == 1, "the change no longer fits the source"
    (copy / "shim" / file).write_text(text.replace(sound, broken), encoding="utf-8")
    return copy


def begun(bench: Bench, image: Path, argv: list[str | None], **changes: Any) -> Execution:
    """An agent under a changed program."""
    execution = bench.execution(argv, **changes)
    execution.image = image
    execution.start()
    execution.wait("proc.json")
    return execution


def test_a_shim_outlives_the_python_that_it_was_started_from(bench: Bench) -> None:
    """An upgrade removed it: garbage is answered, logs are bounded, a stop stops, and the records are exact."""
    image = changed(bench, "__init__.py", "\n", "\n" + GONE)
    execution = begun(bench, image, python(TALKER), input=True, log_limit_bytes=2 * MIB)
    (image / "shim" / "gone").touch()
    assert execution.ask("input", id="a", data="go\n") == {"ok": True}
    with execution.connect() as connection:
        connection.sendall(b"{ garbage\n")
        assert talk(connection, [1])["ok"] is False
    with execution.connect() as connection:
        assert talk(connection, {"token": execution.token, "do": "signal", "signal": "NONSENSE"})["ok"] is False
    wait_until(lambda: execution.record("dropped.json"), within_s=60, what="the log has a hole")
    assert execution.ask("stop", grace_s=30) == {"ok": True}
    assert execution.shims[0].wait(timeout=60) == 0, execution.complaints()
    assert (execution.record("exit.json")["status"], execution.record("exit.json")["reason"]) == (
        signal.SIGTERM,
        "stop",
    )
    assert execution.record("gone.json")["proof"] == "proven"
    assert "fault" not in execution.complaints()


def test_a_request_that_runs_into_a_fault_is_answered(bench: Bench) -> None:
    """However often: the agent lives, the complaints are bounded, and a stop still stops."""
    image = changed(bench, "requests.py", "return self._status()", "raise ValueError(4711)")
    execution = begun(bench, image, ["sleep", "600"])
    with execution.connect() as connection:
        for _ in range(150):
            assert "fault" in talk(connection, {"token": execution.token, "do": "status"})["error"]
        assert talk(connection, {"token": execution.token, "do": "stop"})["ok"] is True
    assert execution.shims[0].wait(timeout=60) == 0
    assert execution.record("exit.json")["reason"] == "stop"
    assert 1 <= execution.complaints().count("ValueError: 4711") <= 100
    assert "requests.py:" in execution.complaints()


def test_a_fault_at_every_turn_does_not_end_the_agent(bench: Bench) -> None:
    """The control socket cannot be served at all; the agent and its end are as they should be."""
    image = changed(bench, "control.py", "            self._receive(client)", "            raise ValueError(4711)")
    execution = begun(bench, image, ["sleep", "600"])
    with execution.connect() as connection:
        connection.sendall(b"{}\n")
        wait_until(lambda: execution.complaints().count("4711") > 5, within_s=60, what="it goes wrong again and again")
        assert execution.shims[0].poll() is None
        execution.shims[0].terminate()
        assert execution.shims[0].wait(timeout=60) == 0
    assert execution.record("exit.json")["reason"] == "interrupted"
    assert execution.record("gone.json")["proof"] == "proven"


def test_a_fault_before_the_release_runs_nothing(bench: Bench) -> None:
    """Exit 70 with the fault in shim.err; the child that waited goes."""
    image = changed(bench, "supervisor.py", "        forked.release()", "        raise ValueError(4711)")
    execution = bench.execution(["sh", "-c", "echo ran"])
    execution.image = image
    assert execution.run() == 70
    assert "ValueError: 4711" in execution.complaints()
    wait_until(lambda: not execution.survivors(), what="the child has gone")
    assert (execution.output(), execution.record("exit.json")) == ("", None)


def test_a_signal_right_after_the_fork_reaches_the_agent(bench: Bench) -> None:
    """It comes while the child still has the shim's handlers, which would take it for the shim's own: held back from before the fork on, it is the child's."""
    signalled = "    os.setsid()\n    os.kill(os.getpid(), system.SIGTERM)\n"
    execution = bench.execution(["sh", "-c", "echo ran"])
    execution.image = changed(bench, "child.py", "    os.setsid()\n", signalled)
    assert execution.run() == 0
    record = execution.record("exit.json")
    assert (record["status"], record["reason"], execution.output()) == (signal.SIGTERM, "exited", "")
