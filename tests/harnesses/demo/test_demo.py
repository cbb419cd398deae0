"""The demo agent as a real process: its language, its events, and how they are judged."""

import os
import re
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.plans import Ran, exit_fact, plan_of, run, spec_of, start
from support.waiting import wait_until

from watchkeeper.demo import agent
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import EndReason
from watchkeeper.errors import BadTask
from watchkeeper.harnesses.demo import Demo, DemoReader
from watchkeeper.ports.harness import EventKind

demo = Demo()


def _run(cwd: Path, *lines: str) -> Ran:
    return run(demo, spec_of(cwd, "\n".join(lines)))


def _state(pid: int) -> tuple[str, int] | None:
    """State letter and session of a process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[3])


def _pids(line: bytes) -> list[int]:
    return [int(pid) for pid in re.findall(rb"\d+", line.partition(b'"pids": ')[2])]


def test_a_script_is_done_line_by_line(tmp_path: Path) -> None:
    """Files are written, commands run, and the trace counts them."""
    ran = _run(
        tmp_path,
        "# a comment",
        "say Starting.",
        "write src/a.txt one\\ntwo",
        "append src/a.txt three",
        "write b.txt",
        "delete b.txt",
        "run wc -l < src/a.txt",
        "usage 10 5 0.25",
        "usage 1 1",
        "",
        "say Finished.",
    )
    assert (tmp_path / "src" / "a.txt").read_text(encoding="utf-8") == "one\ntwo\nthree\n"
    assert not (tmp_path / "b.txt").exists()
    trace = ran.trace
    assert (trace.finished, trace.ok, trace.text, trace.tool_calls) == (True, True, "Finished.", 5)
    assert (trace.usage.input_tokens, trace.usage.output_tokens, trace.usage.cost_usd) == (11, 6, 0.25)
    assert trace.harness_session is not None
    assert trace.model == "demo"
    assert "3" in [event.text.strip() for event in ran.events if event.kind is EventKind.TOOL_RESULT]
    assert all(event.at is not None for event in ran.events)


def test_a_command_that_fails_ends_nothing(tmp_path: Path) -> None:
    """The agent receives the exit code and continues, as real ones do."""
    ran = _run(tmp_path, "run echo oh; exit 7", "say on")
    assert ran.trace.ok
    assert "failed: oh\n[exit code 7]" in [event.text for event in ran.events]


def test_the_environment_and_the_prompt(tmp_path: Path) -> None:
    """The agent has the environment that was planned, and the prompt as it was given."""
    spec = spec_of(tmp_path, "read-env MINE\nread-env NOT_MINE\necho-prompt")
    process = start(plan_of(demo, spec, environment={"MINE": "ü"}), spec)
    events = demo.reader(spec).feed(process.communicate(timeout=30)[0])
    assert [event.text for event in events][1:4] == ["MINE=ü", "NOT_MINE is not set", spec.prompt]


@pytest.mark.parametrize(
    ("lines", "status", "kind", "reason"),
    [
        (["fail overloaded"], 256, FailureKind.OVERLOADED, "fail overloaded"),
        (["fail network no route"], 256, FailureKind.NETWORK, "no route"),
        (["say x", "no-result"], 0, FailureKind.CRASH, "without a result (exit code 0)."),
        (["stderr boom", "exit 3"], 768, FailureKind.CRASH, "without a result (exit code 3): boom"),
        (["ignore TERM", "die TERM"], signal.SIGTERM, FailureKind.CRASH, "(signal 15)"),
        (["die KILL"], signal.SIGKILL, FailureKind.CRASH, "(signal 9)"),
        (["say x", "dance"], 256, FailureKind.BAD_REQUEST, "line 2: there is no instruction 'dance'"),
        (["say x", "", "exit now"], 256, FailureKind.BAD_REQUEST, "line 3: it is `exit N`"),
        (["say x", "fail badly"], 256, FailureKind.BAD_REQUEST, "line 2: there is no failure kind badly"),
        (["say x", "die SOON"], 256, FailureKind.BAD_REQUEST, "line 2: there is no signal SOON"),
        (["say x", "delete none.txt"], 256, FailureKind.UNKNOWN, "line 2: [Errno 2]"),
    ],
)
def test_every_end(tmp_path: Path, lines: list[str], status: int, kind: FailureKind, reason: str) -> None:
    """The final event decides, its absence is a crash, and a script's mistake names its line."""
    ran = _run(tmp_path, *lines)
    assert ran.status == status
    assert (ran.trace.ok, ran.trace.kind) == (False, kind)
    assert reason in ran.trace.reason


