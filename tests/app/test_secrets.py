"""Secrets are refused where they would be stored, and words that are stored hold none, however a reader shortens them."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from support.plans import exit_fact, spec_of

from watchkeeper.app.read_output import Follower, read_trace
from watchkeeper.app.secrets import redactor_of, refuse_secrets
from watchkeeper.cli.output import Begins, Ends
from watchkeeper.cli.printers import Lines, Printer
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import EarlyFail, ExitFact, Run, Trace
from watchkeeper.errors import BadTask
from watchkeeper.harnesses.command import LINE_BYTES, CommandHarness
from watchkeeper.ports.harness import EventKind, StreamEvent
from watchkeeper.ports.runtime import Log
from watchkeeper.redaction.engine import Redactor
from watchkeeper.redaction.variables import Secret
from watchkeeper.runtimes.kept_log import open_kept

if TYPE_CHECKING:
    from watchkeeper.ports.runtime import Executions

TOKEN = "q7Hn4kZx2Lw9Rt5vPb8m"
RUN = cast("Run", type("AnyRun", (), {"number": 1, "id": "t.1"})())


@dataclass
class Kept:
    """Executions of one run, whose logs are two files."""

    root: Path
    given: Mapping[str, str] | None = None
    holes: list[tuple[int, int]] = field(default_factory=list)

    def open_log(self, run: Run, stream: str) -> AbstractContextManager[Log | None]:
        del run
        return open_kept(self.root / f"{stream}.log", lambda: self.holes)

    def dropped(self, run: Run, stream: str) -> list[tuple[int, int]]:
        del run, stream
        return self.holes

    def environment(self, run: Run) -> Mapping[str, str] | None:
        del run
        return self.given

    def asked(self, run: Run) -> tuple[str, ...]:
        del run
        return ()


def _trace(tmp_path: Path, stdout: bytes, stderr: bytes = b"", code: int = 1) -> Trace:
    (tmp_path / "stdout.log").write_bytes(stdout)
    (tmp_path / "stderr.log").write_bytes(stderr)
    kept, spec = (
        cast("Executions", Kept(tmp_path, {"API_TOKEN": TOKEN})),
        spec_of(tmp_path, harness="command", argv=("x",)),
    )
    trace = read_trace(CommandHarness(), spec, kept, RUN, exit_fact(code << 8), redactor_of(kept, RUN, spec)).trace
    assert trace is not None
    return trace


def test_only_the_record_says_what_is_missing(tmp_path: Path) -> None:
    """Zero bytes are the program's own, however many; those of a part that is on record are not."""
    (tmp_path / "stdout.log").write_bytes(b"begin\n" + b"\0" * 5000 + b"end a\0b\n" + b"\0" * 3)
    (tmp_path / "stderr.log").touch()
    kept = Kept(tmp_path, {})
    kept.holes = [(6, 5006)]
    executions, spec = cast("Executions", kept), spec_of(tmp_path, harness="command", argv=("x",))
    trace = read_trace(CommandHarness(), spec, executions, RUN, exit_fact(0), redactor_of(executions, RUN, spec)).trace
    assert trace is not None
    assert trace.text == "begin\nend a␀b\n␀␀␀"


@pytest.mark.parametrize("shown", range(1, len(TOKEN)))
def test_a_reader_that_cuts_a_line_cuts_no_secret_in_two(tmp_path: Path, shown: int) -> None:
    """A half would not be recognised any more."""
    trace = _trace(tmp_path, b"." * (LINE_BYTES - shown) + TOKEN.encode() + b"\nlast line\n")
    assert TOKEN[:1] not in trace.text and trace.text.endswith("last line")


@pytest.mark.parametrize("before", [0, 1, 5, 12, 19, 20, 300])
def test_the_end_of_standard_error_begins_in_no_secret(tmp_path: Path, before: int) -> None:
    """What is read of it begins somewhere; a secret that begins before that is hidden whole."""
    tail = b"x" * (8 * 1024 - len(TOKEN) + before)
    trace = _trace(tmp_path, b"", b"y" * 9000 + TOKEN.encode() + tail)
    assert TOKEN[-2:] not in trace.reason and trace.reason.startswith("The command ended with exit code 1: ")


def test_what_happened_is_judged_by_the_output_as_it_is(tmp_path: Path) -> None:
    """A secret that happens to be a word of the program's own hides no verdict."""
    assert _trace(tmp_path, TOKEN.encode(), code=0).ok
    assert _trace(tmp_path, TOKEN.encode(), code=0).text == "[redacted API_TOKEN]"


def test_without_an_environment_what_looks_like_a_secret_is_hidden(tmp_path: Path) -> None:
    redactor = redactor_of(cast("Executions", Kept(tmp_path)), RUN, spec_of(tmp_path))
    assert redactor.text(f"{TOKEN} ghp_{TOKEN}{TOKEN}") == f"{TOKEN} [redacted GitHub token]"


