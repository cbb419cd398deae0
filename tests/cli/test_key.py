"""`--key`: a hand-over that is repeated, because its caller was killed or does not know, gives the same task."""

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from watchkeeper.cli import daemon
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit

if TYPE_CHECKING:
    from support.cli import Wk

TOLD = "Already handed over as"


@pytest.fixture
def poked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """One entry for each time that a daemon was poked."""
    told: list[bool] = []
    monkeypatch.setattr(daemon, "poke", lambda _: told.append(True) or True)
    return told


@pytest.mark.parametrize("verb", ["run", "add"])
def test_the_same_again_prints_the_same_id(wk: "Wk", verb: str, poked: list[bool]) -> None:
    """And says so beside it, asks for a daemon as before, and adds nothing."""
    words = [verb, "--harness", "demo", "--key", "nightly", "--label", "a", "say hello"]
    first = wk(*words)
    again = wk(*words)
    assert first.code == again.code == 0 and first.out == again.out
    assert TOLD not in first.err and f"{TOLD} {again.out.strip()}" in again.err
    assert len(wk.ensured) + len(poked) == 2
    asked = wk(*words, "--json")
    assert asked.json["id"] == first.out.strip() and asked.json["already"] is True and asked.json["key"] == "nightly"
    other = wk(verb, "--harness", "demo", "--json", "something else")
    assert other.json["already"] is False and other.json["key"] is None
    assert asked.json.keys() == other.json.keys()
    assert wk("show", "--json", first.out.strip()).json["key"] == "nightly"
    assert "nightly" in wk("show", first.out.strip()).out
    assert len(wk("ls", "--json").json) == 2


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        (["--title", "x", "say hello"], "title"),
        (["say goodbye"], "prompt"),
        (["--retries", "0", "--cwd", "/", "say hello"], "cwd and retries"),
        (["--option", "pace=1", "say hello"], "options"),
        (["--expect", "answer", "--not-before", "+2h", "say hello"], "--expect and --not-before"),
        (["--title", "x", "--label", "l", "say goodbye"], "labels, prompt and title"),
    ],
)
def test_another_content_is_refused(wk: "Wk", changed: list[str], detail: str) -> None:
    first = wk("run", "--harness", "demo", "--key", "nightly", "say hello")
    for verb in ("run", "add"):
        other = wk(verb, "--harness", "demo", "--key", "nightly", *changed)
        assert other.code == Exit.REFUSED and other.out == ""
        assert f"'nightly' stands for task {first.out.strip()}" in other.err and f"another {detail}." in other.err


def test_it_is_found_whatever_has_become_of_its_directory_and_program(wk: "Wk") -> None:
    """Nothing is checked anew: it was agreed on when it was handed over."""
    place = wk.cwd / "gone"
    place.mkdir()
    program = wk.cwd / "mine"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    words = ["run", "--json", "--key", "k", "--cwd", str(place), "--", str(program)]
    first = wk(*words)
    shutil.rmtree(place)
    program.unlink()
    again = wk(*words)
    assert again.code == 0 and again.json["id"] == first.json["id"] and again.json["program"] == str(program)
    assert wk("run", "--key", "other", "--cwd", str(place), "--", str(program)).code != 0


def test_what_the_moment_makes_of_it_is_no_content(wk: "Wk") -> None:
    """A time from now, a setting, a variable's value."""
    words = ["run", "--harness", "demo", "--key", "k", "--not-before", "+2h", "--env", "MINE", "x"]
    first = wk(*words, MINE="one-value-of-it")
    again = wk(*words, MINE="another-value-of-it", WATCHKEEPER_RUN_RETRIES="7")
    assert first.code == again.code == 0 and first.out == again.out


def test_wait_attaches_to_the_task_that_is_there(wk: "Wk") -> None:
    first = wk("run", "--harness", "demo", "--key", "k", "x")
    assert wk("cancel", first.out.strip()).code == 0
    again = wk("run", "--harness", "demo", "--key", "k", "--wait", "x")
    assert again.code == Exit.TASK_STOPPED and first.out.strip() in again.out
    assert wk.task(first.out.strip()).state is TaskState.STOPPED
    assert len(wk.ensured) == 1  # it needs no daemon


