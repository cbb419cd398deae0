"""The power goes at any moment: every record that was acknowledged is there and whole, and so is every record under a final name."""

from collections.abc import Callable
from pathlib import Path

import pytest
from runtimes.stage import AT, Stage
from support.lost_names import Check, Died, Files, Recorder

from watchkeeper.domain.evidence import DecidedBy
from watchkeeper.domain.model import Run, StopHow
from watchkeeper.ports.off_record import StopNote
from watchkeeper.runtimes import atomic, records
from watchkeeper.runtimes.account_homes import AccountHomes
from watchkeeper.runtimes.environments import FileEnvironments
from watchkeeper.runtimes.state_directory import StateDirectory
from watchkeeper.shim import records as shim_records

WHOLE = {"spec.json", "prompt", "token", "before.json"}
LONG = b"x" * 3000 + b"\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory that has been there for long."""
    made = tmp_path / "root"
    made.mkdir()
    return made


def holds(name: str, *contents: bytes) -> Check:
    """The file is there with one of these."""
    return lambda files: files.get(name) in contents


def whole_or_absent(name: str, *contents: bytes) -> Check:
    """The file is not there, or with one of these."""
    return lambda files: name not in files or files[name] in contents


def of_shim(root: Path, name: str) -> bytes:
    """A record as the shim has written it."""
    with atomic.directory(root) as fd:
        return shim_records.read_bytes(fd, name)


def publish(root: Path, recorder: Recorder) -> None:
    with atomic.directory(root) as fd:
        assert atomic.publish(fd, "decide", LONG, point="decide")
    recorder.promise("the decision is there", holds("decide", LONG))


def replace(root: Path, recorder: Recorder) -> None:
    versions = [b"%d" % number + LONG for number in range(3)]
    with atomic.directory(root) as fd:
        for number, version in enumerate(versions):
            atomic.replace(fd, "note", version, point="note")
            recorder.promise(f"version {number} or a later one is there", holds("note", *versions[number:]))


def shim_writes(root: Path, recorder: Recorder) -> None:
    with atomic.directory(root) as fd:
        for name in ("proc.json", "exit.json", "gone.json"):
            shim_records.write(fd, name, {"what": name, "text": "x" * 2000})
            recorder.promise(f"{name} is there", holds(name, of_shim(root, name)))


def shim_publishes(root: Path, recorder: Recorder) -> None:
    with atomic.directory(root) as fd:
        assert shim_records.publish(fd, "decide", {"by": "shim", "text": "x" * 2000})
    recorder.promise("the decision is there", holds("decide", of_shim(root, "decide")))


def keep_environment(root: Path, recorder: Recorder) -> None:
    kept = FileEnvironments(root)
    kept.keep("e1", {"KEY": "x" * 2000})
    recorder.promise("the environment is there", holds("e1.json", (root / "e1.json").read_bytes()))


STORIES: dict[str, Callable[[Path, Recorder], None]] = {
    "a decision": publish,
    "a record that is replaced": replace,
    "the records of a shim": shim_writes,
    "the decision of a shim": shim_publishes,
    "an environment": keep_environment,
}


@pytest.mark.parametrize("story", STORIES)
def test_what_was_acknowledged_is_there(root: Path, monkeypatch: pytest.MonkeyPatch, story: str) -> None:
    with monkeypatch.context() as patch:
        recorder = Recorder(patch, root)
        STORIES[story](root, recorder)
    assert recorder.promises
    assert recorder.broken() == []


@pytest.mark.parametrize("deaf", ["file", "directory"])
@pytest.mark.parametrize("story", STORIES)
def test_a_disk_that_does_not_sync_is_noticed(
    root: Path, monkeypatch: pytest.MonkeyPatch, story: str, deaf: str
) -> None:
    """Each sync is needed: without those of files, or without those of directories, a promise is broken."""
    with monkeypatch.context() as patch:
        recorder = Recorder(patch, root, deaf=deaf)
        STORIES[story](root, recorder)
    assert recorder.broken() != []


