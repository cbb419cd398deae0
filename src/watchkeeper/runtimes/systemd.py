"""The daemon as a service of the user's systemd.

Agents must outlive the daemon, so the unit says `KillMode=process`: systemd ends the daemon alone, and the shims, which stay in the service's control group,
work on until the next daemon adopts them. `OOMPolicy=continue` does the same when the kernel kills a hungry agent: neither the daemon nor the other agents are
ended for it.

The first line of the file holds the hash of the rest, so that a changed file is recognised and left alone. Each state directory has a unit of its
own; the usual one is `watchkeeper.service`.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.crash import crashpoint
from watchkeeper.errors import DaemonError
from watchkeeper.ports.unit import UnitState
from watchkeeper.runtimes import atomic

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = "# Made by `wk daemon install`; a hash of the rest: "
LINGER = Path("/var/lib/systemd/linger")
"""Holds a file for each user whose services continue after logout."""

_PASSED_ON = ("PATH", "WATCHKEEPER_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
"""What the daemon needs to find its files and programs; agents have environments of their own."""

_WAIT_S = 30.0
_LARGEST = 1 << 20
_UNIT = """\
[Unit]
Description=Watchkeeper, which runs coding agents in the background
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
ExecStart={command}
{environment}WorkingDirectory=/
UMask=0077
# Agents outlive the daemon: only the daemon itself is ever ended.
KillMode=process
Delegate=yes
OOMPolicy=continue
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
"""


class SystemdUnit:
    """The unit of one state directory's daemon."""

    def __init__(self, state: Path, environ: Mapping[str, str], *, usual: bool) -> None:
        """`usual`: the state directory is where it is when nothing else is said."""
        self._environ = environ
        own = "" if usual else f"-{hashlib.sha256(os.fsencode(state)).hexdigest()[:8]}"
        self._name = f"watchkeeper{own}.service"
        config = environ.get("XDG_CONFIG_HOME", "")
        home = Path(config) if config.startswith("/") else Path(environ.get("HOME") or "~").expanduser() / ".config"
        self._directory = home / "systemd" / "user"

    @property
    def name(self) -> str:
        """What systemd calls it."""
        return self._name

    @property
    def path(self) -> Path:
        """Where its file is."""
        return self._directory / self._name

    def text(self) -> str:
        """What would be written."""
        words = (sys.executable, "-m", "watchkeeper", "daemon", "run")
        given = [(name, self._environ[name]) for name in _PASSED_ON if self._environ.get(name)]
        body = _UNIT.format(
            command=" ".join(_quoted(word, dollar="$$") for word in words),
            environment="".join(f"Environment={_quoted(f'{name}={value}', dollar='$')}\n" for name, value in given),
        )
        return f"{MARK}{_hash(body)}\n{body}"

    def state(self) -> UnitState:
        """What is there. Raises OSError if that cannot be told."""
        try:
            with atomic.directory(self._directory.resolve()) as fd:
                found = atomic.read_limited(fd, self._name, _LARGEST).decode("utf-8", "replace")
        except FileNotFoundError:
            return UnitState.FOREIGN if os.path.lexists(self.path) else UnitState.ABSENT
        if found == self.text():
            return UnitState.SAME
        first, _, body = found.partition("\n")
        if not first.startswith(MARK):
            return UnitState.FOREIGN
        return UnitState.OURS if first.removeprefix(MARK) == _hash(body) else UnitState.CHANGED

    def unreachable(self) -> str:
        """Why systemd cannot be reached; empty if it can."""
        return self._ask("show-environment")

    def install(self) -> None:
        """Write the file and have it started at every login."""
        if self.state() is not UnitState.SAME:
            atomic.make_directory(self._directory)
            with atomic.directory(self._directory.resolve()) as fd:
                atomic.replace(fd, self._name, self.text().encode("utf-8", "surrogateescape"), point="unit")
        self._must("daemon-reload")
        self._must("enable", self._name)

    def start(self) -> None:
        """Start it."""
        self._must("start", self._name)

    def remove(self) -> str:
        """End the service, not its agents, and delete the file."""
        problem = self._ask("disable", "--now", self._name)
        wanted = self._directory / "default.target.wants" / self._name
        crashpoint("unit.remove.before")
        for path in (wanted, self.path):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        crashpoint("unit.remove.after")
        return problem or self._ask("daemon-reload")

    def lingers(self) -> bool:
        """Whether the user's services continue after the last logout."""
        try:
            return (LINGER / getpass.getuser()).exists()
        except (KeyError, OSError):
            return False

    def _must(self, *words: str) -> None:
        problem = self._ask(*words)
        if problem:
            raise DaemonError(
                f"`systemctl --user {' '.join(words)}` did not work: {problem.removesuffix('.')}.",
                hint=f"`systemctl --user status {self._name}` tells more; `wk daemon install` may be typed again.",
            )

    def _ask(self, *words: str) -> str:
        """Run systemctl; what it complained of, or nothing if it did as told."""
        try:
            crashpoint("unit.systemctl.before")
            done = subprocess.run(
                ["systemctl", "--user", *words],
                env=dict(self._environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=_WAIT_S,
            )
            crashpoint("unit.systemctl.after")
        except FileNotFoundError:
            return "there is no systemctl"
        except subprocess.TimeoutExpired:
            return f"systemctl said nothing for {_WAIT_S:g} s"
        except OSError as error:
            return f"systemctl cannot be run ({error.strerror})"
        if done.returncode == 0:
            return ""
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return said[0] if said else f"systemctl ended with {done.returncode}"


def _hash(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogateescape")).hexdigest()


def _quoted(word: str, *, dollar: str) -> str:
    """As systemd wants it: in quotes, with `%` doubled, and `$` too where it would be a variable."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("%", "%%"), ("$", dollar)):
        word = word.replace(plain, escaped)
    return f'"{word}"'
