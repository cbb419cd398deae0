"""Kill the command that removes a worktree, and the one that brings it back, at each durable step: the next one completes it, and nothing is lost."""

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.records import NOON, add, make_spec, make_task
from support.rig import Rig
from support.worktrees import OWNER, Repo, fingerprint

from watchkeeper.compose import Watchkeeper
from watchkeeper.domain.model import TaskState
from watchkeeper.domain.worktree import Worktree, WorktreeState
from watchkeeper.errors import Exit
from watchkeeper.workspaces.git import GitWorkspace

REMOVE = ("worktree", "clean", OWNER, "--discard")
UNDO = ("undo", OWNER)


class Scene:
    """A task that is done, with a worktree that holds work of every kind."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        environ = {
            **rig.environment, "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org", "GIT_COMMITTER_NAME": "t",
            "GIT_COMMITTER_EMAIL": "t@example.org",
        }  # fmt: skip
        (rig.repo / ".gitignore").write_text("*.log\n", encoding="utf-8")
        self.repo = Repo(rig.repo, rig.state / "worktrees", environ)
        _ = self.repo.commit()
        self.tree, self.top = self.repo.made()
        self._work()
        self._task()
        self.whole = self.look()

    def _work(self) -> None:
        (self.top / "committed").write_text("committed\n", encoding="utf-8")
        _ = self.repo.commit(at=self.top)
        (self.top / "README").write_text("staged\n", encoding="utf-8")
        _ = self.repo.git("add", "README", at=self.top)
        (self.top / "README").write_text("changed\n", encoding="utf-8")
        (self.top / "untracked").write_text("untracked\n", encoding="utf-8")
        (self.top / "ignored.log").write_text("ignored\n", encoding="utf-8")
        (self.top / "read only").mkdir()
        (self.top / "read only" / "file").touch(mode=0o400)
        (self.top / "read only").chmod(0o500)

    def _task(self) -> None:
        tree = replace(self.tree, state=WorktreeState.MADE, made=GitWorkspace().identify(self.tree.path))
        spec = make_spec(cwd=tree.path, checkout=tree.path, worktree=tree)
        parts = Watchkeeper.open(self.rig.repo, self.rig.environment, writes=True, repository=False)
        with contextlib.closing(parts.store) as store:
            _ = store.transact(
                "test", lambda tx: add(tx, make_task(OWNER, spec=spec, state=TaskState.DONE, ended_at=NOON))
            )

    def look(self) -> dict[str, object]:
        return fingerprint(self.repo, self.tree)

    def points(self, *command: str) -> list[str]:
        """The points that an undisturbed command reaches, each as often as it is reached."""
        log = self.rig.record_points()
        self.rig.open_gate()
        self.rig.wk(*command)
        self.rig.disarm()
        reached = log.read_text(encoding="utf-8").split()
        log.unlink()
        return [f"{name}:{reached[:at].count(name) + 1}" for at, name in enumerate(reached)]

    def die(self, point: str, *command: str) -> None:
        """Let the command die at the point."""
        (self.rig.root / "died").unlink(missing_ok=True)
        self.rig.arm(point)
        done = self.rig.wk(*command, check=False)
        self.rig.disarm()
        assert done.returncode == -9, f"{command} did not reach {point}: {done.stderr.decode()}"

    def tree_state(self) -> WorktreeState:
        tree = self.rig.task(OWNER).spec.worktree
        assert isinstance(tree, Worktree)
        return tree.state

    def leftovers(self) -> list[str]:
        """What neither a whole worktree nor a salvage needs."""
        beside = [path.name for path in (self.rig.state / "worktrees").glob(".*") if not path.name.endswith(".lock")]
        inside = [path.name for path in (self.rig.repo / ".git").glob("watchkeeper-*")]
        return beside + inside + self.repo.git("for-each-ref", "--format=%(refname)", "refs/watchkeeper").split()


@pytest.fixture
def scene(rig: Rig) -> Scene:
    return Scene(rig)


def _at_each(scene: Scene, points: list[str], play: Callable[[str], None]) -> list[str]:
    """Play it once for each point; what does not hold."""
    broken: list[str] = []
    for point in points:
        play(point)
        if scene.look() != scene.whole:
            broken.append(f"{point}: it is not what it was")
        if scene.leftovers():
            broken.append(f"{point}: {scene.leftovers()} is left")
        if scene.tree_state() is not WorktreeState.MADE:
            broken.append(f"{point}: the task's worktree is {scene.tree_state()}")
    return broken


def _say(capsys: pytest.CaptureFixture[str], what: str, points: list[str], broken: list[str]) -> None:
    with capsys.disabled():
        print(f"\nsweep of {what}: {len(points)} points, {len(points)} reached, {len(broken)} violations")
    assert broken == []


@pytest.mark.timeout(900)
def test_a_removal_that_died_is_completed_and_undone(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """By the same command and `wk undo`; or by `wk undo` alone, which says so where nothing was removed."""
    points = scene.points(*REMOVE)
    assert not os.path.lexists(scene.top)
    scene.rig.wk(*UNDO)
    assert len(points) >= 20, points

    def again(point: str) -> None:
        scene.die(point, *REMOVE)
        scene.rig.wk(*REMOVE)
        assert not Path(scene.tree.path).exists()
        scene.rig.wk(*UNDO)

    def undo_at_once(point: str) -> None:
        scene.die(point, *REMOVE)
        done = scene.rig.wk(*UNDO, check=False)
        if done.returncode != 0:
            assert done.returncode in {Exit.REFUSED, Exit.NOT_FOUND}, done.stderr.decode()
            assert b"was not removed" in done.stderr or b"no removed worktree" in done.stderr
            assert scene.look() == scene.whole, f"{point}: not removed, and not whole"
            scene.rig.wk(*REMOVE)
            scene.rig.wk(*UNDO)

    broken = _at_each(scene, points, again) + _at_each(scene, points, undo_at_once)
    _say(capsys, "salvage and remove", points, broken)


@pytest.mark.timeout(900)
def test_an_undoing_that_died_is_completed(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    """By the same command."""
    scene.rig.wk(*REMOVE)
    points = scene.points(*UNDO)
    assert len(points) >= 15, points

    def again(point: str) -> None:
        scene.rig.wk(*REMOVE)
        scene.die(point, *UNDO)
        done = scene.rig.wk(*UNDO, check=False)
        if done.returncode != 0:  # it died after the last thing that was to be done
            assert b"no removed worktree" in done.stderr, done.stderr.decode()

    _say(capsys, "undo", points, _at_each(scene, points, again))


class _Torn:
    """A task that is done, whose worktree is torn down by a command that counts how often it began."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.counted = rig, rig.root / "counted"
        rig.keep_daemon()
        options = ("--worktree", "--teardown", f"echo x >> {self.counted}")
        self.id = str(json.loads(rig.wk("run", "--json", *options, "--", "true").stdout)["id"])
        assert rig.wait_resting(self.id).state is TaskState.DONE
        rig.kill_daemon()
        self.remove = ("worktree", "clean", self.id)

    @property
    def began(self) -> int:
        return len(self.counted.read_text().splitlines()) if self.counted.exists() else 0

    @property
    def tree(self) -> Worktree:
        tree = self.rig.task(self.id).spec.worktree
        assert tree is not None
        return tree

    def die_and_go_on(self, point: str) -> list[str]:
        """Let the removal or the shim of its teardown die at a point, and type the same again; what does not hold."""
        before, tries = self.began, 0
        (self.rig.root / "died").unlink(missing_ok=True)
        self.rig.arm(point)
        _ = self.rig.wk(*self.remove, check=False)
        self.rig.disarm()
        died = self.rig.died
        while self.tree.state is not WorktreeState.REMOVED and tries < 2:
            _, tries = self.rig.wk(*self.remove, check=False), tries + 1
        began, shim = self.began - before, point.startswith("shim.")
        held = {
            "nothing died there": died,
            "it was not removed by two more tries": self.tree.state is WorktreeState.REMOVED,
            f"its teardown began {began} times": began == 1 or (shim and began == 0),
            "its directory is there": not Path(self.tree.path).exists(),
            "a teardown has no end on record": all(one.is_over for one in self.rig.commands(self.id)),
            "something is alive": not self.rig.survivors(),
        }
        return [f"{point}: {said}" for said, holds in held.items() if not holds]


@pytest.mark.timeout(900)
def test_a_removal_that_died_around_its_teardown_is_completed(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """By the same command; the teardown begins once, or never where its own supervisor died."""
    torn = _Torn(rig)
    log = rig.record_points()
    rig.open_gate()
    rig.wk(*torn.remove)
    rig.disarm()
    reached = list(dict.fromkeys(log.read_text(encoding="utf-8").split()))
    rig.wk("undo", torn.id)
    points = reached[
        reached.index("tx.teardown_reserved.before_commit") : reached.index("tx.worktree_removed.before_commit")
    ]
    points = [point for point in points if point.startswith(("tx.", "shim.", "teardown."))]
    assert len(points) >= 25, points
    broken: list[str] = []
    for point in points:
        broken += torn.die_and_go_on(point)
        rig.wk("undo", torn.id)
    _say(capsys, "teardown and remove", points, broken)
