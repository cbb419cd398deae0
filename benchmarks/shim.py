"""How long a shim takes from its start to its agent's, how long for a whole life around an agent that does nothing, and how much memory it keeps.

    python benchmarks/shim.py [--runs 100] [--at-once 20] [--directory DIR]

Every record is synced, so times depend on the disk: the time of a bare write and fsync is printed beside them, and how many of them a life takes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from watchkeeper.runtimes.shim_image import install_shim, shim_command

POLL_S = 0.001


def prepare(root: Path, name: str, argv: list[str]) -> Path:
    """An execution directory, and where its socket will be."""
    directory = root / name
    directory.mkdir()
    spec = {
        "format": 1,
        "database": "d",
        "task": "t",
        "run": "r",
        "fence": 1,
        "execution": name,
        "argv": argv,
        "cwd": "/",
        "environment": {"PATH": "/usr/bin:/bin"},
        "prompt_by": "none",
        "input": False,
        "deadline_s": None,
        "grace_s": 1,
        "leftovers": "kill",
        "leftovers_grace_s": 1,
        "log_limit_bytes": 1 << 26,
        "socket": str(root / f"{name}.sock"),
        "wake": None,
        "nofile": None,
    }
    (directory / "spec.json").write_text(json.dumps(spec))
    (directory / "token").write_text("0" * 32)
    (directory / "prompt").write_text("")
    return directory


def start(image: Path, directory: Path, crash_log: Path | None = None) -> "subprocess.Popen[bytes]":
    """Start a shim as the daemon does."""
    environment = {"PATH": os.environ["PATH"]} | ({"WATCHKEEPER_CRASH_LOG": str(crash_log)} if crash_log else {})
    return subprocess.Popen(
        shim_command(image, directory), stdin=subprocess.DEVNULL, start_new_session=True, env=environment, cwd="/"
    )


def pss_kib(pid: int) -> int:
    """The memory that a process has, shared pages counted in proportion."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def sync_s(root: Path) -> float:
    """The median of a small write with fsync."""
    times: list[float] = []
    for _ in range(50):
        began = time.perf_counter()
        with (root / "sync").open("wb") as file:
            file.write(b"x" * 300)
            file.flush()
            os.fsync(file.fileno())
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def lives(image: Path, root: Path, runs: int) -> tuple[list[float], list[float]]:
    """Times from the start to the first that the agent does, and to the end of the shim."""
    fifo = root / "fifo"
    os.mkfifo(fifo)
    first: list[float] = []
    whole: list[float] = []
    for number in range(runs):
        directory = prepare(root, f"life{number}", ["/bin/sh", "-c", f": >{fifo}"])
        began = time.perf_counter()
        shim = start(image, directory)
        os.close(os.open(fifo, os.O_RDONLY))  # waits for the agent
        first.append(time.perf_counter() - began)
        shim.wait()
        whole.append(time.perf_counter() - began)
    return first, whole


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("--runs", type=int, default=100)
    _ = parser.add_argument("--at-once", type=int, default=20)
    _ = parser.add_argument("--directory", type=Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as where:
        root = Path(where)
        image = install_shim(root)
        bare = [sys.executable, "-I", "-S", "-c", "pass"]
        python: list[float] = []
        for _ in range(arguments.runs):
            began = time.perf_counter()
            subprocess.run(bare, check=True)
            python.append(time.perf_counter() - began)
        first, whole = lives(image, root, arguments.runs)
        log = root / "points"
        start(image, prepare(root, "counted", ["/bin/true"]), log).wait()
        syncs = sum(point.endswith(("write.before", "sync.after")) for point in log.read_text().split())
        print(f"write and fsync              {sync_s(root) * 1e3:6.1f} ms (median); a life has {syncs} of them")
        for what, times in (
            ("python -I -S -c pass", python),
            ("start to agent", first),
            ("life around an idle agent", whole),
        ):
            late = sorted(times)[-1 - len(times) // 100]
            print(
                f"{what:<28} {min(times) * 1e3:6.1f} ms best, {statistics.median(times) * 1e3:.1f} p50, {late * 1e3:.1f} p99"
            )
        waiting = [start(image, prepare(root, f"w{n}", ["/bin/sleep", "60"])) for n in range(arguments.at_once)]
        while not all((root / f"w{n}" / "proc.json").exists() for n in range(arguments.at_once)):
            time.sleep(POLL_S)
        memory = [pss_kib(shim.pid) for shim in waiting]
        print(f"memory, {len(memory)} at once          {statistics.median(memory) / 1024:6.1f} MiB each (PSS)")
        for shim in waiting[1:]:
            shim.terminate()
            shim.wait()
        print(f"memory, alone                {pss_kib(waiting[0].pid) / 1024:6.1f} MiB (PSS)")
        waiting[0].terminate()
        waiting[0].wait()


if __name__ == "__main__":
    main()
