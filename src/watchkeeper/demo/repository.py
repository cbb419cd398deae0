"""A small git repository to show a run in. Stands alone, like everything here."""

import os
import subprocess
from pathlib import Path

_FILES = {
    "README.md": "# A small project\n\nMade by `wk demo`; delete it whenever you like.\n",
    "greet.py": 'def greet(name: str) -> str:\n    return f"Hello, {name}!"\n',
}
_AUTHOR = (
    "-c",
    "user.name=wk demo",
    "-c",
    "user.email=demo@localhost",
    "-c",
    "commit.gpgsign=false",
    "-c",
    "core.hooksPath=/dev/null",
)


def make_repository(directory: Path) -> bool:
    """Fill a fresh directory, and make it a git repository with one commit; False if git could not do that.

    Raises:
        OSError: the files could not be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        (directory / name).write_text(text, encoding="utf-8")
    # Whatever repository the caller works in must not be meant by git here.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    for arguments in (("init", "-q"), ("add", "."), (*_AUTHOR, "commit", "-q", "-m", "Begin")):
        try:
            done = subprocess.run(
                ["git", *arguments], cwd=directory, env=environment, check=False, capture_output=True, timeout=20
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        if done.returncode != 0:
            return False
    return True