def test_lines_have_keys_of_their_own(wk: "Wk", poked: list[bool]) -> None:
    """A line that is there already is the task that later lines wait for."""
    lines = [
        {"harness": "demo", "prompt": "a", "key": "one", "name": "first"},
        {"harness": "demo", "prompt": "b", "key": "two", "after": ["first"]},
        {"harness": "demo", "prompt": "c"},
    ]

    def add(*objects: object) -> list[dict[str, object]]:
        answer = wk("add", "--json-lines", "--json", stdin="\n".join(map(json.dumps, objects)).encode())
        assert answer.code == 0, answer.err
        return answer.lines

    first, again = add(*lines), add(*lines, {"harness": "demo", "prompt": "d", "after": ["first"]})
    assert [each["already"] for each in first] == [False] * 3
    assert [each["already"] for each in again] == [True, True, False, False]
    assert [each["id"] for each in again[:2]] == [each["id"] for each in first[:2]]
    assert again[1]["after"] == again[3]["after"] == [first[0]["id"]]
    lines[1]["prompt"] = "B"
    refused = wk("add", "--json-lines", stdin="\n".join(map(json.dumps, lines)).encode())
    assert refused.code == Exit.REFUSED and "'two'" in refused.err and "another prompt." in refused.err
    assert poked


def test_a_key_that_two_lines_use_is_refused_by_their_numbers(wk: "Wk") -> None:
    """Not by a task that was never added. The same line twice is the same task."""
    lines = [json.dumps({"harness": "demo", "prompt": each, "key": "j1"}) for each in ("a", "a", "b")]
    refused = wk("add", "--json-lines", stdin="\n".join(lines).encode())
    assert refused.code == Exit.REFUSED
    assert "Line 3: the key 'j1' is already used in line 1, with another prompt. Nothing was added." in refused.err
    assert wk("ls", "--json").json == []
    given = wk("add", "--json-lines", "--json", stdin="\n".join(lines[:2]).encode()).lines
    assert [each["already"] for each in given] == [False, True]


@pytest.mark.parametrize("verb", ["run", "add"])
def test_a_dry_run_looks_at_the_key(wk: "Wk", verb: str) -> None:
    words = [verb, "--harness", "demo", "--key", "k", "--dry-run"]
    assert wk(*words, "--json", "x").json["already"] is False
    task_id = wk("run", "--harness", "demo", "--key", "k", "x").out.strip()
    again = wk(*words, "x")
    assert again.code == 0 and task_id in again.err and "Nothing was handed over." in again.err
    told = wk(*words, "--json", "x").json
    assert (told["dry_run"], told["already"], told["id"]) == (True, True, task_id)
    other = wk(*words, "y")
    assert other.code == Exit.REFUSED and f"'k' stands for task {task_id}" in other.err
    assert len(wk("ls", "--json").json) == 1


def test_a_dry_run_of_lines_looks_at_their_keys(wk: "Wk") -> None:
    task_id = wk("run", "--harness", "demo", "--key", "k", "x").out.strip()
    for prompt, code in (("x", Exit.OK), ("y", Exit.REFUSED)):
        line = json.dumps({"harness": "demo", "prompt": prompt, "key": "k"}).encode()
        answer = wk("add", "--json-lines", "--dry-run", stdin=line)
        assert answer.code == code and task_id in answer.err


@pytest.mark.parametrize("words", [["--lines"], ["--json-lines"]])
def test_one_key_for_many_is_refused(wk: "Wk", words: list[str]) -> None:
    answer = wk("add", *words, "--key", "k", stdin=b'{"prompt": "a"}\n')
    assert answer.code == Exit.USAGE and '"key"' in answer.err


@pytest.mark.parametrize("key", ["", " a", "a\x1b", "x" * 201])
def test_what_is_no_key_is_refused(wk: "Wk", key: str) -> None:
    assert wk("run", "--harness", "demo", "--key", key, "x").code == Exit.USAGE
    line = json.dumps({"prompt": "a", "key": key}).encode()
    assert wk("add", "--harness", "demo", "--json-lines", stdin=line).code == Exit.BAD_TASK


def test_a_secret_is_no_key(wk: "Wk") -> None:
    answer = wk("run", "--harness", "demo", "--key", "ghp_Zk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6Gh0Js2Ka7B", "x")
    assert answer.code == Exit.BAD_TASK and "Zk3x" not in answer.err
