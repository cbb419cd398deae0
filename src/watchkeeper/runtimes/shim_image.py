"""The shim as one file that no upgrade changes under a running shim: a zipapp, named by its own content.

It holds byte code for the Python that installs it, so that starting a shim compiles nothing, and the sources too: a Python that was upgraded under a daemon
still starts it. Another Python makes another file.
"""

import hashlib
import importlib.util
import io
import marshal
import os
import sys
import zipfile
from functools import cache
from importlib import resources
from pathlib import Path

from watchkeeper.runtimes import atomic

_PACKAGE = "watchkeeper.shim"
_INSIDE = "shim"
_ENTRY = f"from {_INSIDE}.__main__ import start\nstart()\n"
_RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); " + _ENTRY.replace("\n", "; ").removesuffix("; ")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_NO_REFERENCES = 2
"""The version of marshal's format that does not depend on how often a constant happens to be used elsewhere in this process."""


def install_shim(directory: Path) -> Path:
    """Put the shim into `directory` unless it is there, whole; returns where it is. Raises OSError."""
    image = _build()
    name = f"{hashlib.sha256(image).hexdigest()}.pyz"
    path = directory / name
    if _is_whole(path, image):
        return path
    directory.mkdir(mode=atomic.DIRECTORY_MODE, exist_ok=True)
    with atomic.directory(directory) as fd:
        atomic.replace(fd, name, image, point="shim_image")
    return path


def shim_command(image: Path, execution: Path) -> list[str]:
    """The command line of a shim: isolated from the user's Python and from everything installed in it.

    It names the interpreter below a virtual environment, so that a shim does not depend on an environment that may be remade. What it runs is the image's
    entry; Python's own way to find that takes as long as half a shim's start.
    """
    interpreter = getattr(sys, "_base_executable", sys.executable)
    return [os.path.realpath(interpreter), "-I", "-S", "-c", _RUN, str(image), str(execution)]


def _is_whole(path: Path, image: bytes) -> bool:
    try:
        return path.read_bytes() == image
    except OSError:
        return False


@cache
def _build() -> bytes:
    """The zipapp's bytes: the same for the same sources and the same Python."""
    sources = {"__main__": _ENTRY}
    for file in sorted(resources.files(_PACKAGE).iterdir(), key=lambda found: found.name):
        if file.name.endswith(".py"):
            sources[f"{_INSIDE}/{file.name.removesuffix('.py')}"] = file.read_text(encoding="utf-8")
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as archive:
        for name, source in sources.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.pyc", _EPOCH), _compiled(name, source))
            archive.writestr(zipfile.ZipInfo(f"{name}.py", _EPOCH), source)
    return held.getvalue()


def _compiled(name: str, source: str) -> bytes:
    """Byte code in the layout of a `.pyc` without a check of its source, which is not there."""
    code = compile(source, f"<{name}>", "exec", dont_inherit=True)
    unchecked = (0b01).to_bytes(4, "little")
    source_hash = importlib.util.source_hash(source.encode())
    return importlib.util.MAGIC_NUMBER + unchecked + source_hash + marshal.dumps(code, _NO_REFERENCES)
