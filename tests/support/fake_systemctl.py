"""A stand-in for `systemctl --user`.

It writes down how it was called, keeps enabled units as links, and starts a unit's command as a process that `FAKE_SYSTEMD/pids` names. Where there is a
`FAKE_SYSTEMD/broken` it fails as the real one does without a session bus.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

HOME = Path(os.environ["FAKE_SYSTEMD"])
UNITS = Path(os.environ["HOME"]) / ".config" / "systemd" / "user"
WANTS = UNITS / "default.target.wants"


def main(words: list[str]) -> int:
    with (HOME / "calls").open("a", encoding="utf-8") as log:
        log.write(" ".join(words) + "\n")
    if (HOME / "broken").exists():
        sys.stderr.write("Failed to connect to bus: No medium found\n")
        return 1
    match words:
        case ["--user", "show-environment" | "daemon-reload"]:
            return 0
        case ["--user", "enable", name] if (UNITS / name).is_file():
            WANTS.mkdir(exist_ok=True)
            (WANTS / name).unlink(missing_ok=True)
            (WANTS / name).symlink_to(UNITS / name)
            return 0
        case ["--user", "disable", "--now", name]:
            (WANTS / name).unlink(missing_ok=True)
            return 0
        case ["--user", "start", name] if (UNITS / name).is_file():
            return start((UNITS / name).read_text(encoding="utf-8"))
        case _:
            sys.stderr.write(f"Unit {words[-1]} not found.\n")
            return 5


def start(unit: str) -> int:
    """Start what it says, with what it says, unless it runs."""
    if runs():
        return 0
    lines = dict(line.split("=", 1) for line in unit.splitlines() if line.startswith(("ExecStart", "WorkingDirectory")))
    given = [shlex.split(line.split("=", 1)[1])[0] for line in unit.splitlines() if line.startswith("Environment=")]
    environment = {"HOME": os.environ["HOME"], **dict(pair.split("=", 1) for pair in given)}
    environment |= {name: value for name, value in os.environ.items() if name in {"XDG_RUNTIME_DIR", "PYTHONPATH"}}
    process = subprocess.Popen(
        shlex.split(lines["ExecStart"]),
        cwd=lines["WorkingDirectory"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with (HOME / "pids").open("a", encoding="utf-8") as log:
        log.write(f"{process.pid}\n")
    process.returncode = 0
    return 0


def runs() -> bool:
    """Whether what was started last is alive."""
    try:
        pid = (HOME / "pids").read_text(encoding="utf-8").split()[-1]
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
