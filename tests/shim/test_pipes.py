"""The log is not the agent's to break: it holds a pipe, and whatever it does to its own descriptors loses no byte that it wrote before."""

import os
import resource
import signal
import stat
import time
from pathlib import Path

import pytest
from shim.stage import Bench, python, sh
from shim.test_faults import changed
from support.waiting import wait_until

from watchkeeper.runtimes import proc
from watchkeeper.runtimes.records import parse_dropped
from watchkeeper.shim import pipes
from watchkeeper.shim.logs import BoundedLogs
from watchkeeper.shim.output import Output

ABUSE = {
    "a shell's redirection": sh("echo first; echo x > /dev/stdout; echo last"),
    "standard error's": sh("echo first; echo other >&2; echo x > /dev/stderr; echo last >&2; echo last"),
    "tee": sh("echo first >&2; echo x | tee /dev/stderr; echo last >&2; echo first; echo last"),
    "emptied by name": sh("echo first; : > /proc/self/fd/1; echo last"),
    "by its number": sh("echo first; echo x > /proc/$$/fd/1; echo last"),
    "truncated": python(
        "import os\nos.write(1, b'first\\n')\ntry: os.ftruncate(1, 0)\nexcept OSError: pass\nos.write(1, b'last\\n')"
    ),
    "sought": python(
        "import os\nos.write(1, b'first\\n')\ntry: os.lseek(1, 0, 0)\nexcept OSError: pass\nos.write(1, b'last\\n')"
    ),
    "written at a place": python(
        "import os\nos.write(1, b'first\\n')\ntry: os.pwrite(1, b'xxxxx', 0)\nexcept OSError: pass\nos.write(1, b'last\\n')"
    ),
    "opened anew by a program": python(
        "import os\nos.write(1, b'first\\n')\nwith open('/dev/stdout', 'w') as out: out.write('x\\n')\nos.write(1, b'last\\n')"
    ),
    "opened and closed again and again": sh(
        "echo first; for i in 1 2 3 4 5 6 7 8 9; do exec >&-; exec >/proc/$$/fd/2; exec 1>/dev/stderr; done; echo last; echo first >&2; echo last >&2"
    ),
    "made non-blocking": python(
        "import os\nos.write(1, b'first\\n')\nos.set_blocking(1, False)\nos.set_blocking(2, False)\nos.write(1, b'last\\n')"
    ),
}


@pytest.mark.parametrize("agent", ABUSE.values(), ids=ABUSE.keys())
def test_nothing_that_an_agent_does_to_its_descriptors_loses_an_earlier_byte(
    bench: Bench, agent: list[str | None]
) -> None:
    execution = bench.execution(agent)
    assert execution.run() == 0
    said = execution.output() + execution.output("stderr.log")
    assert said.count("first\n") >= 1
    assert said.count("first\n") == said.count("last\n") or "other" in said
    assert said.index("first\n") < said.index("last\n")
    assert "\0" not in said
    assert execution.record("dropped.json") is None


def test_what_follows_a_truncation_is_logged_in_order(bench: Bench) -> None:
    execution = bench.execution(sh("echo important; echo progress > /dev/stdout; echo done"))
    assert execution.run() == 0
    assert execution.output() == "important\nprogress\ndone\n"


def test_the_size_limit_holds_for_an_agent_that_opens_its_output_anew(bench: Bench) -> None:
    mib = 1024 * 1024
    execution = bench.execution(sh("head -c 12582912 /dev/zero > /dev/stdout"), log_limit_bytes=2 * mib)
    assert execution.run() == 0
    log = execution.path / "stdout.log"
    assert log.stat().st_size == 12 * mib
    assert log.stat().st_blocks * 512 < 3 * mib
    assert execution.record("dropped.json")["stdout.log"][0][0] == mib


def test_everything_is_in_the_log_before_the_end_is_on_record(bench: Bench) -> None:
    """However much of it was in the pipe when the agent ended; and no pipe is left that a process could still have to drain."""
    execution = bench.execution(sh("head -c 60000 /dev/zero; exit 0"))
    assert execution.run({"WATCHKEEPER_CRASH_AT": "shim.exit.write.before"}) == -signal.SIGKILL
    assert (execution.path / "stdout.log").stat().st_size == 60000
    execution = bench.execution(sh("(sleep 0.2; echo late) & echo early"), leftovers="wait")
    assert execution.run() == 0
    assert execution.output() == "early\nlate\n"
    assert list(execution.path.glob("*.pipe")) == []


