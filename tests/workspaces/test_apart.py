"""Looks from a process apart: the same answers, and a directory that does not answer costs one look."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from support.waiting import wait_until

from watchkeeper.app.beside import place_of
from watchkeeper.ports.workspace import PLACE, SILENT
from watchkeeper.runtimes import proc
from watchkeeper.workspaces import apart as module
from watchkeeper.workspaces.apart import ApartWorkspace
from watchkeeper.workspaces.git import GitWorkspace


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "init", "-q", str(made)], check=True)
    (made / "a").write_text("a\n", encoding="utf-8")
    subprocess.run([*git, "-C", str(made), "add", "."], check=True)
    subprocess.run([*git, "-C", str(made), "commit", "-qm", "Begin"], check=True)
    return made


@pytest.fixture
def apart() -> Iterator[ApartWorkspace]:
    made = ApartWorkspace()
    yield made
    made.close()


def _with_git(tmp_path: Path, script: str, deadline_s: float) -> ApartWorkspace:
    """One that finds this script in place of git."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "git").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (bin_ / "git").chmod(0o755)
    return ApartWorkspace(deadline_s, {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}"})


def test_it_sees_what_a_look_from_here_sees(repo: Path, tmp_path: Path, apart: ApartWorkspace) -> None:
    """And where a run works is found there too, for to find that is a look into the directory as well."""
    here = GitWorkspace()
    (repo / "odd\udcff name").write_bytes(b"x")
    for cwd in (str(repo), str(tmp_path), str(tmp_path / "gone")):
        seen = dict(apart.snapshot(cwd))
        place = seen.pop(PLACE)
        assert seen == here.snapshot(cwd)
        assert place == place_of(seen, cwd)
    before = apart.snapshot(str(repo))
    (repo / "b").write_text("b\n", encoding="utf-8")
    assert apart.changes(str(repo), before) == here.changes(str(repo), before)
    assert [file.path for file in apart.changes(str(repo), before).files] == ["b"]
    assert apart.changes(str(repo), None) == here.changes(str(repo), None)


def test_a_look_that_hangs_is_given_up_and_keeps_no_other_waiting(repo: Path, tmp_path: Path) -> None:
    """Where git hangs the look stands still with it, here by a signal; all that belongs to it is ended."""
    pids = tmp_path / "pids"
    apart = _with_git(tmp_path, f'echo $PPID $$ >> "{pids}"; kill -STOP $PPID; exec sleep 1000', deadline_s=1.0)
    try:
        found: list[object] = []
        hung = threading.Thread(target=lambda: found.append(apart.snapshot(str(repo))))
        hung.start()
        wait_until(lambda: pids.exists() and pids.read_text(), within_s=10, what="the look hangs")
        plain = tmp_path / "plain"
        plain.mkdir()
        assert apart.snapshot(str(plain))["kind"] == "plain", "another look is answered"
        assert hung.is_alive()
        hung.join()
        (answer,) = found
        assert isinstance(answer, dict)
        assert answer[SILENT] is True
        assert answer["why_unknown"] == f"The directory has not answered for 1 s: {repo}"
        told = [int(word) for word in pids.read_text().split()]
        wait_until(lambda: not any(map(proc.identity, told)), within_s=10, what="all of the look is gone")
    finally:
        apart.close()


def test_a_git_that_hangs_is_named(repo: Path, tmp_path: Path) -> None:
    """Not the directory, which is there; and what git has started holds nothing up."""
    apart = _with_git(tmp_path, "sleep 1000 & sleep 1000", deadline_s=1.0)
    try:
        seen = apart.snapshot(str(repo))
        assert "git rev-parse took longer than" in str(seen["why_unknown"])
        assert SILENT not in seen
    finally:
        apart.close()


def test_what_a_hung_git_has_started_holds_nothing_up(repo: Path, tmp_path: Path) -> None:
    """It has git's own standard error, and may keep it open forever."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "git").write_text(
        f'#!/bin/sh\nsleep 1000 & echo $! > "{tmp_path}/pid"; sleep 1000 & echo $! >> "{tmp_path}/pid"; wait\n',
        encoding="utf-8",
    )
    (bin_ / "git").chmod(0o755)
    looker = GitWorkspace({"PATH": f"{bin_}:{os.environ['PATH']}"}, timeout_s=0.3)
    done = threading.Event()
    looking = threading.Thread(target=lambda: (looker.snapshot(str(repo)), done.set()), daemon=True)
    looking.start()
    ended = done.wait(20)
    for pid in map(int, (tmp_path / "pid").read_text().split()):
        os.kill(pid, signal.SIGKILL)  # children of our own child
    assert ended


def test_a_looker_that_was_killed_is_replaced(repo: Path, apart: ApartWorkspace) -> None:
    """An agent may end whatever it finds."""
    assert apart.snapshot(str(repo))["kind"] == "git"
    looker = apart._looker
    assert looker is not None
    looker.kill()
    looker.wait()
    assert apart.snapshot(str(repo))["kind"] == "git"


def test_it_ends_with_whoever_asks(repo: Path, tmp_path: Path) -> None:
    """However that dies: nothing of it is left, hung looks included."""
    pids = tmp_path / "pids"
    apart = _with_git(tmp_path, f'echo $PPID $$ >> "{pids}"; kill -STOP $PPID; exec sleep 1000', deadline_s=600)
    hung = threading.Thread(target=lambda: apart.snapshot(str(repo)))
    hung.start()
    wait_until(lambda: pids.exists() and pids.read_text(), within_s=10, what="the look hangs")
    assert apart._looker is not None
    told = [*map(int, pids.read_text().split()), apart._looker.pid]
    began = time.monotonic()
    apart.close()
    hung.join()
    assert time.monotonic() - began < 60
    wait_until(lambda: not any(map(proc.identity, told)), within_s=10, what="nothing of it is left")


def test_many_who_ask_of_one_directory_cost_two_looks(repo: Path, tmp_path: Path) -> None:
    """A caller that asks while a look runs gets the answer of the next one, which began after they asked."""
    count, gate = tmp_path / "count", tmp_path / "gate"
    os.mkfifo(gate)
    real = subprocess.run(["sh", "-c", "command -v git"], check=True, capture_output=True, text=True).stdout.strip()
    script = f'case " $* " in *" status "*) echo 1 >> "{count}"; read _ < "{gate}";; esac\nexec "{real}" "$@"'
    apart = _with_git(tmp_path, script, deadline_s=60)
    try:
        found: list[object] = []
        asks = [threading.Thread(target=lambda: found.append(apart.snapshot(str(repo))["kind"])) for _ in range(20)]
        asks[0].start()
        wait_until(lambda: count.exists() and count.read_text(), within_s=10, what="the first look is at work")
        for each in asks[1:]:
            each.start()
        wait_until(
            lambda: len(getattr(apart._next.get(("snapshot", str(repo))), "befores", ())) == 19,
            within_s=10,
            what="all ask",
        )
        gate.write_text("go on\n", encoding="utf-8")
        wait_until(lambda: count.read_text().count("1") == 2, within_s=10, what="the next look is at work")
        gate.write_text("go on\n", encoding="utf-8")
        for each in asks:
            each.join()
        assert found == ["git"] * 20
        assert count.read_text().count("1") == 2
    finally:
        apart.close()


def test_runs_that_end_between_two_looks_share_the_second(
    repo: Path, apart: ApartWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second look rests in proportion to what the first one took. It begins after each of its callers asked, so it sees what they did before."""
    looks: list[int] = []
    rests: list[float] = []
    begun, gate, rested = threading.Event(), threading.Event(), threading.Event()
    before, key = apart.snapshot(str(repo)), ("changes", str(repo))
    real = apart._ask

    def ask(question: dict[str, object]) -> object:
        looks.append(len(cast("list[object]", question["befores"])))
        begun.set()
        assert gate.wait(20)
        return real(question)

    def rest(for_s: float) -> None:
        rests.append(for_s)
        assert rested.wait(20)

    monkeypatch.setattr(apart, "_ask", ask)
    monkeypatch.setattr(module, "_rest", rest)
    seen: dict[str, bool] = {}

    def look(file: str) -> None:
        (repo / file).write_text("new\n", encoding="utf-8")
        seen[file] = file in [each.path for each in apart.changes(str(repo), before).files]

    threads = [threading.Thread(target=look, args=(file,)) for file in ("first", "second", "third")]
    threads[0].start()
    assert begun.wait(20)
    threads[1].start()
    wait_until(lambda: key in apart._next, within_s=10, what="the second one waits for its look")
    gate.set()
    threads[0].join()
    wait_until(lambda: rests, within_s=10, what="the first look is over, and the second rests")
    threads[2].start()
    wait_until(lambda: len(apart._next[key].befores) == 2, within_s=10, what="the third one joins")
    rested.set()
    for thread in threads:
        thread.join()
    assert seen == {"first": True, "second": True, "third": True}
    assert looks == [1, 2]
    assert 0 < rests[0] <= module._LONGEST_REST_S
