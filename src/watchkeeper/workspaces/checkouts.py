"""Which checkout a directory is in, told without git."""

import os
from pathlib import Path

from watchkeeper.ports.workspace import Checkout
from watchkeeper.workspaces.plain import storable

MAX_NAME = 64
"""Characters of a project's name."""


def checkout_by_looking(cwd: str) -> Checkout | None:
    """The nearest directory upwards that holds a repository or the file of a worktree; None if there is none."""
    start = Path(os.path.realpath(cwd))
    for directory in (start, *start.parents):
        if (directory / ".git").is_file() or os.path.lexists(directory / ".git" / "HEAD"):
            return Checkout(top=storable(str(directory)), project=project_of(str(directory / ".git")))
    return None


def project_of(common: str) -> str:
    """A repository's name, from where its common files are: `shop` for `/src/shop/.git`, and for the bare `/src/shop.git` too."""
    path = Path(common)
    name = path.parent.name if path.name == ".git" else path.name.removesuffix(".git")
    return "".join(letter for letter in storable(name) if letter.isprintable())[:MAX_NAME].strip()
