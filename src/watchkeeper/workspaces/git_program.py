"""How git is run in a directory that an agent may have written: nothing of the repository's own runs, and the caller's GIT_ variables do not count.

Off are hooks, the file system monitor, content filters, external diff programs, text conversions and prompts; no lock is taken that is not needed.
An alias cannot take the place of a command of git's own, and only such commands are run.
"""

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from watchkeeper.crash import crashpoint

TIMEOUT_S = 30.0
SLOW_S = 2.0
"""A question to git that takes longer is worth a word."""

MAX_OUTPUT = 32 * 1024 * 1024
_MOST_COMPLAINT = 64 * 1024

_SAFE = (
    "--no-optional-locks", "--literal-pathspecs",
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false",
    "-c", "core.quotePath=false", "-c", "protocol.allow=never", "-c", "safe.bareRepository=explicit",
)  # fmt: skip

DIFF_OFF = ("--no-ext-diff", "--no-textconv")
"""For every command that compares: no program of the repository is run for it."""

_FILTER_OFF = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
_HOOK_OFF = (("enabled", "false"),)
"""Newer versions of git read hooks from the configuration, too, wherever `core.hooksPath` leads."""


class GitUnknown(Exception):  # noqa: N818 - what cannot be known
    """Why the state of the directory cannot be known, in a sentence."""


class Streamed:
    """A git that runs."""

    def __init__(self, running: "subprocess.Popen[bytes]") -> None:
        """`running`: its process."""
        self._running = running
        self.pid = running.pid

    def write(self, data: bytes) -> None:
        """Give it something. Raises BrokenPipeError if it has ended."""
        if self._running.stdin is not None:
            _ = self._running.stdin.write(data)

    @property
    def output(self) -> IO[bytes]:
        """What it says."""
        if self._running.stdout is None:
            msg = "nothing was given to it, so it is not listened to"
            raise ValueError(msg)
        return self._running.stdout


