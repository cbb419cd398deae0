"""A stage for the shim: a directory as the daemon would prepare it, the installed program itself, real agents, and a look at the machine from outside."""

import itertools
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.waiting import wait_until

from watchkeeper.domain.evidence import LockState
from watchkeeper.runtimes.locks import probe
from watchkeeper.runtimes.shim_image import shim_command

MARKER = "WATCHKEEPER_EXECUTION"
MARKED = f"{MARKER}=test-".encode()


def python(code: str, *arguments: str | None) -> list[str | None]:
    """The command line of a Python agent that starts quickly."""
    return [os.path.realpath(sys.executable), "-I", "-S", "-c", code, *arguments]


def sh(code: str, *arguments: str | None) -> list[str | None]:
    """The command line of a shell agent."""
    return ["/bin/sh", "-c", code, "agent", *arguments]


@dataclass
class Execution:
    """One execution directory and the processes that work on it."""

    image: Path
    path: Path
    sockets: Path
    id: str = field(default_factory=lambda: f"test-{secrets.token_hex(8)}")
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    shims: list[subprocess.Popen[bytes]] = field(default_factory=list)
    wake: socket.socket | None = None

    @property
    def address(self) -> Path:
        """Where its shim listens."""
        return self.sockets / f"{self.id}.sock"

    def prepare(self, argv: list[str | None], prompt: bytes = b"", **changes: Any) -> "Execution":
        """Write what the daemon would write."""
        self.path.mkdir(mode=0o700)
        spec: dict[str, object] = {
            "format": 1,
            "database": "db",
            "task": "t",
            "run": "r1",
            "fence": 7,
            "execution": self.id,
            "argv": argv,
            "cwd": str(self.path.parent),
            "environment": {"PATH": "/usr/bin:/bin", MARKER: self.id},
            "prompt_by": "none",
            "input": False,
            "deadline_s": None,
            "grace_s": 5.0,
            "leftovers": "kill",
            "leftovers_grace_s": 5.0,
            "log_limit_bytes": 64 * 1024 * 1024,
            "socket": str(self.address),
            "wake": None,
            "nofile": None,
        }
        (self.path / "spec.json").write_text(json.dumps(spec | changes))
        (self.path / "prompt").write_bytes(prompt)
        (self.path / "token").write_text(self.token)
        return self

    def start(self, crash: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
        """Start a shim, as the daemon does."""
        with (self.path / "shim.err").open("ab") as errors:
            shim = subprocess.Popen[bytes](
                shim_command(self.image, self.path),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
                cwd="/",
                env={"PATH": os.environ["PATH"], **(crash or {})},
                **options,
            )
        self.shims.append(shim)
        return shim

    def run(self, crash: Mapping[str, str] | None = None) -> int:
        """Start a shim and wait for its end; returns its exit code."""
        return self.start(crash).wait(timeout=30)

    def record(self, name: str) -> Any:
        """A record, or None."""
        try:
            return json.loads((self.path / name).read_bytes())
        except FileNotFoundError:
            return None

    def wait(self, name: str) -> Any:
        """A record, waited for."""
        return wait_until(lambda: self.record(name), within_s=30, what=f"the shim has written {name}")

    def wait_for_output(self, text: str, name: str = "stdout.log") -> str:
        """Wait until the agent has printed something; returns all of it."""
        return wait_until(
            lambda: found if text in (found := self.output(name)) else "",
            within_s=30,
            what=f"the agent printed {text!r}",
        )

    def output(self, name: str = "stdout.log") -> str:
        """What the agent has printed."""
        try:
            return (self.path / name).read_text()
        except FileNotFoundError:
            return ""

    def complaints(self) -> str:
        """What the shim itself has said."""
        return (self.path / "shim.err").read_text()

    def over(self) -> bool:
        """Whether its last shim has ended."""
        return self.shims[-1].poll() is not None

    def connect(self) -> socket.socket:
        """A connection to the shim, once it listens."""
        wait_until(lambda: self.address.exists() or self.over(), within_s=30, what="the shim listens")
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(self.address))
        except OSError:
            connection.close()
            raise
        connection.settimeout(30)
        return connection

    def ask(self, do: str, **more: object) -> dict[str, Any]:
        """Ask the shim for something."""
        with self.connect() as connection:
            return talk(connection, {"token": self.token, "do": do, **more})

    def listen_for_hints(self) -> str:
        """Bind the address that hints go to; returns it."""
        self.wake = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.wake.settimeout(30)
        path = str(self.sockets / "wake.sock")
        self.wake.bind(path)
        return path

    def lock(self) -> LockState:
        """Whether a shim lives."""
        return probe(self.path / "lock")

    def survivors(self) -> list[int]:
        """Every process that carries this execution's marker."""
        return marked(f"{MARKER}={self.id}".encode())

    def close(self) -> None:
        """Leave nothing behind."""
        if self.wake is not None:
            self.wake.close()
        for shim in self.shims:
            if shim.poll() is None:
                shim.kill()
            shim.wait()
        wait_until(self._reap, what="nothing of the execution is left")

    def _reap(self) -> bool:
        found = self.survivors()
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not found


def marked(marker: bytes) -> list[int]:
    """The living processes with this variable in their environment."""
    found: list[int] = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are what is wanted
        if name.isdigit():
            try:
                if marker in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found.append(int(name))
            except OSError:
                continue
    return found


def talk(connection: socket.socket, request: object) -> dict[str, Any]:
    """Send one line and return the answer."""
    connection.sendall(json.dumps(request).encode() + b"\n")
    return answer(connection)


def answer(connection: socket.socket) -> dict[str, Any]:
    """The next answer."""
    received = b""
    while not received.endswith(b"\n"):
        part = connection.recv(1)  # two answers may have come at once, and the second is for the next call
        assert part, f"the shim hung up after {received!r}"
        received += part
    return json.loads(received)


@dataclass
class Bench:
    """Makes executions."""

    image: Path
    root: Path
    sockets: Path
    made: list[Execution] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def execution(self, argv: list[str | None], prompt: bytes = b"", **changes: Any) -> Execution:
        """One that is prepared and not started."""
        execution = Execution(self.image, self.root / f"e{next(self._numbers)}", self.sockets)
        self.made.append(execution)
        if changes.get("wake") is True:
            changes["wake"] = execution.listen_for_hints()
        return execution.prepare(argv, prompt, **changes)

    def started(self, argv: list[str | None], prompt: bytes = b"", **changes: Any) -> Execution:
        """One whose agent has been released."""
        execution = self.execution(argv, prompt, **changes)
        execution.start()
        execution.wait("proc.json")
        return execution

    def close(self) -> None:
        """End them all."""
        for execution in self.made:
            execution.close()
        shutil.rmtree(self.sockets, ignore_errors=True)
