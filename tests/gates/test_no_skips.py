"""A skipped test fails the session where WATCHKEEPER_NO_SKIPS asks for it; this runs such sessions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.source import ROOT

SKIPPED = "import pytest\ndef test_fine(): pass\ndef test_not(): pytest.skip('no tmux')\n"
XFAILED = "import pytest\n@pytest.mark.xfail\ndef test_bad(): assert False\ndef test_fine(): pass\n"
MODULE = "import pytest\npytest.skip('nothing here', allow_module_level=True)\n"
FINE = "def test_fine(): pass\n"
LEFT_OUT = {"test_skipped.py": SKIPPED, "test_xfailed.py": XFAILED, "test_module.py": MODULE}


def session(directory: Path, files: dict[str, str], *arguments: str, asked: bool) -> subprocess.CompletedProcess[str]:
    """Run pytest on some files."""
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "WATCHKEEPER_NO_SKIPS"}
    environment |= {"PYTHONPATH": str(ROOT / "tests")} | ({"WATCHKEEPER_NO_SKIPS": "1"} if asked else {})
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "support.no_skips", "-p", "no:cacheprovider", *arguments, "."],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_what_was_left_out_is_red_and_named(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = session(tmp_path, LEFT_OUT, *arguments, asked=True)
    assert result.returncode == 1, result.stdout
    named = result.stdout.partition("left out, and")[2]
    assert [name for name in LEFT_OUT if name not in named] == []


@pytest.mark.parametrize("name", LEFT_OUT)
def test_each_way_of_leaving_out_is_enough(tmp_path: Path, name: str) -> None:
    assert session(tmp_path, {name: LEFT_OUT[name], "test_fine.py": FINE}, asked=True).returncode == 1


def test_what_ran_is_green(tmp_path: Path) -> None:
    assert session(tmp_path, {"test_fine.py": FINE}, asked=True).returncode == 0


def test_a_developer_may_skip(tmp_path: Path) -> None:
    assert session(tmp_path, LEFT_OUT | {"test_fine.py": FINE}, asked=False).returncode == 0