class GitProgram:
    """Asks git, each time for a bounded time."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        on_slow: Callable[[str], None] | None = None,
    ) -> None:
        """Ask nothing yet.

        Args:
            environ: its PATH names the git to use; by default this process's environment.
            timeout_s: how long one question may take.
            on_slow: called on another thread, with a sentence, when a question takes longer than `SLOW_S`.
        """
        self._environ = dict(os.environ if environ is None else environ)
        self._timeout_s = timeout_s
        self._on_slow = on_slow
        self.complaints: tuple[str, ...] = ()
        """Every line that the last question was answered with on the error output."""

    @property
    def program(self) -> str | None:
        """Where git is; None: it is not installed."""
        return shutil.which("git", path=self._environ.get("PATH", os.defpath))

    def ask(
        self,
        top: str,
        arguments: Sequence[str],
        variables: Mapping[str, str] | None = None,
        *,
        given: bytes = b"",
        until: float | None = None,
    ) -> tuple[int, bytes, str]:
        """Exit code, output, and the first line of its complaints.

        Args:
            top: the directory to run it in.
            arguments: of a command of git's own.
            variables: for its environment.
            given: for its standard input.
            until: the time of the monotonic clock at which it is ended, if that is before its own time is over.

        Raises:
            GitUnknown: git is not installed, took too long, or answered too much.
            OSError: it cannot be run.
        """
        program = self.program
        if program is None:
            raise GitUnknown("git is not installed.")
        limit_s = self._timeout_s if until is None else min(self._timeout_s, until - time.monotonic())
        if limit_s <= 0:
            raise GitUnknown(f"No time was left for git {_command(arguments)}.")
        # Files, not pipes: a process that an ended git has started may hold a pipe open forever.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, _input(given) as stdin:
            with self._noticed(top):
                try:
                    done = subprocess.run(
                        [program, *_SAFE, *arguments],
                        check=False,
                        cwd=top,
                        env={**self._scrubbed(), **(variables or {})},
                        stdin=stdin,
                        stdout=out,
                        stderr=err,
                        timeout=limit_s,
                    )
                except subprocess.TimeoutExpired as error:
                    raise GitUnknown(f"git {_command(arguments)} took longer than {limit_s:.3g} s.") from error
            if out.seek(0, os.SEEK_END) > MAX_OUTPUT:
                raise GitUnknown(f"git {_command(arguments)} has more to say than is read.")
            out.seek(0)
            _ = err.seek(0)
            complaint = err.read(_MOST_COMPLAINT).decode("utf-8", "replace").strip().splitlines()
            self.complaints = tuple(line[:300] for line in complaint)
            return done.returncode, out.read(), complaint[0][:300] if complaint else ""

    def answer(
        self,
        top: str,
        arguments: Sequence[str],
        variables: Mapping[str, str] | None = None,
        *,
        given: bytes = b"",
        until: float | None = None,
    ) -> bytes:
        """The output of a question that must succeed. Raises GitUnknown, OSError."""
        code, out, complaint = self.ask(top, arguments, variables, given=given, until=until)
        if code != 0:
            raise GitUnknown(f"git could not be asked: {complaint}" if complaint else "git could not be asked.")
        return out

    @contextmanager
    def streamed(
        self,
        top: str,
        arguments: Sequence[str],
        variables: Mapping[str, str] | None = None,
        *,
        given: bytes | None = None,
    ) -> Generator["Streamed"]:
        """A git that takes or says more than fits into memory, for the time of the body; it must succeed.

        Without `given` the body writes its standard input, which is closed when the body ends; with it the body reads what it says.

        Raises:
            GitUnknown: git is not installed, failed, or took too long.
            OSError: it cannot be run.
        """
        program = self.program
        if program is None:
            raise GitUnknown("git is not installed.")
        with tempfile.TemporaryFile() as err, _input(given or b"") as stdin:
            crashpoint("git.stream.before")
            running = subprocess.Popen(
                [program, *_SAFE, *arguments],
                cwd=top,
                env={**self._scrubbed(), **(variables or {})},
                stdin=subprocess.PIPE if given is None else stdin,
                stdout=subprocess.DEVNULL if given is None else subprocess.PIPE,
                stderr=err,
            )
            timer = threading.Timer(self._timeout_s, running.kill)
            timer.daemon = True
            timer.start()
            try:
                yield Streamed(running)
                if running.stdin is not None:
                    running.stdin.close()
            except BrokenPipeError:
                pass  # it has ended, and says why
            except BaseException:
                running.kill()
                raise
            finally:
                _end(running)
                timer.cancel()
            _ = err.seek(0)
            complaint = err.read(_MOST_COMPLAINT).decode("utf-8", "replace").strip().splitlines()
        if running.returncode != 0:
            detail = complaint[0][:300] if complaint else f"it ended with {running.returncode}"
            raise GitUnknown(f"git {_command(arguments)} failed: {detail}")

    def line(self, top: str, *arguments: str) -> str | None:
        """The output as one line; None if git fails or prints nothing. Raises GitUnknown, OSError."""
        code, out, _ = self.ask(top, arguments)
        text = out.decode("utf-8", "replace").strip()
        return text if code == 0 and text else None

    def unfiltered(self, top: str, variables: Mapping[str, str] | None = None) -> dict[str, str]:
        """Variables that turn the repository's content filters and configured hooks off: they are commands of unknown origin.

        By variables, because `-c` would misread a filter whose name holds a `=`. `variables`: what git needs to find the repository.

        Raises GitUnknown, OSError.
        """
        _, raw, _ = self.ask(top, ["config", "-z", "--name-only", "--get-regexp", r"^(filter|hook)\."], variables)
        names = sorted({key.rpartition(".")[0] for key in os.fsdecode(raw).split("\0") if key.count(".") > 1})
        off = [
            (f"{name}.{key}", value)
            for name in names
            for key, value in (_FILTER_OFF if name.startswith("filter.") else _HOOK_OFF)
        ]
        variables = {"GIT_CONFIG_COUNT": str(len(off))}
        for number, (key, value) in enumerate(off):
            variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return variables

    @contextmanager
    def _noticed(self, directory: str) -> Generator[None]:
        """Say what is waited for if the body takes long."""
        if self._on_slow is None:
            yield
            return
        timer = threading.Timer(
            SLOW_S, self._on_slow, (f"Waiting for git in {directory} (at most {self._timeout_s:g} s).",)
        )
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def command(self, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """A command line and an environment for a git that the caller starts. Raises GitUnknown: git is not installed."""
        program = self.program
        if program is None:
            raise GitUnknown("git is not installed.")
        return [program, *_SAFE, *arguments], self._scrubbed()

    def _scrubbed(self) -> dict[str, str]:
        kept = {name: value for name, value in self._environ.items() if not name.startswith(("GIT_", "WATCHKEEPER_"))}
        return kept | {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1"}


def _end(running: "subprocess.Popen[bytes]") -> None:
    """Close what leads to a process, and wait for its end."""
    for pipe in (running.stdin, running.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
    _ = running.wait()


def _command(arguments: Sequence[str]) -> str:
    """The command among arguments, before which settings may stand."""
    at = 0
    while arguments[at] == "-c":
        at += 2
    return arguments[at]


@contextmanager
def _input(given: bytes) -> Generator[int]:
    """A descriptor that the text can be read from."""
    if not given:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        _ = file.write(given)
        _ = file.seek(0)
        yield file.fileno()


def is_hash(text: str) -> bool:
    """Whether a text is the full name of an object."""
    return len(text) in {40, 64} and set(text) <= set("0123456789abcdef")