def test_nothing_is_done_of_a_script_with_a_mistake(tmp_path: Path) -> None:
    """The whole script is read first."""
    _run(tmp_path, "write a.txt x", "dance")
    assert not (tmp_path / "a.txt").exists()


def test_failing_for_a_while(tmp_path: Path) -> None:
    """`fail-once` fails as often as it says, over several runs, and then continues."""
    lines = ("fail-once network state 2", "say through")
    kinds = [_run(tmp_path, *lines).trace.kind for _ in range(3)]
    assert kinds == [FailureKind.NETWORK, FailureKind.NETWORK, None]


def test_a_quota_names_its_end(tmp_path: Path) -> None:
    """The time at which work may continue is in the trace."""
    ran = _run(tmp_path, "quota 3600")
    assert ran.trace.kind is FailureKind.QUOTA
    assert ran.trace.quota_until is not None
    assert abs(ran.trace.quota_until - datetime.now(UTC) - timedelta(hours=1)) < timedelta(minutes=5)


def test_big_output(tmp_path: Path) -> None:
    """Many bytes arrive, mean nothing, and do not hide the result."""
    ran = _run(tmp_path, "print 1000000 bytes", "say done")
    assert len(ran.stdout) > 1_000_000
    assert (ran.trace.ok, len(ran.events)) == (True, 3)


def test_commits(tmp_path: Path) -> None:
    """The agent can commit where git has no name and no address for the user."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert _run(tmp_path, "write a.txt x", "commit Add a file").trace.ok
    log = subprocess.run(["git", "log", "--format=%s"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert log.stdout == "Add a file\n"


def test_it_waits_for_a_file(tmp_path: Path) -> None:
    """`wait-for` continues when the path exists, which is how tests take turns with it."""
    spec = spec_of(tmp_path, "write here.txt\nwait-for go\nsay went")
    process = start(plan_of(demo, spec), spec)
    wait_until((tmp_path / "here.txt").exists, what="the agent has written here.txt")
    assert process.poll() is None
    (tmp_path / "go").touch()
    assert b"went" in process.communicate(timeout=30)[0]


def test_it_ignores_and_hangs(tmp_path: Path) -> None:
    """A stubborn agent takes TERM and lives; KILL ends it."""
    spec = spec_of(tmp_path, "ignore TERM\nwrite here.txt\nhang")
    process = start(plan_of(demo, spec), spec)
    wait_until((tmp_path / "here.txt").exists, what="the agent has written here.txt")
    process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.1)
    process.kill()
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("line", "own_session", "ignores"),
    [("fork 2", False, False), ("double-fork 2 ignore-term", True, True), ("leave-child 300", True, False)],
)
def test_what_it_leaves_behind(tmp_path: Path, line: str, own_session: bool, ignores: bool) -> None:
    """Children and grandchildren outlive it, in the session that was asked for, and hold its output open."""
    spec = spec_of(tmp_path, f"{line}\nsay left")
    process = start(plan_of(demo, spec), spec)
    assert process.stdout is not None
    assert process.stderr is not None
    lines = [process.stdout.readline() for _ in range(4)]
    process.wait(timeout=30)
    pids = _pids(lines[1])
    try:
        assert len(pids) == (1 if "child" in line else 2)
        for pid in pids:
            state = _state(pid)
            assert state is not None
            assert (state[1] != os.getsid(0)) is own_session
            os.kill(pid, signal.SIGTERM)
            if ignores:
                mask = re.search(r"SigIgn:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
                assert mask is not None
                assert int(mask[1], 16) & 1 << (signal.SIGTERM - 1)
            else:
                wait_until(lambda pid=pid: (_state(pid) or "Z")[0] == "Z", what="TERM has ended the child")
    finally:
        for pid in pids:
            if _state(pid) is not None:
                os.kill(pid, signal.SIGKILL)
        process.stdout.close()
        process.stderr.close()


def test_tools_run_in_sessions_of_their_own(tmp_path: Path) -> None:
    """As with real programs, a tool is not in the agent's session."""
    ran = _run(tmp_path, "run cut -d' ' -f6 /proc/self/stat")
    told = [event.text for event in ran.events if event.kind is EventKind.TOOL_RESULT]
    assert int(told[0]) != os.getsid(0)


@pytest.mark.parametrize(("kind", "early_fail"), [("signed_out", True), ("overloaded", False)])
def test_early_fail(tmp_path: Path, kind: str, early_fail: bool) -> None:
    """A retry that cannot help makes the run fail early while it still hangs; one that may help does not."""
    spec = spec_of(tmp_path, f"retry-event {kind}")
    process = start(plan_of(demo, spec), spec)
    assert process.stdout is not None
    reader = demo.reader(spec)
    events = reader.feed(process.stdout.readline() + process.stdout.readline())
    assert events[-1].kind is EventKind.RETRY
    found = reader.early_fail()
    assert (found.kind.value if found else None) == (kind if early_fail else None)
    assert process.poll() is None
    process.kill()
    process.communicate(timeout=30)


