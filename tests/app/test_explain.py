"""One run explained, shown as a patch, and bundled: all that is known of it, without secrets, from real directories and real trees of git."""

import hashlib
import json
import os
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from app.stage import Verbs
from support.records import NOON, add, end, make_outcome, make_spec, make_task, reserve

from watchkeeper.app.bundle import Bundler, BundleRequest
from watchkeeper.app.diff import DiffRequest, RunDiff, find
from watchkeeper.app.read_steps import Steps
from watchkeeper.app.record import apply_run
from watchkeeper.app.views import explain as explaining
from watchkeeper.app.views.explain import Explanation, explain
from watchkeeper.app.views.explained import plain
from watchkeeper.domain.cost import CostClass
from watchkeeper.domain.model import Changes, FileChange, Run, RunState, TaskState, Usage
from watchkeeper.domain.run_events import Prepared
from watchkeeper.domain.samples import EXIT
from watchkeeper.errors import Elsewhere, HarnessError, NoSuchTask, NotFound, Refused
from watchkeeper.harnesses.json_lines import HOLE
from watchkeeper.harnesses.registry import Registry
from watchkeeper.ports.diffs import Kept
from watchkeeper.ports.harness import Harness
from watchkeeper.ports.store import Authorisation, Tx
from watchkeeper.runtimes.bundle_file import ZipBundles
from watchkeeper.workspaces.viewing import GitDiffs

TOKEN = "Zk3x9Qw7Lm2Pv5Rt8Yb1"


def launched(verbs: Verbs, task_id: str = "t1", **spec: Any) -> tuple[Run, Path]:
    """A prepared run of an agent that has a secret, and its directory."""
    run = verbs.store.transact("test", lambda tx: reserve(tx, add(tx, make_task(task_id, spec=make_spec(**spec)))))
    return prepared(verbs, run)


def prepared(verbs: Verbs, run: Run) -> tuple[Run, Path]:
    stage = verbs.directories()
    environment = {"PATH": "/usr/bin", "GH_TOKEN": TOKEN, "PLACE": "here"}
    request = stage.request(run, environment=environment, asked=("GH_TOKEN",))
    directory = verbs.runtime.prepare(request)
    done = verbs.store.transact(
        "test", lambda tx: apply_run(tx, tx.runs.get(run.id), Prepared(directory=directory), verbs.clock.now())
    )
    return done, stage.directory(done)


def log(directory: Path, stdout: bytes, stderr: bytes = b"", holes: list[list[int]] | None = None) -> None:
    (directory / "stdout.log").write_bytes(stdout)
    (directory / "stderr.log").write_bytes(stderr)
    if holes is not None:
        (directory / "dropped.json").write_text(json.dumps({"stdout.log": holes}), encoding="utf-8")


def settled(verbs: Verbs, run: Run, state: TaskState = TaskState.DONE, **outcome: Any) -> None:
    """Settle a run as the daemon does."""

    def work(tx: Tx) -> None:
        ended = end(tx, tx.runs.get(run.id))
        tx.runs.save(replace(ended, state=RunState.SETTLED, settled_at=NOON), ended)
        tx.outcomes.add(make_outcome(run, **outcome))
        task = tx.tasks.get(run.task_id)
        ended_at = None if state is TaskState.QUEUED else NOON
        tx.tasks.save(replace(task, state=state, run_id=None, ended_at=ended_at), task)
        _ = tx.journal.append("run.settled", NOON, task_id=run.task_id, run=run, data={})
        _ = tx.journal.append("task.run_settled", NOON, task_id=run.task_id, data={})
        _ = tx.journal.append("task.renamed", NOON, task_id=run.task_id, data={})

    verbs.store.transact("test", work)


def again(verbs: Verbs, task_id: str = "t1") -> Run:
    return verbs.store.transact("test", lambda tx: reserve(tx, tx.tasks.get(task_id)))


def explained(verbs: Verbs, number: int | None = None, steps: int = 9) -> Explanation:
    return explain(verbs.store, lambda: verbs.runtime, Registry().get, "t1", number, steps=steps)


def texts(steps: Steps) -> tuple[list[str], list[str]]:
    return [each.text for each in steps.first], [each.text for each in steps.last]


