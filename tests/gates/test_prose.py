"""The prose linter finds what the house avoids, and only in prose."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint(file: Path) -> subprocess.CompletedProcess[str]:
    """Run the linter on one file, without a baseline."""
    command = [sys.executable, "-W", "ignore", "-m", "prose", "--all", str(file)]
    return subprocess.run(
        command, env={"PYTHONPATH": str(ROOT / "scripts")}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("Nobody holds the lock.", "house.noun"),
        ("It is no directory of a run.", "house.negation"),
        ("The log is kept, nor is the record removed.", "house.inversion"),
        ("The shim is told to end.", "house.person"),
        ("The agent goes on.", "house.term"),
        ("The data is at the door.", "house.riddle"),
    ],
)
@pytest.mark.parametrize("suffix", [".py", ".md"])
def test_each_rule_is_seen_red(tmp_path: Path, sentence: str, rule: str, suffix: str) -> None:
    """In a docstring and in a page, with the line."""
    file = tmp_path / f"page{suffix}"
    _ = file.write_text(f'"""A page.\n\n{sentence}\n"""\n' if suffix == ".py" else f"# A page\n\n{sentence}\n")
    done = lint(file)
    assert done.returncode == 1, done.stderr
    assert ":3:" in done.stdout and rule in done.stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.py", '"""There is no database, and the lease is no longer valid."""\n\nnobody = "whoever"\n'),
        ("page.md", "The column `whoever` is read.\n\n```console\n$ echo nobody goes on\n```\n"),
        ("page.sql", "SELECT nobody FROM whoever -- the rows of one lane\n"),
    ],
)
def test_code_and_plain_sentences_are_left_alone(tmp_path: Path, name: str, text: str) -> None:
    """Names are not prose, and a rule does not hit what it resembles."""
    file = tmp_path / name
    _ = file.write_text(text)
    done = lint(file)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
