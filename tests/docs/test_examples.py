"""The examples in the docs run: every `console` block is played, line by line, in one shell, in a directory and a home of its own."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.rig import Rig

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _examples() -> list[tuple[str, str]]:
    """Page and script of every `console` block; `> ` continues a line, anything else shows what is printed."""
    found: list[tuple[str, str]] = []
    for page in PAGES:
        for block in re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            lines = [line[2:] for line in block.splitlines() if line.startswith(("$ ", "> "))]
            found.append((f"{page.relative_to(ROOT)}: {lines[0]}", "\n".join(lines)))
    return found


EXAMPLES = _examples()


def test_there_are_examples() -> None:
    """The read-me has some at least."""
    assert any(name.startswith("README.md") for name, _ in EXAMPLES)


@pytest.mark.parametrize("script", [script for _, script in EXAMPLES], ids=[name for name, _ in EXAMPLES])
def test_the_example_runs(script: str, tmp_path: Path) -> None:
    """Every line ends with 0."""
    rig = Rig(tmp_path / "rig")
    programs = Path(sys.executable).parent
    environment = rig.environment | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env=environment,
            cwd=rig.repo,
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            rig.wk("daemon", "stop", "--interrupt", check=False)
        rig.close()
