"""A mistake in the settings does not keep a user from looking and from ending what runs."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from watchkeeper.errors import Exit

if TYPE_CHECKING:
    from support.cli import Wk

BROKEN = (
    '[queue]\nlimit = "many"\n[stop]\ngrace = "1s"\n',
    "[queue\n",
    "colour = 1\n",
    "[run]\nretries = 99\nmodel = 5\n",
)


def _settings(wk: "Wk", text: str) -> Path:
    file = Path(wk.environ["HOME"]) / ".config" / "watchkeeper" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("text", BROKEN)
def test_looking_and_ending_go_on(wk: "Wk", text: str) -> None:
    """With one line of warning; everything else that is set still holds. Handing over is refused."""
    first, second = wk.add(), wk.add()
    file = _settings(wk, text)
    for command in (
        ("ls",),
        ("status",),
        ("show", first),
        ("logs", first),
        ("events",),
        ("stop", first),
        ("kill", second),
    ):
        answer = wk(*command)
        assert answer.code == 0, (command, answer.err)
        warnings = [line for line in answer.err.splitlines() if line.startswith("wk: ")]
        assert len(warnings) == 1 and str(file) in warnings[0], (command, answer.err)
    assert wk("wait", first).code == Exit.TASK_STOPPED
    assert wk("run", "--harness", "demo", "more").code == Exit.SETTINGS
    assert wk("config", "show").code == Exit.SETTINGS


def test_what_is_right_beside_what_is_wrong_holds(wk: "Wk") -> None:
    """Only the wrong entry is passed over."""
    _ = wk.add()
    _ = _settings(wk, BROKEN[0])
    from watchkeeper.cli.call import Call
    from watchkeeper.cli.render import Terminal

    settings = Call(wk.environ, wk.cwd, Terminal(wk.environ)).reading.settings
    assert (settings.stop_grace_s, settings.queue_limit) == (1.0, 4)


@pytest.mark.parametrize("text", ['[store]\nurl = "nonsense"\n', '[store]\nurl = "postgresql://h/d"\n[queue\n'])
def test_which_database_it_is_is_never_guessed(wk: "Wk", text: str) -> None:
    """Looking into another one would show that there are no tasks."""
    task_id = wk.add()
    _ = _settings(wk, text)
    for command in (("ls",), ("stop", task_id)):
        assert wk(*command).code == Exit.SETTINGS, command
