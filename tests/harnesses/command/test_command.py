"""Any command as an agent: where the prompt goes, what its end means, what is kept of its output."""

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.plans import exit_fact, plan_of, run, spec_of

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import EndReason
from watchkeeper.errors import BadTask, ProgramMissing
from watchkeeper.harnesses.command import ARGUMENT_LIMIT, LINE_BYTES, TEXT_LINES, CommandHarness, CommandReader
from watchkeeper.harnesses.json_lines import HOLE

command = CommandHarness()


@pytest.mark.parametrize(
    ("argv", "options"),
    [
        (("cat",), {}),
        (("cat",), {"prompt_by": "stdin"}),
        (("printf", "%s", "{prompt}"), {}),
        (("printf", "%s"), {"prompt_by": "argument"}),
        (("cat", "{prompt_file}"), {"prompt_by": "none"}),
        (("cat",), {"prompt_by": "file"}),
    ],
)
def test_the_prompt_arrives(tmp_path: Path, argv: tuple[str, ...], options: dict[str, str]) -> None:
    """By standard input, as an argument, or in a file, unchanged."""
    spec = spec_of(tmp_path, "do $this; 'ü' \"now\"", harness="command", argv=argv)
    ran = run(command, spec, options)
    assert ran.trace.text == spec.prompt
    assert (ran.trace.finished, ran.trace.ok, ran.trace.kind, ran.trace.expects_trace) == (True, True, None, False)


def test_a_literal_placeholder(tmp_path: Path) -> None:
    """Doubled braces are not a placeholder."""
    ran = run(command, spec_of(tmp_path, "p", argv=("printf", "%s", "{{prompt}}")), {"prompt_by": "none"})
    assert ran.trace.text == "{prompt}"


def test_a_failure_tells_code_and_last_complaint(tmp_path: Path) -> None:
    """A code other than 0 is a crash with the last line of standard error."""
    ran = run(command, spec_of(tmp_path, argv=("sh", "-c", "echo out; echo first >&2; echo 'no way' >&2; exit 3")))
    assert (ran.trace.ok, ran.trace.kind) == (False, FailureKind.CRASH)
    assert ran.trace.reason == "The command ended with exit code 3: no way"
    assert ran.trace.text == "out"


def test_a_signal_is_a_crash(tmp_path: Path) -> None:
    """A command that a signal ended crashed, whatever it had printed."""
    ran = run(command, spec_of(tmp_path, argv=("sh", "-c", "kill -9 $$")))
    assert (ran.trace.ok, ran.trace.kind) == (False, FailureKind.CRASH)
    assert ran.trace.reason == f"The command ended with signal {signal.SIGKILL:d}."


def test_an_end_that_was_asked_for_is_no_crash() -> None:
    """What a stop or a deadline ended is judged by that."""
    trace = CommandReader().trace(exit_fact(15, EndReason.STOP), "complaint")
    assert (trace.ok, trace.kind) == (False, None)


def test_while_it_runs_nothing_is_decided() -> None:
    """Without an end there is text so far, and no result."""
    reader = CommandReader()
    reader.feed(b"half a li")
    trace = reader.trace(None, "")
    assert (trace.finished, trace.ok, trace.text) == (False, False, "half a li")


def test_output_is_bounded(tmp_path: Path) -> None:
    """Of endless output the last lines remain, of an endless line its beginning and its end."""
    code = "import sys\nfor i in range(9999): print('line', i)\nsys.stdout.write('y' * 10**6 + 'the end')"
    ran = run(command, spec_of(tmp_path, argv=(sys.executable, "-c", code)))
    lines = ran.trace.text.splitlines()
    assert len(lines) == TEXT_LINES + 1
    assert lines[-2] == "line 9998"
    assert len(lines[-1]) == LINE_BYTES + len(" … ")
    assert lines[-1].endswith("ythe end")


def test_a_progress_bar_is_its_newest_drawing() -> None:
    """Carriage returns draw over the line; escape sequences do not reach a terminal."""
    reader = CommandReader()
    events = reader.feed(b" 10%\r 50%\r100%\r\n\x1b[31mred\n")
    assert [event.text for event in events] == ["100%", " [31mred"]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (b"one\ntwo", "one\ntwo"),
        (b"one\r\ntwo\r\n", "one\ntwo"),
        (b"one\n10%\r20%", "one\n20%"),
        (b"one\n10%\r20%\r", "one\n20%"),
        (b"a\0b\n", "a␀b"),
        (b"a.txt\0b.txt\0", "a.txt␀b.txt␀"),
        ("hi\n".encode("utf-16-le"), "h␀i␀\n␀"),
        (b"before" + b"\0" * 500 + b"after", "before" + "␀" * 500 + "after"),
    ],
)
def test_the_last_lines_are_kept_however_they_end(output: bytes, text: str) -> None:
    """Without a last line end, with carriage returns, with NUL bytes, which are the program's own however many they are."""
    reader = CommandReader()
    events = reader.feed(output)
    assert reader.trace(exit_fact(0), "").text == text
    assert HOLE not in [event.text for event in events]


def test_a_part_that_is_not_kept_ends_a_line_and_is_named() -> None:
    reader = CommandReader()
    assert reader.feed(b"before") == []
    assert [event.text for event in reader.gap()] == ["before", HOLE]
    _ = reader.feed(b"after")
    assert reader.trace(exit_fact(0), "").text == "before\nafter"


_pieces = st.lists(
    st.sampled_from([b"a", b"\n", b"\r", b"\r\n", "ü".encode(), b"\0\0", b"\0" * 3000, b"\xff", b"z" * 700]),
    max_size=20,
)


