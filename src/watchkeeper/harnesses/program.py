"""Find an agent program on the caller's PATH and ask which version it is.

The PATH is the caller's, not the daemon's. Only absolute directories of it count: the daemon stands elsewhere than the
caller, so a relative one would name another place.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from watchkeeper.errors import ProgramMissing
from watchkeeper.ports.harness import Program

VERSION_TIMEOUT_S = 10.0
"""Real programs take up to 3 s when cold."""

_VERSION = re.compile(r"\d+(?:\.\d+)+(?:[-+.]?\w+)*")
_READ = 4096


class Programs:
    """Finds programs; remembers what a file said until the file changes."""

    def __init__(self, timeout_s: float = VERSION_TIMEOUT_S) -> None:
        """Give a program `timeout_s` to say its version."""
        self._timeout_s = timeout_s
        self._versions: dict[tuple[str, int, int, tuple[str, ...]], str | None] = {}

    def find(
        self,
        name: str,
        environment: Mapping[str, str],
        *,
        configured: str = "",
        hint: str = "",
        ask: Sequence[str] = ("--version",),
    ) -> Program:
        """Find `name`, or what the settings say instead, and its version.

        Args:
            name: what the program is usually called.
            environment: the caller's, with its PATH and HOME.
            configured: a name or a path from the settings; `~` is the caller's home.
            hint: how to get the program.
            ask: arguments with which it says its version; none: it is not asked.

        Raises:
            ProgramMissing: it is not there.
        """
        path = _located(configured or name, environment)
        if path is None:
            place = "is not an executable file" if "/" in configured else "is not on your PATH"
            msg = f"The agent program is missing: '{configured or name}' {place}."
            raise ProgramMissing(msg, hint=hint)
        return Program(path=path, version=self._version(path, environment, tuple(ask)) if ask else None)

    def _version(self, path: str, environment: Mapping[str, str], ask: tuple[str, ...]) -> str | None:
        try:
            status = Path(path).stat()
        except OSError:
            return None
        key = (path, status.st_mtime_ns, status.st_size, ask)
        if key not in self._versions:
            self._versions[key] = _said(path, environment, ask, self._timeout_s)
        return self._versions[key]


def find_command(word: str, environment: Mapping[str, str], cwd: str) -> str:
    """The path of the program that a command line's first word names.

    A word with a slash is a path, any other one is looked for on the PATH. Relative paths, also those on the PATH, count from `cwd`: the system starts
    the program there.

    Raises:
        ProgramMissing: there is none, or it may not be executed; says which.
    """
    if "/" in word:
        path = Path(cwd, word)
        if not _is_program(path):
            raise _no_program(word, path, cwd)
        return str(path)
    found = [Path(cwd, part, word) for part in environment.get("PATH", os.defpath).split(os.pathsep)]
    path = next((each for each in found if _is_program(each)), None)
    if path is not None:
        return str(path)
    there = next((each for each in found if each.is_file()), None)
    if there is not None:
        raise _no_program(word, there, cwd)
    hint = (
        f"There is one in {cwd}: name it ./{word}."
        if _is_program(Path(cwd, word))
        else "Install it, or name it by its path."
    )
    raise ProgramMissing(f"The program '{word}' is not on your PATH.", hint=hint)


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _no_program(word: str, path: Path, cwd: str) -> ProgramMissing:
    if path.is_dir():
        return ProgramMissing(f"'{word}' is a directory, not a program.", hint="Name a program in it.")
    if path.is_file():
        return ProgramMissing(
            f"The file '{path}' may not be executed.", hint=f"Allow it: chmod +x {shlex.quote(str(path))}"
        )
    counts = f" A relative path counts from the task's directory, {cwd}." if not word.startswith("/") else ""
    return ProgramMissing(f"There is no program '{word}'.", hint=f"Name one that is there.{counts}")


def _located(program: str, environment: Mapping[str, str]) -> str | None:
    if program.startswith("~/"):
        program = environment.get("HOME", "") + program[1:]
    if "/" in program:
        return shutil.which(program) if program.startswith("/") else None
    directories = [part for part in environment.get("PATH", os.defpath).split(os.pathsep) if part.startswith("/")]
    return shutil.which(program, path=os.pathsep.join(directories)) if directories else None


def _said(path: str, environment: Mapping[str, str], ask: tuple[str, ...], timeout_s: float) -> str | None:
    # Its output goes to a file, not a pipe: a child of the program that keeps a pipe open would make us wait for it.
    with tempfile.TemporaryFile() as out:
        try:
            answer = subprocess.run(
                [path, *ask],
                check=False,
                cwd="/",
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.DEVNULL,
                timeout=timeout_s,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None
        if answer.returncode != 0:
            return None
        out.seek(0)
        text = out.read(_READ).decode("utf-8", "replace").strip()
    found = _VERSION.search(text)
    return found.group() if found else None