def test_a_run_is_explained_from_its_directory_and_the_record(verbs: Verbs) -> None:
    """Names of variables only; what it printed is without secrets; the evidence is what its directory tells now."""
    run, directory = launched(verbs, environment_names=("GH_TOKEN",), prompt="Do it.", argv=("make", "x"))
    log(directory, f"begin\nsays {TOKEN}\nend\n".encode())
    found = explained(verbs)
    assert (found.task, found.run, found.variables, found.asked) == (
        verbs.task(), run, ("GH_TOKEN", "PATH", "PLACE", "WATCHKEEPER_EXECUTION", "WATCHKEEPER_HOME", "WATCHKEEPER_RUN"), ("GH_TOKEN",),
    )  # fmt: skip
    assert texts(found.steps)[0][::2] == ["begin", "end"]
    assert "says" in texts(found.steps)[0][1] and TOKEN not in repr(found.steps)
    seen = found.evidence
    assert seen is not None and seen.verdict is not None
    assert (seen.word, seen.why, seen.evidence) == ("prepared", "", verbs.runtime.observe(run, stop_asked=False))
    assert found.cost.known is CostClass.UNKNOWN
    shown = plain(found)
    assert shown["prompt_sha256"] == hashlib.sha256(b"Do it.").hexdigest()
    assert shown["argv"] == ["make", "x"]
    assert shown["variables"] == list(found.variables or ())
    assert shown["asked"] == ["GH_TOKEN"]
    assert (
        shown["authorisation"],
        shown["steps_unreadable"],
        shown["steps_left_out"],
        shown["output_dropped_bytes"],
    ) == (None, None, 0, 0)
    assert [(step["run"], step["kind"], step["at"]) for step in shown["steps"]] == [(1, "text", None)] * 3  # pyright: ignore[reportGeneralTypeIssues] - JSON
    assert isinstance(shown["evidence"], dict) and shown["evidence"]["directory"] == "intact"
    assert shown["cost"] == {"class": "unknown", "usd": None}
    assert isinstance(shown["task"], dict) and shown["task"]["id"] == "t1"
    assert isinstance(shown["run"], dict) and shown["run"]["id"] == "t1.1"


def test_the_newest_run_is_explained_unless_another_is_named(verbs: Verbs) -> None:
    """With what allowed it: its own launch, or where it was never reserved with one, the task's newest."""
    run, _ = launched(verbs)
    settled(verbs, run, TaskState.QUEUED, exit=EXIT, usage=Usage(cost_usd=0.5))
    second = again(verbs)

    def allow(tx: Tx) -> None:
        for number, run_id in enumerate(("t1.1", None)):
            given = Authorisation(id=f"a{number}", task_id="t1", kind="person", by="ada", detail=f"{number}", at=NOON)
            tx.outcomes.authorise(given)
            if run_id is not None:
                tx.outcomes.record_launch(tx.runs.get(run_id), given.id)

    verbs.store.transact("test", allow)
    newest, first = explained(verbs), explained(verbs, 1)
    assert (newest.run.id, explained(verbs, 2).run.id, first.run.id) == (second.id, second.id, "t1.1")
    assert newest.authorisation is not None and newest.authorisation.id == "a1"
    assert first.authorisation is not None and first.authorisation.id == "a0"
    assert (first.cost.usd, newest.cost.known, newest.variables) == (0.5, CostClass.UNKNOWN, None)
    shown = plain(first)
    assert isinstance(shown["authorisation"], dict) and shown["authorisation"]["detail"] == "0"
    assert plain(newest)["variables"] is None
    with pytest.raises(NotFound, match=r"^There is no run 3 of task t1: it has had 2\.$") as refused:
        _ = explained(verbs, 3)
    assert refused.value.hint == "`wk show t1` lists its runs."


def test_a_task_that_had_no_run_has_none_to_explain(verbs: Verbs) -> None:
    _ = verbs.store.transact("test", lambda tx: add(tx, make_task()))
    with pytest.raises(NotFound, match=r"^There is no run of task t1: it has had none yet\.$"):
        _ = explained(verbs)
    with pytest.raises(NotFound, match=r"^There is no run 1 of task t1: it has had none yet\.$"):
        _ = explained(verbs, 1)


