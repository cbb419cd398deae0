"""The control socket: only for those who know the token, and never in the shim's way."""

import json
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from shim.stage import Bench, Execution, answer, python, sh, talk
from support.waiting import wait_until

ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(b'got ' + line); sys.stdout.flush()"


def finish(execution: Execution) -> None:
    """Kill the agent and wait for the shim."""
    assert execution.ask("kill") == {"ok": True}
    assert execution.shims[0].wait(timeout=30) == 0


def send_for_ever(connection: socket.socket, data: bytes) -> None:
    """Until it raises."""
    while True:
        connection.sendall(data)


def test_status_says_what_is(bench: Bench) -> None:
    execution = bench.started(sh("exec sleep 300"))
    status = execution.ask("status")
    assert status == {
        "ok": True,
        "state": "running",
        "pid": execution.record("proc.json")["pid"],
        "run": "r1",
        "leftovers": 0,
        "how": None,
    }
    finish(execution)


@pytest.mark.parametrize("token", ["", "0" * 32, None, 7, "\\ud800", ["a"]], ids=repr)
def test_without_the_token_nothing_is_done(bench: Bench, token: object) -> None:
    execution = bench.started(sh("exec sleep 300"))
    with execution.connect() as connection:
        for request in ({"token": token, "do": "kill"}, {"do": "kill"}):
            assert talk(connection, request) == {"ok": False, "error": "the token is wrong"}
        for almost in (execution.token[:-1], execution.token + "0", execution.token.upper() + " "):
            assert talk(connection, {"token": almost, "do": "kill"})["ok"] is False
    assert execution.record("stop.json") is None
    finish(execution)


