"""Nothing printed obeys a name or a path, JSON loses none of it, and errors repeat no secret."""

import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from watchkeeper.cli.render import GREEN, Terminal

if TYPE_CHECKING:
    from support.cli import Wk

NASTY = os.fsdecode(b"a\xff\xc2\x9b31m\x1b[2J\xe2\x80\xaec\x07")
ODD = "a\x9b31m\x1b[2J\u202ec\x07\x85\u2028"
"""The same for what must be text."""

OBEYED = {*map(chr, range(32)), *map(chr, range(0x7F, 0xA0)), "\u202e", "\u2066"} - {"\n", "\t"}


def test_a_name_reaches_people_clean_and_programs_whole(wk: "Wk") -> None:
    """In what is said of a hand-over, in tables, in full, in history; and it can be used again from JSON."""
    place = wk.cwd / NASTY
    place.mkdir()
    added = wk("run", "--harness", "demo", "--cwd", str(place), "--title", f"t{ODD}", f"do{ODD}")
    assert added.code == 0, added.err
    task_id = added.out.strip()
    said = [
        added,
        wk("show", task_id),
        wk("ls"),
        wk("ls", "--label", ODD),
        wk("events"),
        wk("why", task_id),
        wk("env", task_id),
    ]
    said += [
        wk("show", NASTY),
        wk("logs", NASTY),
        wk("run", "--harness", NASTY, "x"),
        wk("config", "set", NASTY, "1"),
        wk(NASTY),
    ]
    said += [wk("run", "--cwd", NASTY + NASTY, "--harness", "demo", "x"), wk("account", "show", NASTY)]
    for answer in said:
        assert OBEYED & set(answer.out + answer.err) == set(), answer
    for words in (["show", task_id, "--json"], ["ls", "--json"], ["events", "--json"], ["show", NASTY, "--json"]):
        answer = wk(*words)
        assert OBEYED & set(answer.out + answer.err) == set(), answer
    shown = wk("show", task_id, "--json").json
    assert os.fsencode(shown["cwd"]) == os.fsencode(str(place)) and Path(shown["cwd"]).is_dir()
    assert shown["prompt"] == f"do{ODD}"


@pytest.mark.parametrize(
    "bad", ["\x1b[2J", "\x9b2J", "\x1b]0;title\x07", "\u202e", "\x1b[8m", "\x1b[31;5m", "\b\b", "\r"]
)
def test_what_a_caller_forgot_to_clean_is_not_obeyed(bad: str) -> None:
    """The last line of defence; our own colours, line ends and tabs stay."""
    out, err = io.StringIO(), io.StringIO()
    terminal = Terminal({}, out, err)
    ours = f"\x1b[{GREEN}mdone\x1b[0m"
    terminal.say(f"{ours}\t{bad}\nx")
    terminal.note(f"{ours} {bad}")
    terminal.table(["A", "B"], [[bad, bad]])
    terminal.prose(bad)
    printed = out.getvalue() + err.getvalue()
    assert printed.count(ours) == 2 and "\t" in printed
    assert OBEYED & set(printed.replace(ours, "")) == set()


def test_json_on_a_stream_that_is_no_utf8_loses_nothing() -> None:
    raw = io.BytesIO()
    terminal = Terminal({}, io.TextIOWrapper(raw, encoding="latin-1", errors="replace"))
    for write in (terminal.document, terminal.line, lambda value: terminal.array([value])):
        write({"a": "é☃\udcff"})
    terminal.stdout.flush()
    assert raw.getvalue().isascii() and raw.getvalue().count(b"\\u2603\\udcff") == 3


ANTHROPIC = "sk-ant-api03-Zk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6Gh0Js"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4ifQ.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
GITHUB = "ghp_Zk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6Gh0Js2Ka7B"
URL = "postgresql://user:Zk3x9Qw7Lm2P@db.example.org/wk?odd=1"
OWN = "correct-horse-battery-staple"

MISTYPED = [
    ["run", "--account", "{}", "--harness", "demo", "x"],
    ["run", "--harness", "{}", "x"],
    ["run", "--harness", "demo", "--after", "{}", "x"],
    ["run", "--harness", "demo", "--machine", "{}", "x"],
    ["run", "--harness", "demo", "--option", "pace={}", "x"],
    ["run", "--harness", "demo", "--option", "{}", "x"],
    ["run", "--harness", "demo", "--rights", "{}", "x"],
    ["run", "--harness", "demo", "--deadline", "{}", "x"],
    ["run", "--harness", "demo", "--env", "{}", "x"],
    ["run", "--harness", "demo", "--env", "A={}", "x"],
    ["run", "--harness", "demo", "--cwd", "/{}", "x"],
    ["run", "--harness", "demo", "--key", "{}", "x"],
    ["run", "--harness", "demo", "-f", "{}"],
    ["run", "-{} and more", "x"],
    ["show", "{}"],
    ["show", "--json", "{}"],
    ["logs", "{}", "--since", "{}"],
    ["stop", "{}"],
    ["retry", "{}"],
    ["rm", "{}"],
    ["config", "set", "{}", "1"],
    ["config", "set", "run.retries", "{}"],
    ["config", "set", "store", "{}"],
    ["account", "show", "claude:{}"],
    ["queue", "limit", "{}"],
    ["store", "move", "{}"],
    ["ls", "--{}"],
    ["ls", "--nothing={}"],
    ["--debug", "show", "{}"],
    ["{}"],
]


@pytest.mark.parametrize("secret", [ANTHROPIC, JWT, GITHUB, URL, OWN], ids=["key", "JWT", "token", "URL", "own"])
@pytest.mark.parametrize("words", MISTYPED, ids=" ".join)
def test_an_error_repeats_no_secret(wk: "Wk", words: list[str], secret: str) -> None:
    """Nor the beginning of one, wherever it was typed by mistake."""
    answer = wk(*(word.format(secret) for word in words), also={"MY_TOKEN": OWN})
    if answer.code == 0 and secret == OWN:
        return  # it was taken for a name, which it may be
    assert answer.code != 0
    told = answer.out + answer.err
    for part in (secret[:20] if secret != URL else "Zk3x9Qw7", secret[-12:] if secret != URL else "w7Lm2P"):
        assert part not in told, told
    assert told.strip()


@pytest.mark.parametrize("secret", [ANTHROPIC, JWT, GITHUB])
@pytest.mark.parametrize(
    "line", ['{{"{0}": 1}}', '{{"prompt": "x", "rights": "{0}"}}', '{{"{0}": 1, "{0}": 2}}', "{{{0}", '{{"cwd": "/{0}", "prompt": "x"}}',
             '{{"prompt": "x", "name": "{0}", "after": ["{0}"]}}'],
)  # fmt: skip
def test_an_error_in_a_line_repeats_no_secret(wk: "Wk", line: str, secret: str) -> None:
    answer = wk("add", "--harness", "demo", "--json-lines", stdin=line.format(secret).encode())
    assert answer.code != 0 and secret[:20] not in answer.err and secret[-12:] not in answer.err


def test_an_error_as_json_is_one_object(wk: "Wk") -> None:
    answer = wk("show", "--json", f"{ANTHROPIC}\x9b\udcff")
    assert "Zk3x" not in answer.err and json.loads(answer.err)["exit_code"] == answer.code