@pytest.mark.parametrize(
    "prompt",
    [
        "Please write tests for the parser",
        "write tests for the parser",
        "delete the unused imports",
        "",
        "run",
        "Refactor this.\nwrite a.txt x",
    ],
)
def test_prose_gets_the_story(tmp_path: Path, prompt: str) -> None:
    """A sentence is not taken for an instruction: the story writes one new file, runs a command, and says what it is."""
    (tmp_path / "hello.txt").write_text("mine", encoding="utf-8")
    ran = run(demo, spec_of(tmp_path, prompt), {"pace": "0"})
    assert ran.trace.ok
    assert ran.trace.tool_calls == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hello-2.txt", "hello.txt"]
    assert (tmp_path / "hello.txt").read_text(encoding="utf-8") == "mine"
    assert (prompt.splitlines() or [""])[0] in (tmp_path / "hello-2.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("prompt", ["write a.txt x", "say hello there", "exit 3", "write b c\nexit 0", "#x\nhang"])
def test_scripts_are_seen_as_such(prompt: str) -> None:
    """A line of the language is a script."""
    assert agent.is_script(prompt)


def test_nothing_left_and_nothing_said_is_suspicious(tmp_path: Path) -> None:
    """The demo agent is judged like a real one: success without any trace does not count."""
    trace = _run(tmp_path, "wait 0").trace
    assert (trace.ok, trace.expects_trace, trace.text, trace.tool_calls) == (True, True, "", 0)


def test_a_result_without_a_line_end_counts() -> None:
    """A log that ends within its last line end has its result all the same, and only once the process has ended."""
    reader = DemoReader()
    reader.feed(b'{"type": "result", "ok": true, "text": "done"}')
    assert not reader.trace(None, "").finished
    assert reader.trace(exit_fact(0), "").text == "done"


def test_an_end_that_was_asked_for_is_no_crash() -> None:
    """What a stop ended is judged by that."""
    assert DemoReader().trace(exit_fact(15, EndReason.STOP), "").kind is None


_lines = st.sampled_from(
    [
        b'{"type": "session", "session": "s", "model": "demo"}\n',
        b'{"type": "text", "text": "t"}\n',
        b'{"type": "tool", "name": "run", "text": 3}\n',
        b'{"type": "usage", "input_tokens": -1}\n',
        b'{"type": "retry", "kind": "signed_out"}\n',
        b'{"type": "retry", "kind": []}\n',
        b'{"type": "result", "ok": false, "kind": "no such kind"}\n',
        b'{"type": {}}\n',
        b'{"type": "text", "at": "never"}\n',
        b"Traceback\n",
        b"\0\0",
    ]
)


@given(st.lists(_lines, max_size=9).map(b"".join), st.lists(st.integers(0, 600), max_size=5))
def test_the_cuts_do_not_matter(stream: bytes, places: list[int]) -> None:
    """Any cutting gives what the whole gives, and nothing raises."""
    cuts = sorted({min(place, len(stream)) for place in places})
    whole, cut = DemoReader(), DemoReader()
    expected = whole.feed(stream)
    pieces = [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [event for piece in pieces for event in cut.feed(piece)] == expected
    assert cut.early_fail() == whole.early_fail()
    assert cut.trace(exit_fact(0), "") == whole.trace(exit_fact(0), "")


def test_what_it_does_not_take_is_refused(tmp_path: Path) -> None:
    """No command line, no other pace than a number."""
    with pytest.raises(BadTask, match="not a command line"):
        demo.check(spec_of(tmp_path, argv=("ls",)))
    with pytest.raises(BadTask, match="pace"):
        plan_of(demo, spec_of(tmp_path), {"pace": "fast"})


def test_it_is_always_there() -> None:
    """It needs nothing on the PATH, and its version is ours."""
    program = demo.find({}, {})
    assert Path(program.path).exists()
    assert program.version == version("watchkeeper")


def test_every_failure_kind_can_be_named() -> None:
    """The agent stands alone, so its list of kinds is a copy."""
    assert {kind.value for kind in FailureKind} == agent.KINDS


def test_the_page_lists_every_instruction() -> None:
    """docs/harnesses/demo.md has the language as it is."""
    page = (Path(__file__).parents[3] / "docs" / "harnesses" / "demo.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", page, re.MULTILINE)
    table = [(f"{word} {shape}".strip(), does.__doc__) for word, (shape, _, does) in agent.TABLE.items()]
    assert rows == table
