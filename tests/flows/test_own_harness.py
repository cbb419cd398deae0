"""A new harness is one file, in Python or in TOML: each runs a task to its outcome, and nothing else is touched."""

import json
import os
import re
from pathlib import Path

import pytest
from support.rig import Rig

from watchkeeper.domain.model import TaskState

PAGES = Path(__file__).parents[2] / "docs" / "harnesses"
PROGRAM = """#!/bin/sh
[ "$1" = --version ] && echo shout 3.2.1 && exit
printf '%s' "${SHOUT_WORD:-none} ${SECRET:-none} $*" > said
[ "$1" = run ] || cat >> said
echo '{"type": "call", "name": "write"}'
echo '{"type": "text", "text": "Said it.", "message": {"text": "Said it."}, "session": "s1"}'
echo '{"type": "done", "ok": true}'
"""


def example(page: str, language: str) -> str:
    """The first example of a page."""
    text = (PAGES / page).read_text(encoding="utf-8")
    found = re.search(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def shout(rig: Rig) -> Rig:
    """The rig with the program `shout` on its path."""
    for name in ("bin", "site"):
        (rig.root / name).mkdir()
    program = rig.root / "bin" / "shout"
    program.write_text(PROGRAM, encoding="utf-8")
    program.chmod(0o755)
    rig.settings = {
        "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(rig.root / "site"), "SHOUT_WORD": "loud",
        "SECRET": "hidden",
    }  # fmt: skip
    return rig


def runs_to_its_outcome(rig: Rig, *options: str) -> str:
    """What the program wrote."""
    _ = rig.start_daemon()
    done = rig.wk("run", "--json", "--harness", "shout", *options, "Shout it")
    task_id = json.loads(done.stdout)["id"]
    assert rig.wait_resting(task_id).state is TaskState.DONE
    outcome = rig.outcome(f"{task_id}.1")
    assert outcome is not None and outcome.text == "Said it." and outcome.changes is not None
    assert [each.path for each in outcome.changes.files] == ["said"]
    return (rig.repo / "said").read_text(encoding="utf-8")


def test_one_python_file(shout: Rig) -> None:
    """With the entry point that its package declares."""
    site = shout.root / "site"
    (site / "shout_harness.py").write_text(example("own.md", "python"), encoding="utf-8")
    package = site / "shout_harness-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: shout-harness\nVersion: 1.0\n", encoding="utf-8")
    (package / "entry_points.txt").write_text(
        "[watchkeeper.harnesses]\nshout = shout_harness:Shout\n", encoding="utf-8"
    )
    said = runs_to_its_outcome(shout)
    assert said == "loud none --jsonShout it"


def test_one_toml_file(shout: Rig) -> None:
    """The line before the run promises nothing that is not enforced; options, isolation and variables are those of the file."""
    file = shout.root / "home" / ".config" / "watchkeeper" / "harnesses" / "shout.toml"
    file.parent.mkdir(parents=True)
    file.write_text(example("file.md", "toml"), encoding="utf-8")
    shout.wk("config", "set", "harness.shout.effort", "high")
    said = runs_to_its_outcome(shout, "--isolation", "strict", "--model", "big")
    assert said == "loud none run --json --no-config --model big --effort=high -- Shout it"
    shown = shout.wk("run", "--dry-run", "--verbose", "--harness", "shout", "x").stderr.decode()
    assert "shout 3.2.1 runs as you." in shown
    assert "may do what you may; Watchkeeper enforces no limits on it" in shown and "not checked" in shown
    refused = shout.wk("run", "--harness", "shout", "--rights", "edit", "x", check=False)
    assert refused.returncode == 5 and b"cannot be held to the rights" in refused.stderr
    wrong = shout.wk("config", "set", "harness.shout.efort", "high", check=False)
    assert wrong.returncode == 9 and b"Did you mean 'harness.shout.effort'?" in wrong.stderr
    assert b"harness shout" in shout.wk("doctor", check=False).stdout