def test_a_leftover_that_writes_without_end_does_not_keep_the_end_from_being_known(bench: Bench) -> None:
    execution = bench.started(sh("(while :; do echo more; done) & exit 4"), leftovers="wait", log_limit_bytes=2097152)
    assert os.WEXITSTATUS(execution.wait("exit.json")["status"]) == 4
    assert execution.ask("kill") == {"ok": True}
    assert execution.shims[0].wait(timeout=30) == 0


def test_an_agent_may_write_its_pipe_and_no_other_user_may_do_anything(bench: Bench) -> None:
    execution = bench.started(sh("echo up; exec sleep 300"))
    execution.wait_for_output("up")
    for name in ("stdout.pipe", "stderr.pipe"):
        found = (execution.path / name).stat()
        assert stat.S_ISFIFO(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o200


def test_a_full_disk_makes_the_agent_wait_and_loses_nothing(bench: Bench) -> None:
    """A limit of the shim's own does what a full disk does. The agent sees no error, and the shim does not call it silent."""
    code = "import sys\nsys.stdin.readline()\nfor n in range(40000): print('%09d' % n)"
    execution = bench.started(python(code), input=True, silence_s=0.5)
    shim = execution.shims[0]
    _, hard = resource.prlimit(shim.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(shim.pid, resource.RLIMIT_FSIZE, (5000, hard))
    assert execution.ask("input", id="a", data="go\n") == {"ok": True}
    wait_until(lambda: "takes nothing" in execution.complaints(), what="the log takes nothing")
    held_at = time.monotonic()
    wait_until(lambda: time.monotonic() - held_at > 1.0, what="it has printed nothing for longer than it may")
    resource.prlimit(shim.pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert shim.wait(timeout=30) == 0
    assert execution.output() == "".join(f"{n:09d}\n" for n in range(40000))
    assert execution.record("exit.json")["reason"] == "exited"


def test_a_log_that_somebody_cuts_short_is_said_to_lack_that_part(bench: Bench) -> None:
    execution = bench.started(sh("echo before; read x; echo after"), input=True)
    execution.wait_for_output("before")
    os.truncate(execution.path / "stdout.log", 2)
    execution.ask("close_input")
    assert execution.shims[0].wait(timeout=30) == 0
    data = (execution.path / "stdout.log").read_bytes()
    assert (data[:2], data[7:]) == (b"be", b"after\n")
    assert execution.record("dropped.json")["stdout.log"] == [[2, 7]]


def test_a_deleted_directory_ends_no_agent_and_its_log_stays_small(bench: Bench) -> None:
    execution = bench.started(
        sh("read x; head -c 12582912 /dev/zero; echo wrote >&2; exec sleep 300"), input=True, log_limit_bytes=2097152
    )
    shim, agent = execution.shims[0], execution.record("proc.json")["pid"]
    logs = [fd for fd in Path(f"/proc/{shim.pid}/fd").iterdir() if fd.readlink().name == "stdout.log"]
    with logs[0].open("rb") as log:
        connection = execution.connect()
        with connection:
            for path in execution.path.iterdir():
                path.unlink()
            execution.path.rmdir()
            connection.sendall(b'{"token": "%s", "do": "close_input"}\n' % execution.token.encode())
            wait_until(lambda: os.fstat(log.fileno()).st_size == 12582912, what="the log has all of it")
            wait_until(lambda: os.fstat(log.fileno()).st_blocks * 512 < 3 << 20, what="the log is small")
    found = proc.stat_of(agent)
    assert found is not None
    assert found.alive


def test_without_pipes_the_agent_writes_its_log_itself_and_that_is_said(bench: Bench) -> None:
    made = "os.mkfifo(name, records.MODE, dir_fd=directory)"
    execution = bench.execution(sh("echo one; echo two >>/dev/stdout"))
    execution.image = changed(bench, "pipes.py", made, 'raise OSError(errno.EPERM, "no pipes here")')
    assert execution.run() == 0
    assert execution.output() == "one\ntwo\n"
    assert "there can be no pipes here" in execution.complaints()


class OneStream:
    """A pipe and a log that may take nothing, on a clock of the test's own."""

    def __init__(self, root: Path, mode: int) -> None:
        reader, self.agent = os.pipe()
        os.set_blocking(reader, False)
        (root / "stdout.log").write_bytes(b"")
        self.log = os.open(root / "stdout.log", mode)
        self.lost: list[tuple[str, int, int]] = []
        self.stream = pipes.Stream("stdout.log", reader, self.log, lambda *range_: self.lost.append(range_))


def test_a_log_that_takes_nothing_keeps_an_agent_waiting_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is open for reading refuses what a failing disk does. What it does not take is named."""
    now = [1000.0]
    monkeypatch.setattr(pipes.system, "boottime", lambda: now[0])
    one = OneStream(tmp_path, os.O_RDONLY)
    os.write(one.agent, b"twelve bytes")
    for _ in range(3):
        assert not one.stream.take()
        now[0] += 3.0
    assert one.lost == []
    now[0] += 3.0
    assert one.stream.take()
    assert one.lost == [("stdout.log", 0, 12)]
    assert one.stream.end == 12


def test_a_file_system_without_splice_gets_copies(tmp_path: Path) -> None:
    one = OneStream(tmp_path, os.O_WRONLY)
    one.stream._splices = False
    os.write(one.agent, b"one\n")
    assert one.stream.take()
    os.write(one.agent, b"two\n")
    assert one.stream.take()
    os.close(one.agent)
    assert one.stream.take()
    assert one.stream.ended
    assert (tmp_path / "stdout.log").read_bytes() == b"one\ntwo\n"
    assert one.lost == []


def test_what_was_lost_is_put_on_record_beside_the_hole(tmp_path: Path) -> None:
    """By one supervisor after the other."""
    mib = 1024 * 1024
    directory = os.open(tmp_path, os.O_RDONLY)
    with (tmp_path / "stdout.log").open("wb") as log:
        log.truncate(20 * mib)
        logs = BoundedLogs(directory, 2 * mib, {"stdout.log": log.fileno()})
        logs.lose("stdout.log", 100, 200)
        logs.lose("stdout.log", 150, 300)
        logs.lose("stdout.log", 2 * mib, 3 * mib)
        assert logs.bound() is None
        later = BoundedLogs(directory, 2 * mib, {"stdout.log": log.fileno()})
        later.lose("stdout.log", 19 * mib + 5, 19 * mib + 6)
        assert not later.owes()
    os.close(directory)
    recorded = (tmp_path / "dropped.json").read_bytes()
    assert parse_dropped(recorded, "stdout.log") == [(100, 300), (mib, 19 * mib), (19 * mib + 5, 19 * mib + 6)]


def test_what_comes_after_a_lost_end_is_written_behind_it(tmp_path: Path) -> None:
    """The next supervisor finds a log that is shorter than what is on record as lost."""
    (tmp_path / "stdout.log").write_bytes(b"kept")
    (tmp_path / "dropped.json").write_text('{"stdout.log": [[4, 10]]}')
    reader, agent = os.pipe()
    os.set_blocking(reader, False)
    directory = os.open(tmp_path, os.O_RDONLY)
    output = Output(directory, 1 << 20, {"stdout": reader}, print)
    os.write(agent, b"after")
    assert output.flush()
    output.close()
    os.close(directory)
    assert (tmp_path / "stdout.log").read_bytes() == b"kept" + bytes(6) + b"after"


def test_an_agent_whose_directory_was_deleted_is_silent_only_if_it_prints_nothing(bench: Bench) -> None:
    code = "read x; i=0; while [ $i -lt 20 ]; do echo $i; i=$((i+1)); sleep 0.1; done; rmdir up; exec sleep 300"
    (bench.root / "up").mkdir()
    execution = bench.started(sh(code), input=True, silence_s=1.0)
    with execution.connect() as connection:
        for path in execution.path.iterdir():
            path.unlink()
        execution.path.rmdir()
        connection.sendall(b'{"token": "%s", "do": "close_input"}\n' % execution.token.encode())
        wait_until(lambda: not (bench.root / "up").exists(), what="it has talked for two seconds and was not ended")