@pytest.mark.parametrize("page", [1, 3, 500])
def test_the_history_of_a_run_is_that_of_its_task_meanwhile(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """From its claim to what its end made of the task; entries of other runs and tasks are not in it."""
    monkeypatch.setattr(explaining, "_PAGE", page)
    _ = verbs.prepared("other")
    run, _ = launched(verbs)
    settled(verbs, run, TaskState.QUEUED)
    assert [entry.kind for entry in explained(verbs).history] == ["run.prepared", "run.settled", "task.run_settled"]
    second = again(verbs)
    assert explained(verbs).history == ()
    _ = verbs.store.transact("test", lambda tx: tx.journal.append("task.claimed", NOON, task_id="t1", data={}))
    _ = prepared(verbs, second)
    history = explained(verbs).history
    assert [(entry.kind, entry.run_id) for entry in history] == [("task.claimed", None), ("run.prepared", "t1.2")]
    shown = plain(explained(verbs))["history"]
    assert isinstance(shown, list) and [each["seq"] for each in shown] == [entry.seq for entry in history]


def test_many_steps_are_told_by_the_first_and_the_last(verbs: Verbs) -> None:
    _, directory = launched(verbs)
    log(directory, b"".join(b"%d\n" % number for number in range(10)))
    found = explained(verbs, steps=2)
    assert (texts(found.steps), found.steps.left_out) == ((["0", "1"], ["8", "9"]), 6)
    shown = plain(found)
    assert isinstance(shown["steps"], list) and [each["text"] for each in shown["steps"]] == ["0", "1", "8", "9"]
    assert shown["steps_left_out"] == 6
    assert (texts(explained(verbs, steps=5).steps), explained(verbs, steps=5).steps.left_out) == (
        (list("01234"), list("56789")),
        0,
    )


def test_what_of_the_output_was_given_up_is_told(verbs: Verbs) -> None:
    """Where it was, and how much; no half of a secret stands beside it."""
    _, directory = launched(verbs)
    half = TOKEN[:12].encode()
    log(
        directory,
        b"one\n" + half + b"x" * 1000 + b"two\nthree\n" + b"y" * 50 + b"\nfour\n",
        holes=[[16, 1016], [1026, 1077]],
    )
    found = explained(verbs)
    first = texts(found.steps)[0]
    assert first[0] == "one" and first[-1] == "four" and first.count(HOLE) == 2 and "three" in first
    assert found.steps.dropped_bytes == 1000 + 51
    assert plain(found)["output_dropped_bytes"] == 1051
    assert half.decode() not in repr(found.steps)


def test_why_steps_cannot_be_read_is_told(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is gone, or no log, or its harness was uninstalled."""
    _, directory = launched(verbs)
    assert explained(verbs).steps == Steps(unreadable="the log is not there any more")
    (directory / "stdout.log").mkdir()
    assert "a directory" in explained(verbs).steps.unreadable
    assert plain(explained(verbs))["steps_unreadable"] == explained(verbs).steps.unreadable

    def gone(_: str) -> Harness:
        raise HarnessError("It is gone.")

    found = explain(verbs.store, lambda: verbs.runtime, gone, "t1", steps=9)
    assert found.steps == Steps(unreadable="the harness command is not installed any more")


@pytest.fixture
def afar(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> Verbs:
    """The database is shared, and the run is on machine m1, which is not this one."""
    monkeypatch.setattr(type(verbs.store), "is_shared", True)
    monkeypatch.setattr(type(verbs.store), "time", lambda _self: NOON)
    monkeypatch.setattr(verbs.runtime, "machine", "m8")
    return verbs


def test_of_a_run_on_another_machine_only_the_record_is_told(afar: Verbs, tmp_path: Path) -> None:
    """Its output is there."""
    run, directory = launched(afar)
    log(directory, b"begin\n")
    found = explained(afar)
    assert (found.found.on, found.variables, found.asked, found.evidence) == ("m1", None, (), None)
    assert found.steps == Steps(unreadable="the log is on m1")
    assert plain(found)["evidence"] is None
    assert [entry.kind for entry in found.history] == ["run.prepared"]
    with pytest.raises(Elsewhere, match=r"^Run 1 of task t1 is on m1, with its output\.$") as refused:
        _ = bundler(afar).bundle(BundleRequest(task_id="t1", directory=tmp_path))
    assert refused.value.hint == f"Type `wk bundle {run.id}` there."


@pytest.fixture
def changes(tmp_path: Path) -> Changes:
    """What a run changed, with both trees in a real repository; the new file holds a secret."""
    top = tmp_path / "repo"
    top.mkdir()

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(top), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRON).stdout.strip()

    git("init", "-q")
    trees: list[str] = []
    for text in ("a\n", f"{TOKEN}\n"):
        (top / "a").write_text(text, encoding="utf-8")
        git("add", "a")
        trees.append(git("write-tree"))
    return Changes(
        known=True, files=(FileChange(path="a", change="modified"),), base=trees[0], tip=trees[1], repository=str(top / ".git")
    )  # fmt: skip


ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
DIFFS = GitDiffs(ENVIRON)


def bundler(verbs: Verbs) -> Bundler:
    return Bundler(
        store=verbs.store, clock=verbs.clock, runtime=lambda: verbs.runtime, harness=Registry().get, bundles=ZipBundles(), diffs=DIFFS, version="1.2",
    )  # fmt: skip


def content(file: Path) -> Mapping[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def lines(data: bytes) -> Iterator[Any]:
    return map(json.loads, data.splitlines())


def test_a_bundle_holds_all_that_is_known(verbs: Verbs, changes: Changes, tmp_path: Path) -> None:
    """Each part in a file of its own, and no secret in any."""
    run, directory = launched(verbs, prompt=f"Use {TOKEN} \udcff", environment_names=("GH_TOKEN",))
    log(directory, f"one {TOKEN}\n".encode() + b"x" * 100 + b"two\n", f"to stderr {TOKEN}\n".encode(), [[25, 125]])
    settled(verbs, run, changes=changes)
    facts = bundler(verbs).bundle(BundleRequest(task_id="t1", directory=tmp_path))
    assert (facts.path, facts.files, facts.faults) == (tmp_path / "wk-t1.1.zip", 7, ())
    assert facts.about == {
        "run": "t1.1", "title": "Fix", "state": "settled", "made_at": verbs.clock.now().isoformat(), "made_by": "watchkeeper 1.2", "no_patch": None,
    }  # fmt: skip
    held = content(facts.path)
    names = ["explanation.json", "prompt.txt", "history.jsonl", "steps.jsonl", "stdout.log", "stderr.log", "diff.patch"]
    assert [name for name in held if name in names] == names and len(held) == 8
    assert not [name for name, data in held.items() if TOKEN.encode() in data]
    told, shown = json.loads(held["explanation.json"]), plain(explained(verbs))
    assert told.keys() == shown.keys() - {"history", "steps"}
    assert told["run"]["id"] == "t1.1" and b"\n  " in held["explanation.json"]
    assert held["prompt.txt"].startswith(b"Use ") and held["prompt.txt"].endswith(b"\xff")
    assert list(lines(held["history.jsonl"])) == shown["history"]
    assert list(lines(held["steps.jsonl"])) == shown["steps"]
    assert held["stdout.log"].startswith(b"one ") and held["stdout.log"].endswith(
        b"\n\n[100 bytes were not kept]\ntwo\n"
    )
    assert held["stderr.log"].startswith(b"to stderr ") and held["stderr.log"].endswith(b"\n")
    assert b"\n-a\n+" in held["diff.patch"]
    assert ZipBundles().check(facts.path).faults == ()


def test_a_bundle_says_why_it_has_no_patch(verbs: Verbs, changes: Changes, tmp_path: Path) -> None:
    """It is written where it is asked for, and replaces a file only on a word."""
    run, _ = launched(verbs)
    file = tmp_path / "mine.zip"
    first = bundler(verbs).bundle(BundleRequest(task_id="t1", directory=tmp_path, file=file))
    assert (first.path, first.about["no_patch"], first.about["state"]) == (file, "The run has not ended.", "prepared")
    held = content(file)
    assert "diff.patch" not in held and held["stdout.log"] == held["stderr.log"] == b""
    settled(verbs, run, changes=replace(changes, base=None, not_kept="it was too large."))
    with pytest.raises(Refused, match="There is a file"):
        _ = bundler(verbs).bundle(BundleRequest(task_id="t1", directory=tmp_path, file=file))
    again_ = bundler(verbs).bundle(BundleRequest(task_id="t1", number=1, directory=tmp_path, file=file, replace=True))
    assert again_.about["no_patch"] == "What run 1 of task t1 changed cannot be shown as a patch: it was too large."
    with pytest.raises(NotFound, match="There is no run 2 of task t1"):
        _ = bundler(verbs).bundle(BundleRequest(task_id="t1", number=2, directory=tmp_path))


def found(verbs: Verbs, run: int | None = None) -> RunDiff:
    return find(verbs.store, lambda: verbs.runtime, DiffRequest(task_id="t1", run=run))


def test_the_changes_of_the_newest_run_that_ended_are_found(verbs: Verbs, changes: Changes) -> None:
    """Or those of the one that is named; other runs that changed something are named too."""
    with pytest.raises(NoSuchTask):
        _ = found(verbs)
    _ = verbs.store.transact("test", lambda tx: add(tx, make_task()))
    with pytest.raises(NotFound, match=r"^No run of task t1 has ended yet\.$") as refused:
        _ = found(verbs, 1)
    assert refused.value.hint == "`wk show t1` says where it stands."
    for each in (changes, replace(changes, files=()), replace(changes, files=(), commits=("c",)), None):
        settled(verbs, again(verbs), TaskState.QUEUED, changes=each)
    live = again(verbs)
    newest = found(verbs)
    assert (newest.task, newest.run.number, newest.changes, newest.on, newest.others) == (
        verbs.task(),
        4,
        None,
        None,
        (1, 3),
    )
    first = found(verbs, 1)
    assert (first.run.number, first.changes, first.others) == (1, changes, (3,))
    with pytest.raises(
        Refused, match=r"^Run 5 of task t1 has not ended yet, so its changes are not known\.$"
    ) as refused:
        _ = found(verbs, live.number)
    assert refused.value.hint == "`wk logs -f t1` follows it."
    with pytest.raises(NotFound, match=r"^Task t1 has no run 6\.$") as refused:
        _ = found(verbs, 6)
    assert refused.value.hint == "Its newest is run 5."


def test_a_run_that_has_not_ended_has_no_changes_yet(verbs: Verbs) -> None:
    _ = launched(verbs)
    with pytest.raises(NotFound, match=r"^No run of task t1 has ended yet\.$"):
        _ = found(verbs)


def test_files_are_compared_only_if_they_were_kept(verbs: Verbs, changes: Changes) -> None:
    run, _ = launched(verbs)
    settled(verbs, run, changes=changes)
    kept = found(verbs).kept(DIFFS)
    assert kept == Kept(changes.repository or "", changes.base or "", changes.tip or "")
    whose = "What run 1 of task t1 changed"
    outcome = found(verbs).outcome
    assert outcome is not None
    names = "`wk diff t1 --run 1 --name-only` lists the files."
    cases: list[tuple[Changes | None, type[Exception], str, str]] = [
        (None, Refused, f"{whose} is unknown: no agent ran.", "`wk show t1` has its outcome."),
        (Changes(known=False, why_unknown="git is slow."), Refused, f"{whose} is unknown: git is slow.", "`wk show t1` has its outcome."),
        (replace(changes, tip=None, not_kept="it is full."), Refused, f"{whose} cannot be shown as a patch: it is full.", names),
        (replace(changes, repository=None, in_checkout=False), Refused,
         f"{whose} cannot be shown as a patch: its directory is not under git, so no file was kept.", names),
        (replace(changes, base=None), Refused, f"{whose} cannot be shown as a patch: an older version ran it and kept no files.", names),
        (replace(changes, tip="0" * 40), NotFound, f"{whose} is not in {changes.repository} any more.", names),
    ]  # fmt: skip
    for given, kind, message, hint in cases:
        with pytest.raises(kind) as refused:
            _ = replace(found(verbs), outcome=replace(outcome, changes=given)).kept(DIFFS)
        assert (str(refused.value), getattr(refused.value, "hint", None)) == (message, hint)


def test_files_on_another_machine_are_compared_there(afar: Verbs, changes: Changes) -> None:
    run, _ = launched(afar)
    settled(afar, run, changes=changes)
    assert found(afar).on == "m1"
    with pytest.raises(Elsewhere, match=r"^What run 1 of task t1 changed is kept on machine m1\.$") as refused:
        _ = found(afar).kept(DIFFS)
    assert refused.value.hint == "Run `wk diff` there."
