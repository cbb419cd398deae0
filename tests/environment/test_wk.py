"""`./wk` on a fresh machine: it makes its environment, or says in one sentence what is missing. No network is used."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.source import ROOT

UNAVAILABLE = 69
OLD = "#!/bin/sh\n[ \"$1\" = -V ] && echo 'Python 3.9.2' && exit\nexit 3\n"
WITHOUT_VENV = "#!/bin/sh\ncase $* in *ensurepip*) exit 1 ;; esac\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What `wk` needs of the repository, in a directory with a space in its name."""
    root = tmp_path / "a copy"
    root.mkdir()
    for name in ("wk", "pyproject.toml"):
        shutil.copy2(ROOT / name, root)
    for name in ("scripts", "requirements"):
        shutil.copytree(ROOT / name, root / name)
    return root


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A directory of programs that has what every system has, and no Python."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("cat", "cksum", "env", "grep", "mkdir", "mv", "readlink", "rm", "sh", "tail"):
        found = shutil.which(name)
        assert found is not None, f"{name} is not installed"
        (programs / name).symlink_to(found)
    return programs


def put(machine: Path, name: str, script: str) -> None:
    """Install a program."""
    (machine / name).write_text(script, encoding="utf-8")
    (machine / name).chmod(0o755)


def run(command: Path, machine: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `wk` with that machine's programs and nothing else, from a directory of no importance."""
    return subprocess.run(
        [str(command), *arguments],
        cwd="/",
        env={"PATH": str(machine), "HOME": str(machine)} | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def refusal(result: subprocess.CompletedProcess[str]) -> str:
    """The one line that was said, after checking that it is one."""
    assert result.returncode == UNAVAILABLE, result.stderr
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if "setting up" not in line]
    assert len(lines) == 1, result.stderr
    return lines[0]


def test_without_python_it_says_what_to_type(checkout: Path, machine: Path) -> None:
    assert "there is no Python here" in refusal(run(checkout / "wk", machine))


def test_an_old_python_is_named(checkout: Path, machine: Path) -> None:
    put(machine, "python3", OLD)
    assert "Python 3.9.2 is too old" in refusal(run(checkout / "wk", machine))


def test_a_newer_python_is_found_beside_an_old_one(checkout: Path, machine: Path) -> None:
    put(machine, "python3", OLD)
    put(machine, "python3.12", WITHOUT_VENV)
    assert "python3.12 comes without its venv module; type `sudo apt install" in refusal(run(checkout / "wk", machine))


def test_without_network_it_says_so_and_where_the_rest_is(checkout: Path, machine: Path) -> None:
    put(machine, "python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1", "PIP_NO_CACHE_DIR": "1"}
    result = run(checkout / "wk", machine, PIP_CONFIG_FILE=os.devnull, **nowhere)
    assert "the package index cannot be reached" in refusal(result)
    assert "127.0.0.1" in (checkout / ".cache" / "environment.log").read_text(encoding="utf-8")
    assert (checkout / ".venv" / "half-made").exists(), "the next try must begin anew"


def test_a_directory_that_cannot_be_written_is_named(checkout: Path, machine: Path) -> None:
    put(machine, "python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (checkout / ".cache").write_text("a file is in the way", encoding="utf-8")
    assert "cannot be written to" in refusal(run(checkout / "wk", machine))


def make_current(checkout: Path) -> None:
    """An environment that looks whole, whose `wk` tells its arguments."""
    programs = checkout / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    put(programs, "wk", '#!/bin/sh\nprintf "<%s>" "$@"\n')
    sums = subprocess.run(
        ["cksum", "requirements/run.txt", "pyproject.toml", "scripts/environment.sh"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (checkout / ".venv" / "stamp-run").write_text(f"{' '.join(sums.split())} {checkout}\n", encoding="utf-8")


def test_when_nothing_changed_no_python_is_started_to_find_out(checkout: Path, machine: Path) -> None:
    """There is no Python on this machine's path, and nothing is said."""
    make_current(checkout)
    result = run(checkout / "wk", machine, "a b", "")
    assert (result.returncode, result.stdout, result.stderr) == (0, "<a b><>", "")


def test_it_is_found_through_links(checkout: Path, machine: Path, tmp_path: Path) -> None:
    make_current(checkout)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "near").symlink_to("../a copy/wk")
    (machine / "far").symlink_to(tmp_path / "links" / "near")
    assert run(machine / "far", machine, "x").stdout == "<x>"


@pytest.mark.parametrize("changed", ["requirements/run.txt", "pyproject.toml"])
def test_a_changed_lock_file_is_noticed(checkout: Path, machine: Path, changed: str) -> None:
    make_current(checkout)
    with (checkout / changed).open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    assert "there is no Python here" in refusal(run(checkout / "wk", machine))


def test_a_copied_directory_makes_an_environment_of_its_own(checkout: Path, machine: Path, tmp_path: Path) -> None:
    make_current(checkout)
    shutil.copytree(checkout, tmp_path / "another", symlinks=True)
    assert "there is no Python here" in refusal(run(tmp_path / "another" / "wk", machine))


def test_the_commands_are_executable() -> None:
    assert all((ROOT / name).stat().st_mode & stat.S_IXUSR for name in ("wk", "test", ".ci/run"))
