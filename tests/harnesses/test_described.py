"""A harness that is a TOML file: what it plans, what it refuses, and how it reads the answer."""

import json
import re
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from support.plans import exit_fact, plan_of, run, spec_of

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import TaskSpec
from watchkeeper.domain.profile import RightsLevel
from watchkeeper.errors import BadTask, HarnessError
from watchkeeper.harnesses.described import DescribedHarness
from watchkeeper.harnesses.registry import BUILT_IN, GROUP, Registry
from watchkeeper.ports.harness import EventKind, Harness, declared

PAGE = Path(__file__).parents[2] / "docs" / "harnesses" / "file.md"
EXAMPLE = re.search(r"^```toml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
SHOUT = EXAMPLE[1] if EXAMPLE else ""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program `shout` on the path that prints its arguments and its input."""
    (tmp_path / "bin").mkdir()
    path = tmp_path / "bin" / "shout"
    path.write_text('#!/bin/sh\n[ "$1" = --version ] && echo shout 3.2.1 && exit\necho "$@"\ncat\n', encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(path.parent), prepend=":")
    return path


def made(directory: Path, text: str, name: str = "shout") -> Harness:
    """The harness of a file."""
    (directory / f"{name}.toml").write_text(text, encoding="utf-8")
    return Registry(list, directory).get(name)


def spec(tmp_path: Path, prompt: str = "Fix it") -> TaskSpec:
    return spec_of(tmp_path, prompt, harness="shout")


def test_the_example_plans_what_it_describes(tmp_path: Path, program: Path) -> None:
    harness = made(tmp_path, SHOUT)
    plain = plan_of(harness, spec(tmp_path))
    assert plain.argv == (str(program), "run", "--json", "--no-config", "--", None)
    assert plain.prompt_by == "argument"
    task = replace(spec(tmp_path), model="big", isolation="user")
    rich = plan_of(harness, task, {"effort": "{prompt}"})
    assert rich.argv == (str(program), "run", "--json", "--model", "big", "--effort={prompt}", "--", None)
    assert harness.find({"PATH": str(program.parent)}, {}).version == "3.2.1"
    assert harness.takeover(task, "a b") == "shout --resume 'a b'"


def test_it_promises_only_what_is_enforced(tmp_path: Path) -> None:
    """No level of rights but `full`; an isolation is named with its arguments, and as not checked."""
    harness = made(tmp_path, SHOUT)
    rights = harness.rights(spec(tmp_path), {})
    assert "may do what you may" in rights.detail and rights.sandbox == "none" and rights.network == "yours"
    assert "--no-config" in rights.reads and rights.reads.endswith("not checked")
    known = declared(harness)
    assert set(known.levels.options) == {RightsLevel.FULL}
    assert (known.isolations, known.environment) == (("strict", "user"), ("SHOUT_*",))
    assert set(known.options or ()) == {"program", "isolation", "effort"}


def test_another_description_is_another_permission(tmp_path: Path) -> None:
    """On another machine, and at a retry, a changed command line must not pass for the one that was approved."""
    first, same = made(tmp_path, SHOUT), made(tmp_path, SHOUT + "\n# a remark\n")
    other = made(tmp_path, SHOUT.replace('"--json"', '"--json", "--yolo"'))
    said = [harness.rights(spec(tmp_path), {}).detail for harness in (first, same, other)]
    assert said[0] == said[1] != said[2]


def test_the_prompt_comes_by_standard_input_or_a_file(tmp_path: Path, program: Path) -> None:
    harness = made(tmp_path, 'command = ["shout", "-"]')
    ran = run(harness, spec(tmp_path, "Say it"))
    assert (ran.trace.ok, ran.trace.text) == (True, "-\nSay it")
    harness = made(tmp_path, 'command = ["shout", "{prompt_file}"]')
    assert plan_of(harness, spec(tmp_path)).prompt_by == "file"
    assert program.exists()


@pytest.mark.parametrize(
    ("task", "detail"),
    [
        ({"prompt": " "}, "needs a prompt"),
        ({"prompt": "a\0b"}, "NUL"),
        ({"prompt": "x" * 200_000}, "cannot be an argument"),
        ({"prompt": "-rf"}, "begins with a dash"),
        ({"model": "big"}, "takes no model"),
        ({"argv": ("true",)}, "not a command line"),
    ],
)
def test_what_it_does_not_take(tmp_path: Path, task: dict[str, object], detail: str) -> None:
    harness = made(tmp_path, 'command = ["shout", "{prompt}"]')
    with pytest.raises(BadTask, match=detail) as refusal:
        harness.check(replace(spec(tmp_path), **task))
    assert refusal.value.hint


def test_a_dash_behind_the_end_of_options_is_taken(tmp_path: Path) -> None:
    made(tmp_path, SHOUT).check(spec(tmp_path, "- one\n- two"))


def test_an_option_that_is_not_declared(tmp_path: Path, program: Path) -> None:
    with pytest.raises(BadTask, match="no option 'efort'") as refusal:
        made(tmp_path, SHOUT).find({"PATH": str(program.parent)}, {"efort": "1"})
    assert refusal.value.hint == "It has: effort, isolation, program."


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("command = [", "not valid TOML"),
        ("", "names no program"),
        ("command = 'shout'", "'command' must be a list of texts"),
        ("command = ['{prompt}']", "cannot be the program"),
        ("command = ['x', '{prompt}', '{prompt_file}']", "more than once"),
        ("command = ['x', 'a{prompt}']", "part of an argument"),
        ("command = ['x']\nmodle = []", "no key 'modle'"),
        ("command = ['x']\nmodel = ['-m', '{value}']", "no word {options}"),
        ("command = ['x']\ninstall = 1", "'install' must be a text"),
        ("command = ['x']\nenvironment = ['*']", "every variable"),
        ("command = ['x']\noptions = ['a']", "'options' must be a table"),
        ("command = ['x']\n[options]\na = 'b'", "'options.a' must be a list"),
        (
            "command = ['x', '{options}']\n[options]\nprogram = ['-p', '{value}']",
            "'program' cannot be an option of its own",
        ),
        ("command = ['x']\noutput = 'xml'", "'output' must be a table"),
        ("command = ['x']\n[output]\nanswer = 'a'", "no key 'output.answer'"),
        ("command = ['x']\n[output]\ntext = 1", "'output.text' must be a text"),
        ("command = ['x']\n[output]\nfinal = 'done'", "'output.final' must be a table"),
    ],
)
def test_a_file_that_cannot_be_used_spoils_no_other(tmp_path: Path, text: str, detail: str) -> None:
    with pytest.raises(HarnessError, match=re.escape(detail)) as refusal:
        made(tmp_path, text)
    assert "shout.toml" in str(refusal.value) and refusal.value.hint
    listed = {row.name: row for row in Registry(list, tmp_path).listed()}
    assert detail in listed.pop("shout").problem
    assert all(row.harness is not None for row in listed.values())


def test_a_change_of_the_file_counts_at_once_and_no_built_in_name_is_taken(tmp_path: Path) -> None:
    registry = Registry(list, tmp_path)
    for isolation in ("one", "two"):
        (tmp_path / "shout.toml").write_text(
            f"command = ['x', '{{options}}']\n[isolations]\n{isolation} = []\n", encoding="utf-8"
        )
        assert declared(registry.get("shout")).isolations == (isolation,)
    for name in ("demo", "No Name"):
        (tmp_path / f"{name}.toml").write_text("command = ['x']", encoding="utf-8")
    assert not isinstance(registry.get("demo"), DescribedHarness)
    assert registry.names() == sorted([*BUILT_IN, "shout"])


def test_what_another_harness_hides_is_named(tmp_path: Path) -> None:
    """A file with a built-in name, a file whose name cannot be given, and an installed harness with the name of either."""
    for name in ("claude", "No Name", "shout", "quiet"):
        (tmp_path / f"{name}.toml").write_text("command = ['x']", encoding="utf-8")
    points = [EntryPoint(name=name, value=f"they:{name}", group=GROUP) for name in ("demo", "shout", "other")]
    registry = Registry(lambda: points, tmp_path)
    assert [(each.name, Path(each.source).name) for each in registry.ignored()] == [
        ("No Name", "No Name.toml"),
        ("claude", "claude.toml"),
        ("demo", "they:demo"),
        ("shout", "they:shout"),
    ]
    hidden = registry.ignored_file("claude")
    assert hidden is not None
    assert (
        hidden.detail
        == f"'{tmp_path / 'claude.toml'}' does not count: the built-in harness has its name: rename the file."
    )
    assert [registry.ignored_file(name) for name in ("codex", "shout", "other")] == [None, None, None]
    assert Registry(list).ignored() == [] and Registry(list).ignored_file("claude") is None


LINES = [
    {"session": "s1", "type": "start"},
    {"type": "text", "message": {"text": "First."}},
    {"type": "call"},
    {"type": "text", "message": {"text": "Done it."}},
]


@pytest.mark.parametrize(
    ("last", "status", "ok", "kind", "reason"),
    [
        ({"type": "done"}, 0, True, None, ""),
        ({"type": "done"}, 256, True, None, ""),
        ({"type": "done", "ok": False, "why": "no luck"}, 0, False, None, "no luck"),
        ({"type": "done", "ok": False}, 0, False, None, "The program printed that it failed."),
        (
            {"type": "other"},
            0,
            False,
            FailureKind.CRASH,
            "The program ended without its final event with exit code 0: oh",
        ),
        ({"type": "other"}, 9, False, FailureKind.CRASH, "The program ended without its final event with signal 9: oh"),
    ],
)
def test_the_final_event_decides(
    tmp_path: Path, last: dict[str, object], status: int, ok: bool, kind: FailureKind | None, reason: str
) -> None:
    """However the output is cut."""
    harness = made(tmp_path, SHOUT)
    output = "\n".join(json.dumps(line) for line in [*LINES, last]).encode()
    for size in (1, 7, len(output)):
        reader = harness.reader(spec(tmp_path))
        events = [each for at in range(0, len(output), size) for each in reader.feed(output[at : at + size])]
        trace = reader.trace(exit_fact(status), "hm\noh\n")
        assert (trace.ok, trace.kind, trace.reason) == (ok, kind, reason)
        assert (trace.text, trace.harness_session, trace.tool_calls) == ("Done it.", "s1", 1)
        assert trace.expects_trace and trace.whole and trace.answered is ok
        assert [each.kind for each in events[:3]] == [EventKind.TEXT, EventKind.TOOL, EventKind.TEXT]


@pytest.mark.parametrize(("status", "ok"), [(0, True), (256, False)])
def test_without_a_final_event_the_exit_code_decides(tmp_path: Path, status: int, ok: bool) -> None:
    harness = made(tmp_path, "command = ['shout']\n[output]\ntext = 'a'\n")
    reader = harness.reader(spec(tmp_path))
    reader.feed(b'no json\n{"a": "x"}\n')
    assert not reader.trace(None, "").finished
    trace = reader.trace(exit_fact(status), "")
    assert (trace.finished, trace.ok, trace.answered, trace.text) == (True, ok, False, "x")
    assert trace.reason == ("" if ok else "The program ended with exit code 1")


def test_only_described_fields_are_read(tmp_path: Path) -> None:
    """A field without a name is not one, and 1 is not true."""
    text = "command = ['x']\n[output]\ntext = 'text'\nfinal = { n = 1 }\n"
    reader = made(tmp_path, text).reader(spec(tmp_path))
    _ = reader.feed(b'{"": "injected", "n": true, "text": "said"}\n')
    trace = reader.trace(None, "")
    assert (trace.text, trace.harness_session, trace.reason) == ("said", None, "")
    assert not trace.finished