@pytest.mark.parametrize(
    "request_",
    [
        {"do": "dance"},
        {},
        {"do": ["stop"]},
        {"do": "stop", "how": "whim"},
        {"do": "stop", "how": ["stop"]},
        {"do": "stop", "grace_s": -1},
        {"do": "stop", "grace_s": float("nan")},
        {"do": "stop", "grace_s": "1"},
        {"do": "signal", "signal": "TERM"},
        {"do": "input", "id": "a"},
        {"do": "input", "id": 1, "data": "x"},
        {"do": "input", "id": "a", "data": "\ud800"},
        {"do": "input", "id": "a", "data": "x"},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_with_a_sentence(bench: Bench, request_: dict[str, object]) -> None:
    """And the shim lives on."""
    execution = bench.started(sh("exec sleep 300"))
    refused = execution.ask(**{"do": "", **request_})  # pyright: ignore[reportArgumentType] - wrong on purpose
    assert refused["ok"] is False
    assert refused["error"]
    assert execution.record("stop.json") is None
    finish(execution)
    assert execution.complaints() == ""


def test_garbage_does_no_harm(bench: Bench) -> None:
    """Lines that are not JSON get an answer each; the next request on the same connection is served."""
    execution = bench.started(sh("exec sleep 300"))
    with execution.connect() as connection:
        for line in (b"", b"\xff\xfe", b"{", b"[]", b"null", b"[" * 100_000, b"\0" * 100):
            connection.sendall(line + b"\n")
            assert answer(connection)["ok"] is False
        assert talk(connection, {"token": execution.token, "do": "status"})["ok"] is True
    finish(execution)


def test_a_line_without_end_is_cut_off(bench: Bench) -> None:
    execution = bench.started(sh("exec sleep 300"))
    with execution.connect() as connection, pytest.raises(ConnectionError):
        send_for_ever(connection, b"x" * 65536)
    finish(execution)


def test_requests_in_one_piece_and_in_many(bench: Bench) -> None:
    """Lines count, not packets; answers come in order."""
    execution = bench.started(sh("exec sleep 300"))
    line = json.dumps({"token": execution.token, "do": "status"}).encode() + b"\n"
    with execution.connect() as connection:
        connection.sendall(line * 3 + b"{}\n")
        received = b""
        while received.count(b"\n") < 4:
            received += connection.recv(65536)
        assert [json.loads(each)["ok"] for each in received.splitlines()] == [True, True, True, False]
        for at in range(len(line)):
            connection.sendall(line[at : at + 1])
        assert answer(connection)["ok"] is True
    finish(execution)


def test_silent_and_deaf_clients_keep_nobody_out(bench: Bench) -> None:
    """Forty connections that say nothing, and one that never reads its answers, and still one more is served at once."""
    execution = bench.started(sh("exec sleep 300"))
    line = json.dumps({"token": execution.token, "do": "status"}).encode() + b"\n"
    deaf = execution.connect()
    deaf.setblocking(False)
    with pytest.raises(BlockingIOError):
        send_for_ever(deaf, line * 100)
    silent = [execution.connect() for _ in range(40)]
    assert execution.ask("status")["ok"] is True
    for connection in (deaf, *silent):
        connection.close()
    finish(execution)


def test_a_client_that_hangs_up_early_costs_nothing(bench: Bench) -> None:
    execution = bench.started(sh("exec sleep 300"))
    for _ in range(50):
        with execution.connect() as connection:
            connection.sendall(json.dumps({"token": execution.token, "do": "status"}).encode() + b"\n")
    finish(execution)
    assert execution.complaints() == ""


def test_input_arrives_once_and_in_order(bench: Bench) -> None:
    """After the prompt; a repeated id is answered and not written again."""
    execution = bench.started(python(ECHO), b"prompt\n", prompt_by="stdin", input=True)
    for id_ in ("a", "b", "a", "c", "b"):
        assert execution.ask("input", id=id_, data=f"{id_} \u00e4\U0001f331\n") == {"ok": True}
    assert execution.ask("close_input") == {"ok": True}
    assert execution.shims[0].wait(timeout=30) == 0
    assert execution.output() == "got prompt\n" + "".join(f"got {id_} \u00e4\U0001f331\n" for id_ in "abc")
    record = execution.record("input.json")
    assert record["ids"] == ["a", "b", "c"] == list(record["digests"])
    assert execution.record("exit.json")["status"] == 0


def test_another_message_under_a_used_id_is_refused(bench: Bench) -> None:
    """It is not dropped with the answer that it arrived; the same one is answered as before, also while it is on its way."""
    code = "import sys, time\nopen(sys.argv[1]).read()\nprint(len(sys.stdin.read()), flush=True)"
    gate = bench.root / "gate"
    os.mkfifo(gate)
    execution = bench.started(python(code, str(gate)), input=True)
    assert execution.ask("input", id="a", data="one\n") == {"ok": True}
    with ThreadPoolExecutor(1) as pool:
        big = pool.submit(execution.ask, "input", id="b", data="x" * 200_000)
        wait_until(lambda: "b" in execution.record("input.json")["ids"], what="the long message is on record")
        for id_, data in (("a", "two\n"), ("a", ""), ("b", "x" * 200_001)):
            answer = execution.ask("input", id=id_, data=data)
            assert answer["ok"] is False and "another message" in str(answer["error"])
        assert execution.record("input.json")["ids"] == ["a", "b"]
        gate.write_text("go", encoding="utf-8")
        assert big.result(20) == {"ok": True}
    assert execution.ask("input", id="a", data="one\n") == {"ok": True}
    assert execution.ask("close_input") == {"ok": True}
    assert execution.shims[0].wait(timeout=30) == 0
    assert execution.output() == "200004\n"


def test_input_is_answered_when_it_is_in_the_pipe(bench: Bench) -> None:
    """More than a pipe holds: no answer until the agent reads, and meanwhile everybody else is served. Two who ask for the same get the same answer."""
    gate = bench.root / "gate"
    os.mkfifo(gate)
    code = "import sys; open(sys.argv[1]).read(); print(len(sys.stdin.buffer.read()))"
    execution = bench.started(python(code, str(gate)), input=True)
    data = "x" * 500_000
    with execution.connect() as first, execution.connect() as second, execution.connect() as lost:
        for connection in (first, second, lost):
            connection.sendall(
                json.dumps({"token": execution.token, "do": "input", "id": "big", "data": data}).encode() + b"\n"
            )
        lost.close()
        second.sendall(json.dumps({"token": execution.token, "do": "status"}).encode() + b"\n")
        wait_until(lambda: execution.record("input.json"), what="the message is on record")
        assert execution.ask("status")["ok"] is True
        first.settimeout(0.05)
        with pytest.raises(TimeoutError):
            first.recv(1)
        first.settimeout(30)
        threading.Thread(target=gate.write_text, args=("go",)).start()
        assert answer(first) == {"ok": True}
        received = b""
        while received.count(b"\n") < 2:
            received += second.recv(65536)
        assert [json.loads(each)["ok"] for each in received.splitlines()] == [True, True]
    assert execution.ask("close_input") == {"ok": True}
    assert execution.shims[0].wait(timeout=30) == 0
    assert execution.output() == "500000\n"


def test_input_that_cannot_arrive_is_not_said_to_have(bench: Bench) -> None:
    """The agent ends without reading: a client that waits gets an answer, and a client that comes later does too."""
    execution = bench.started(sh("exec sleep 300"), input=True)
    with execution.connect() as connection:
        request = {"token": execution.token, "do": "input", "id": "a", "data": "x" * 200_000}
        connection.sendall(json.dumps(request).encode() + b"\n")
        wait_until(lambda: execution.record("input.json"), what="the message is on record")
        os.kill(execution.record("proc.json")["pid"], signal.SIGTERM)
        assert answer(connection)["ok"] is False
    assert execution.shims[0].wait(timeout=30) == 0


def test_closed_input_stays_closed(bench: Bench) -> None:
    """Closing it twice is fine; a message afterwards is refused, and a repeat of an earlier one is not."""
    execution = bench.started(sh("cat; echo end; sleep 300"), input=True)
    assert execution.ask("input", id="a", data="x\n") == {"ok": True}
    assert execution.ask("close_input") == {"ok": True}
    assert execution.ask("close_input") == {"ok": True}
    execution.wait_for_output("x\nend\n")
    assert execution.ask("input", id="b", data="x")["ok"] is False
    assert execution.ask("input", id="a", data="x\n") == {"ok": True}
    finish(execution)


def test_input_to_an_agent_that_closed_it_is_refused(bench: Bench) -> None:
    execution = bench.started(sh("exec 0<&-; echo closed; sleep 300"), input=True)
    execution.wait_for_output("closed")
    assert execution.ask("input", id="a", data="x")["ok"] is False
    assert execution.ask("input", id="a", data="x")["ok"] is False
    finish(execution)


def test_a_stale_socket_is_replaced_and_a_missing_directory_made(bench: Bench) -> None:
    """A shim of this execution died before it decided; its address is still there."""
    execution = bench.execution(sh("exec sleep 300"))
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(execution.address))
    execution.start()
    execution.wait("proc.json")
    assert execution.ask("status")["ok"] is True
    finish(execution)
    below = bench.execution(sh("exec sleep 300"), socket=str(bench.sockets / "below" / "s.sock"))
    below.start()
    below.wait("proc.json")
    assert (bench.sockets / "below" / "s.sock").exists()
    assert (bench.sockets / "below").stat().st_mode & 0o777 == 0o700
    below.shims[0].send_signal(signal.SIGTERM)
    assert below.shims[0].wait(timeout=30) == 0


def test_an_address_that_cannot_be_bound_costs_nobody_his_work(bench: Bench) -> None:
    """The agent runs; the shim says so once and tries again later."""
    (bench.sockets / "file").write_text("not a directory")
    execution = bench.execution(sh("echo worked"), socket=str(bench.sockets / "file" / "s.sock"))
    assert execution.run() == 0
    assert execution.output() == "worked\n"
    assert execution.complaints().count("cannot listen") == 1


def test_a_file_at_the_address_is_not_removed(bench: Bench) -> None:
    execution = bench.execution(sh("true"))
    execution.address.write_text("somebody's")
    assert execution.run() == 0
    assert execution.address.read_text() == "somebody's"


def test_the_address_is_bound_as_soon_as_it_can_be(bench: Bench) -> None:
    """It tries every five seconds."""
    blocked = bench.sockets / "dir"
    blocked.write_text("in the way")
    execution = bench.execution(sh("exec sleep 300"), socket=str(blocked / "s.sock"))
    execution.start()
    wait_until(lambda: "cannot listen" in execution.complaints(), what="the shim complains")
    blocked.unlink()
    wait_until((blocked / "s.sock").exists, within_s=30, what="the shim has bound its address")
    execution.shims[0].terminate()
    assert execution.shims[0].wait(timeout=30) == 0