@given(_pieces.map(b"".join), st.lists(st.integers(0, 9000), max_size=5))
def test_the_cuts_do_not_matter(stream: bytes, places: list[int]) -> None:
    """Any cutting gives what the whole gives."""
    cuts = sorted({min(place, len(stream)) for place in places})
    whole, cut = CommandReader(), CommandReader()
    expected = whole.feed(stream)
    pieces = [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [event for piece in pieces for event in cut.feed(piece)] == expected
    assert cut.trace(exit_fact(0), "") == whole.trace(exit_fact(0), "")


@pytest.mark.parametrize(
    ("argv", "detail"),
    [
        ((), "needs a command line"),
        (("",), "needs a command line"),
        (("a", "{prompt}", "{prompt_file}"), "more than once"),
        (("{prompt}",), "cannot be the program"),
        (("a", "--ask={prompt}"), "part of an argument"),
        (("a", "b\0c"), "NUL"),
    ],
)
def test_what_cannot_be_started_is_refused(tmp_path: Path, argv: tuple[str, ...], detail: str) -> None:
    """Refused when it is handed over, with what to do instead."""
    with pytest.raises(BadTask, match=detail) as refusal:
        command.check(spec_of(tmp_path, "p", argv=argv))
    assert refusal.value.hint


def test_a_prompt_that_no_argument_holds_is_refused(tmp_path: Path) -> None:
    """The system's own limit is checked before anything runs; standard input has none."""
    prompt = "x" * (ARGUMENT_LIMIT + 1)
    with pytest.raises(BadTask, match="cannot be an argument"):
        command.check(spec_of(tmp_path, prompt, argv=("a", "{prompt}")))
    with pytest.raises(BadTask, match="cannot be an argument"):
        plan_of(command, spec_of(tmp_path, prompt, argv=("a",)), {"prompt_by": "argument"})
    assert run(command, spec_of(tmp_path, prompt, argv=("wc", "-c"))).trace.text == str(len(prompt))
    assert run(command, spec_of(tmp_path, prompt[1:], argv=("test", "x", "!=", "{prompt}"))).trace.ok


def test_an_unknown_way_for_the_prompt_is_refused(tmp_path: Path) -> None:
    """A misspelt option is not guessed at."""
    with pytest.raises(BadTask, match="prompt_by"):
        plan_of(command, spec_of(tmp_path, argv=("a",)), {"prompt_by": "pipe"})


def test_the_hint_for_shell_scripts_works(tmp_path: Path) -> None:
    """What the refusal of a placeholder inside an argument recommends does what it says."""
    with pytest.raises(BadTask) as refusal:
        command.check(spec_of(tmp_path, "p", argv=("a", "x{prompt}")))
    words = shlex.split(refusal.value.hint.partition(": ")[2].removesuffix("."))
    words[2] = words[2].replace("tool --ask", "printf %s")
    assert run(command, spec_of(tmp_path, "the prompt", argv=tuple(words))).trace.text == "the prompt"


def program(path: Path, mode: int = 0o755) -> Path:
    """A program that does nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def found(cwd: Path, word: str, path: str) -> str:
    """Where a task's program is found."""
    return command.find_for(spec_of(cwd, argv=(word, "x")), {"PATH": path}, {}).path


def test_a_program_is_found_where_the_system_will_find_it(tmp_path: Path) -> None:
    """On the PATH, whose relative parts count from the task's directory as the paths of programs do."""
    cwd, tools = tmp_path / "task", tmp_path / "tools"
    here, there, deeper = program(cwd / "here"), program(tools / "there"), program(cwd / "bin" / "deep")
    _ = program(cwd / "denied" / "there", 0o644)
    assert found(cwd, "./here", "/nowhere") == str(here)
    assert found(cwd, "bin/deep", "/nowhere") == str(deeper)
    assert found(cwd, str(here), "") == str(here)
    assert found(cwd, "there", f"/nowhere:denied:{tools}") == str(there)
    assert found(cwd, "deep", "bin") == str(deeper)
    assert found(cwd, "here", "") == str(here), "an empty part is the directory itself"
    for word, path in (("there", f"denied:{tools}"), ("deep", "bin"), ("./here", "")):
        spec = spec_of(cwd, argv=(word,))
        planned = plan_of(command, spec, environment={"PATH": path})
        pid = os.posix_spawn(  # what the system itself makes of it, in that directory
            sys.executable,
            [
                sys.executable,
                "-c",
                "import os, sys; os.chdir(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])",
                str(cwd),
                *map(str, planned.argv),
            ],
            {"PATH": path},
        )
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize(
    ("word", "detail", "hint"),
    [
        ("nosuchtool", "The program 'nosuchtool' is not on your PATH.", "Install it, or name it by its path."),
        ("here", "The program 'here' is not on your PATH.", "name it ./here."),
        ("./gone", "There is no program './gone'.", "counts from the task's directory"),
        ("/nowhere/gone", "There is no program '/nowhere/gone'.", "Name one that is there."),
        ("./plain", "plain' may not be executed.", "chmod +x"),
        ("plain", "plain' may not be executed.", "chmod +x"),
        ("./bin", "'./bin' is a directory, not a program.", "Name a program in it."),
    ],
)
def test_a_program_that_cannot_be_found_is_named(tmp_path: Path, word: str, detail: str, hint: str) -> None:
    """And what is wrong with it, and what to do."""
    _ = program(tmp_path / "here"), program(tmp_path / "plain", 0o644), program(tmp_path / "bin" / "deep")
    path = str(tmp_path) if word == "plain" else "/nowhere"
    with pytest.raises(ProgramMissing) as missing:
        _ = found(tmp_path, word, path)
    assert str(missing.value).endswith(detail) and hint in missing.value.hint