@pytest.mark.parametrize("name", ["decide", "note", "proc.json"])
def test_a_name_means_a_whole_record(root: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Also before it was acknowledged: what has its final name is never half a record."""
    with monkeypatch.context() as patch:
        recorder = Recorder(patch, root)
        with atomic.directory(root) as fd:
            match name:
                case "decide":
                    _ = atomic.publish(fd, name, LONG, point="decide")
                case "note":
                    atomic.replace(fd, name, LONG, point="note")
                case _:
                    shim_records.write(fd, name, {"text": "x" * 2000})
        written = (root / name).read_bytes()
    assert recorder.broken(whole_or_absent(name, written)) == []


def test_a_shim_whose_later_record_is_there_has_left_the_earlier_ones(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evidence is read by this rule: a missing record before one that is there was taken away."""
    order = ("decide", "proc.json", "exit.json", "gone.json")
    with monkeypatch.context() as patch:
        recorder = Recorder(patch, root)
        with atomic.directory(root) as fd:
            _ = shim_records.publish(fd, order[0], {"by": "shim"})
            for name in order[1:]:
                shim_records.write(fd, name, {"what": name})

    def in_order(files: Files) -> bool:
        there = [name in files for name in order]
        return there == sorted(there, reverse=True)

    assert recorder.broken(in_order) == []


def test_the_second_to_decide_acts_on_a_decision_that_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one is killed at each of its steps. Once the second knows who decided, that decision stays."""
    died, seen = True, set[bool]()
    for step in range(20):
        path = root / f"{step}"
        path.mkdir()
        died = False
        with monkeypatch.context() as patch:
            recorder = Recorder(patch, path)
            recorder.dies_at(step)
            with atomic.directory(path) as fd:
                try:
                    _ = atomic.publish(fd, "decide", b"first" + LONG, point="decide")
                except Died:
                    died = True
                recorder.revives()
            with atomic.directory(path) as fd:
                first = atomic.publish(fd, "decide", b"second" + LONG, point="decide")
            seen.add(first)
            recorder.promise("who decided", holds("decide", (b"second" if first else b"first") + LONG))
        assert recorder.broken() == []
        if not died:
            break
    assert not died and seen == {True, False}


def test_a_prepared_directory_is_whole_or_absent_and_stays(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever its process is killed, the next one completes it; then it is there for good, with everything in it."""
    executions = stage.state / "executions"
    executions.mkdir()
    died, step = True, 0
    for step in range(100):
        run = stage.run(f"exec{step}")
        died = False
        with monkeypatch.context() as patch:
            recorder = Recorder(patch, executions)
            recorder.dies_at(step)
            try:
                _ = stage.runtime.prepare(stage.request(run))
            except Died:
                died = True
            recorder.revives()
            _ = stage.runtime.prepare(stage.request(run))
            whole = {f"{run.execution_id}/{name}": (stage.directory(run) / name).read_bytes() for name in WHOLE}
            recorder.promise("it is whole", lambda files, whole=whole: whole.items() <= files.items())

        def fits(files: Files, run: Run = run) -> bool:
            inside = {name.partition("/")[2] for name in files if name.startswith(f"{run.execution_id}/")} - {""}
            return f"{run.execution_id}/" not in files or inside == WHOLE

        assert recorder.broken(fits) == []
        if not died:
            break
    assert not died and step > 10


@pytest.mark.parametrize("earlier", [False, True], ids=["", "after logs of another run"])
def test_kept_logs_are_there_before_their_directory_goes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, earlier: bool
) -> None:
    """A person asked for them: at no moment is the only copy gone (R16)."""
    run = stage.prepared()
    log, kept = f"executions/{run.execution_id}/stdout.log", f"kept-logs/{run.task_id}/{run.id}.stdout.log"
    (stage.state / log).write_bytes(LONG)
    if earlier:
        (stage.state / "kept-logs" / run.task_id).mkdir(parents=True)
    directories = stage.runtime.executions()
    with monkeypatch.context() as patch:
        recorder = Recorder(patch, stage.state)
        _ = directories.keep_logs(run)
        recorder.promise("the log is kept", holds(kept, LONG))
        directories.remove(run)
        name = f"executions/{run.execution_id}/"
        recorder.promise("the directory has lost its name", lambda files: name not in files)
    assert recorder.broken(lambda files: LONG in (files.get(log), files.get(kept))) == []


def test_a_note_of_a_stop_stays(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is acknowledged while the database takes nothing."""
    note = StopNote(
        database_id="db1", task_id="t1", run_id="t1.1", fence=7, execution_id="exec1", how=StopHow.STOP, by="ada",
        at=AT, grace_s=None,
    )  # fmt: skip
    with monkeypatch.context() as patch:
        recorder = Recorder(patch, stage.state)
        stage.runtime.off_record.put(note)
        written = (stage.state / "stops" / "exec1.json").read_bytes()
        recorder.promise("the note is there", holds("stops/exec1.json", written))
    assert recorder.broken(whole_or_absent("stops/exec1.json", written)) == []


def test_a_decision_of_recovery_stays(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on no shim launches the run, also after a power cut."""
    run = stage.prepared()
    with monkeypatch.context() as patch:
        recorder = Recorder(patch, stage.directory(run))
        assert stage.runtime.take_decision(run, DecidedBy.RECOVERY)
        written = (stage.directory(run) / records.DECISION).read_bytes()
        recorder.promise("the decision is there", holds("decide", written))
    assert recorder.broken() == []


def test_a_state_directory_and_an_account_home_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made with all the directories above them that were missing."""
    with monkeypatch.context() as patch:
        recorder = Recorder(patch, tmp_path)
        state = StateDirectory.open(tmp_path / "a" / "b" / "state", create=True)
        recorder.promise("it is there", lambda files: "a/b/state/executions/" in files)
        assert AccountHomes(state.path / "accounts").make("claude", "work")
        recorder.promise("the home is there", lambda files: "a/b/state/accounts/claude/work/" in files)
    assert recorder.broken() == []