class Doomed:
    """A reader whose program has said a secret in its conversation's name and in what makes fail early it."""

    def feed(self, data: bytes) -> list[StreamEvent]:
        del data
        return []

    def gap(self) -> list[StreamEvent]:
        return []

    def early_fail(self) -> EarlyFail | None:
        return EarlyFail(
            kind=FailureKind.SIGNED_OUT, reason=f"The key {TOKEN} was refused; the beginning is {TOKEN[:9]}…"
        )

    def trace(self, exit_fact: ExitFact | None, stderr_tail: str) -> Trace:
        del exit_fact, stderr_tail
        return Trace(finished=False, ok=False, harness_session=f"s-{TOKEN}")


def test_what_is_recorded_while_an_agent_works_holds_no_secret(tmp_path: Path) -> None:
    """The name of its conversation, and why it is ended early."""
    follower = Follower(
        account="demo:own",
        reader=Doomed(),
        open_log=lambda: open_kept(tmp_path / "log"),
        redactor=lambda: Redactor([Secret("KEY", TOKEN)]),
    )
    found = follower.early_fail()
    assert found is not None and found.reason == "The key [redacted KEY] was refused; the beginning is [redacted KEY]…"
    assert follower.session() == "s-[redacted KEY]"


class Joined(Lines):
    """A reader that joins all it is given."""

    def __init__(self) -> None:
        super().__init__()
        self._text = ""

    def feed(self, data: bytes) -> list[StreamEvent]:
        self._text += data.decode().strip()
        return [StreamEvent(kind=EventKind.TEXT, text=self._text)]


def test_a_secret_that_comes_in_two_events_is_hidden_where_they_are_joined() -> None:
    shown: list[str] = []
    printer = Printer(lambda event, _: shown.append(event.text), Joined)
    for piece in (
        Begins(run=RUN, hide=Redactor([Secret("KEY", TOKEN)]).text),
        TOKEN[:9].encode(),
        b"\n" + TOKEN[9:].encode(),
        Ends(run=RUN),
    ):
        printer.take(piece)
    assert shown[1] == "[redacted KEY]"


@pytest.mark.parametrize(
    ("argv", "detail"),
    [
        (["x", "--password=Zk3x9Qw7Lm2Pv5Rt8"], "--password"),
        (["x", "-token", "Zk3x9Qw7Lm2Pv5Rt8"], "-token"),
        (["x", "--api-key", "Zk3x9Qw7Lm2Pv5Rt8"], "--api-key"),
        (["env", "DB_PASSWORD=Zk3x9Qw7Lm2Pv5Rt8", "x"], "DB_PASSWORD"),
        (["x", f"a {TOKEN} b"], "'API_TOKEN'"),
        (["x", "ghp_Zk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6Gh0Js2Ka7B"], "GitHub token"),
    ],
)
def test_a_secret_on_a_command_line_is_refused(tmp_path: Path, argv: list[str], detail: str) -> None:
    """With the name of the flag, the variable or the kind, and never the value."""
    with pytest.raises(BadTask, match=detail) as refusal:
        refuse_secrets(spec_of(tmp_path, argv=tuple(argv)), {}, {"API_TOKEN": TOKEN})
    told = f"{refusal.value} {refusal.value.hint}"
    assert "Zk3x9" not in told and TOKEN not in told and "--env NAME" in told


@pytest.mark.parametrize(
    "argv",
    [
        ["x", "--max-tokens", "100000000000000000"],
        ["x", "--token-limit=1234567890123456789"],
        ["x", "--password-file", "/run/secrets/Db1Password2File3"],
        ["x", "--api-key", "$API_KEY_OF_2026_Production"],
        ["x", "--key", "src/Some/Path2/to/a/File17.py"],
        ["x", "--secret", "projects/shop/secrets/Db1/versions/2"],
        ["x", "--private-key", "--other-flag-17-With-Letters"],
        ["git", "checkout", "2b85931d07c7a5d3f9e1b6c4a8f0e2d4c6b8a0f1"],
        ["sh", "-c", 'curl -H "Authorization: Bearer $TOKEN" https://api.example.org'],
        ["pytest", "-k", "test_token and test_password", "KEY=value"],
    ],
)
def test_an_ordinary_command_line_is_accepted(tmp_path: Path, argv: list[str]) -> None:
    refuse_secrets(spec_of(tmp_path, argv=tuple(argv)), {"PATH": "/usr/bin"}, {})


@pytest.mark.parametrize(
    ("prompt", "caller"),
    [
        ("use postgres and the password file", {"DB_PASSWORD": "postgres", "KEYS": "/home/me/keys"}),
        ("look into /home/me/keys.json", {"GOOGLE_CREDENTIALS": "/home/me/keys.json"}),
        ("say it with development", {"SECRET": "development"}),
        ("use at most 1000000000 tokens", {"MAX_TOKENS": "1000000000"}),
        ("my name is not secret: something-unusual", {"NAME": "something-unusual"}),
    ],
)
def test_an_ordinary_task_is_accepted_in_an_ordinary_shell(tmp_path: Path, prompt: str, caller: dict[str, str]) -> None:
    """A word that happens to be a password refuses no task."""
    refuse_secrets(spec_of(tmp_path, prompt), {}, caller)
