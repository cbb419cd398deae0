"""How long what an agent left behind has until it is killed: its own grace at most, however long the agent's was."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from watchkeeper.runtimes import atomic
from watchkeeper.shim import ladder as ladder_module
from watchkeeper.shim.ladder import Ladder
from watchkeeper.shim.timers import Timers

if TYPE_CHECKING:
    from watchkeeper.shim.child import Forked
    from watchkeeper.shim.spec import Spec

GRACE_S, LEFTOVERS_S, LONG_S = 30.0, 5.0, 600.0


class Stage:
    """A ladder whose agent has left something behind, on a clock that stands still."""

    def __init__(self, directory: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.living, self.signalled = True, list[int]()
        self.timers = Timers()
        spec = SimpleNamespace(
            leftovers="wait", leftovers_grace_s=LEFTOVERS_S, grace_s=GRACE_S, cwd=b"/", argv=[b"agent"]
        )
        self.ladder = Ladder(directory, cast("Spec", spec), self.timers, pytest.fail, lambda: None, lambda **_: True)
        system = ladder_module.system
        monkeypatch.setattr(system, "boottime", lambda: 1000.0)
        monkeypatch.setattr(ladder_module.tree, "descendants", lambda: [(7, 1, 9)] if self.living else [])
        monkeypatch.setattr(ladder_module.tree, "signal_all", self._signal_all)
        monkeypatch.setattr(ladder_module.tree, "signal_agent", lambda pid, number: self.signalled.append(number))
        monkeypatch.setattr(ladder_module.os, "wait4", lambda *_: self._wait())
        self._ends = False
        forked = SimpleNamespace(pid=4_190_000, failure=lambda: None)
        self.ladder.watch(cast("Forked", forked), began=1000.0, proves=True)

    def _signal_all(self, number: int) -> list[tuple[int, int, int]]:
        self.signalled.append(number)
        return [(7, 1, 9)]

    def _wait(self) -> tuple[int, int, Any]:
        if self._ends:
            self._ends = False
            return 4_190_000, 0, SimpleNamespace(ru_maxrss=1, ru_utime=0.0, ru_stime=0.0)
        if not self.living:
            raise ChildProcessError
        return 0, 0, None

    def agent_ends(self) -> None:
        """It is reaped at the next turn; what it left lives."""
        self._ends = True
        assert self.ladder.advance() is False

    def left_s(self) -> float | None:
        """How long what was left behind still has."""
        return self.timers.remaining("leftovers")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """The ladder."""
    with atomic.directory(tmp_path) as directory, monkeypatch.context() as patch:
        yield Stage(directory, patch)


@pytest.mark.parametrize(
    ("asked_s", "has_s"), [(LONG_S, LEFTOVERS_S), (LEFTOVERS_S, LEFTOVERS_S), (1.0, 1.0), (0.0, 0.0)]
)
def test_a_stop_after_the_agents_end_gives_leftovers_their_own_grace_at_most(
    stage: Stage, asked_s: float, has_s: float
) -> None:
    stage.agent_ends()
    assert stage.left_s() is None, "they may be waited for"
    stage.ladder.begin("stop", asked_s)
    assert stage.left_s() == has_s
    assert stage.signalled == [ladder_module.system.SIGTERM]


@pytest.mark.parametrize(("asked_s", "has_s"), [(LONG_S, LEFTOVERS_S), (1.0, 1.0)])
def test_leftovers_of_an_agent_that_was_stopped_get_the_rest_of_its_grace_at_most(
    stage: Stage, asked_s: float, has_s: float
) -> None:
    stage.ladder.begin("stop", asked_s)
    assert stage.left_s() is None
    stage.agent_ends()
    assert stage.left_s() == has_s
    assert "grace" not in stage.timers, "one moment is left at which all are killed"


def test_a_second_stop_never_lengthens_the_grace_of_leftovers(stage: Stage) -> None:
    stage.agent_ends()
    stage.ladder.begin("stop", 1.0)
    stage.ladder.begin("stop", LONG_S)
    assert stage.left_s() == 1.0
    stage.ladder.begin("stop", 0.25)
    assert stage.left_s() == 0.25


def test_a_kill_does_not_wait_for_leftovers(stage: Stage) -> None:
    stage.agent_ends()
    stage.ladder.begin("stop", LONG_S)
    stage.ladder.begin("kill", 0.0)
    assert stage.left_s() is None and stage.timers.remaining("kill") == 0.0


def test_the_end_of_everything_is_recorded_once_it_is_so(stage: Stage, tmp_path: Path) -> None:
    stage.agent_ends()
    assert not (tmp_path / "gone.json").exists()
    stage.living = False
    assert stage.ladder.advance() is True
    assert b'"proof": "proven"' in (tmp_path / "gone.json").read_bytes()
