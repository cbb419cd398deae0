"""Delete a directory, whatever the modes in it."""

import os
import shutil
from contextlib import suppress
from pathlib import Path


def delete(path: Path) -> None:
    """Delete a directory with everything in it, also what is read-only. Raises OSError."""
    for directory, names, _ in os.walk(path):
        with suppress(FileNotFoundError):
            os.chmod(directory, 0o700)  # noqa: PTH101 - as os.walk names it
        for name in names:
            inner = os.path.join(directory, name)  # noqa: PTH118 - as os.walk names it
            if not os.path.islink(inner):  # noqa: PTH114 - as os.walk names it
                os.chmod(inner, 0o700)  # noqa: PTH101 - as os.walk names it
    shutil.rmtree(path)
