"""The shim as one file: the same from the same sources, whole, and independent of what is installed."""

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from shim.stage import Bench, sh

from watchkeeper.runtimes.shim_image import install_shim, shim_command

LISTING = (
    "import sys; sys.argv = ['x']; sys.path.insert(0, {image!r}); import shim.__main__; print(*sorted(sys.modules))"
)


def test_it_is_named_by_its_content_and_always_the_same(tmp_path: Path) -> None:
    """Two builds in two processes agree to the byte, so the name says which program a shim runs."""
    here = install_shim(tmp_path / "a")
    build = "import sys; from pathlib import Path; from watchkeeper.runtimes.shim_image import install_shim; print(install_shim(Path(sys.argv[1])))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path / "b")],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    there = Path(done.stdout.strip())
    assert here.name == there.name == hashlib.sha256(here.read_bytes()).hexdigest() + ".pyz"
    assert here.read_bytes() == there.read_bytes()


def test_one_that_is_whole_is_left_alone_and_one_that_is_damaged_is_replaced(tmp_path: Path) -> None:
    path = install_shim(tmp_path)
    before = path.stat()
    assert install_shim(tmp_path) == path
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    assert install_shim(tmp_path) == path
    assert path.read_bytes() == whole
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.stat().st_mode & 0o077 == 0


def test_a_python_of_another_version_runs_the_sources(bench: Bench, tmp_path: Path) -> None:
    """The byte code is for one version; where it does not fit, the source beside it does."""
    other = tmp_path / "other.pyz"
    with zipfile.ZipFile(bench.image) as image, zipfile.ZipFile(other, "w") as changed:
        for name in image.namelist():
            data = image.read(name)
            changed.writestr(name, b"\0\0\0\0" + data[4:] if name.endswith(".pyc") else data)
    execution = bench.execution(sh("echo ran"))
    execution.image = other
    assert execution.run() == 0
    assert execution.output() == "ran\n"


def test_no_environment_that_may_be_remade_is_needed(bench: Bench) -> None:
    """The interpreter is the one below any virtual environment, and nothing of the user's Python is looked at."""
    command = shim_command(bench.image, Path("/d"))
    assert not Path(command[0]).is_symlink()
    assert not command[0].startswith(sys.prefix + "/") or sys.prefix == sys.base_prefix
    assert command[1:3] == ["-I", "-S"]
    assert command[-2:] == [str(bench.image), "/d"]


def test_starting_imports_little(bench: Bench) -> None:
    """What is slow to import would be paid for at every launch, and its memory kept for as long as every agent runs."""
    python = shim_command(bench.image, Path("/d"))[0]
    done = subprocess.run(
        [python, "-I", "-S", "-c", LISTING.format(image=str(bench.image))], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "shim.supervisor" in loaded
    heavy = {"asyncio", "collections", "ctypes", "dataclasses", "enum", "json", "pathlib", "re", "signal", "socket"}
    heavy |= {
        "struct",
        "subprocess",
        "tempfile",
        "threading",
        "typing",
        "selectors",
        "logging",
        "datetime",
        "watchkeeper",
    }
    assert loaded & heavy == set()
