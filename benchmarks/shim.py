"""What a shim costs: how long from starting it to its agent's first instruction, and how much memory it takes while the agent works.

    python benchmarks/shim.py [--rounds 200] [--directory DIR]

The launch has four durable records in it (the decision and the agent's record, each with a file and a directory to sync), so the time of one such record is
printed beside it, and so is that of a bare `sh`, which is the agent here, started without a shim.
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

from watchkeeper.runtimes import atomic
from watchkeeper.runtimes.shim_image import install_shim, shim_command

_WARM_UP = 5


def prepare(root: Path, name: str, fifo: Path, then: str) -> Path:
    """An execution directory whose agent opens the FIFO as the first thing it does."""
    path = root / name
    path.mkdir()
    spec = {
        "format": 1,
        "database": "db",
        "task": "t",
        "run": "t.1",
        "fence": 1,
        "execution": name,
        "argv": ["/bin/sh", "-c", f'>"$1"; {then}', "sh", str(fifo)],
        "cwd": "/",
        "environment": {"PATH": "/usr/bin:/bin"},
        "prompt_by": "none",
        "input": False,
        "deadline_s": None,
        "grace_s": 10.0,
        "leftovers": "kill",
        "leftovers_grace_s": 5.0,
        "log_limit_bytes": 64 * 1024 * 1024,
        "socket": str(root / f"{name}.sock"),
        "wake": None,
        "nofile": None,
    }
    (path / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    (path / "prompt").write_bytes(b"")
    (path / "token").write_text("0" * 32, encoding="ascii")
    return path


def start(command: list[str], fifo: Path) -> tuple[subprocess.Popen[bytes], float]:
    """Start a program; returns it, and the seconds until somebody opened the FIFO."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd="/", env={"PATH": "/usr/bin:/bin"})
    os.close(os.open(fifo, os.O_RDONLY))  # waits for the other end
    return process, time.perf_counter() - began


def record_s(root: Path) -> float:
    """The median of one durable record."""
    times: list[float] = []
    with atomic.directory(root) as fd:
        for number in range(100):
            began = time.perf_counter()
            atomic.replace(fd, "record", b"x" * 200 + str(number).encode(), point="benchmark")
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def memory_kib(pid: int) -> dict[str, int]:
    """The proportional and the private memory of a process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    found = {line.partition(":")[0]: int(line.split()[1]) for line in lines[1:]}
    return {"pss": found["Pss"], "private": found["Private_Clean"] + found["Private_Dirty"], "rss": found["Rss"]}


def percentile(times: list[float], share: float) -> float:
    """In milliseconds."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


def report(name: str, times: list[float]) -> None:
    """One line."""
    print(f"{name:34}p50 {percentile(times, 0.5):7.2f} ms   p99 {percentile(times, 0.99):7.2f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("--rounds", type=int, default=200)
    _ = parser.add_argument("--directory", type=Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="wkb-") as where:
        root = Path(where)
        fifo = root / "fifo"
        os.mkfifo(fifo)
        image = install_shim(root / "shims")
        print(f"one durable record                {record_s(root) * 1000:11.2f} ms (median)")

        bare: list[float] = []
        python: list[float] = []
        shims: list[float] = []
        for number in range(arguments.rounds + _WARM_UP):
            process, took = start(["/bin/sh", "-c", f'>"{fifo}"'], fifo)
            _ = process.wait()
            bare.append(took)
            began = time.perf_counter()
            _ = subprocess.run([os.path.realpath(sys.executable), "-I", "-S", "-c", ""], check=True)
            python.append(time.perf_counter() - began)
            process, took = start(shim_command(image, prepare(root, f"e{number}", fifo, ":")), fifo)
            if process.wait() != 0:
                sys.exit("the shim failed")
            shims.append(took)
        report("sh, bare, to its first", bare[_WARM_UP:])
        report("an empty python -I -S, to its end", python[_WARM_UP:])
        report("shim, to its agent's first", shims[_WARM_UP:])

        several = [
            start(shim_command(image, prepare(root, f"m{number}", fifo, "exec sleep 600")), fifo)[0]
            for number in range(3)
        ]
        execution = prepare(root, "memory", fifo, "exec sleep 600")
        shim, _ = start(shim_command(image, execution), fifo)
        used = memory_kib(shim.pid)
        print(
            f"memory while the agent works      pss {used['pss']} KiB, private {used['private']} KiB, rss {used['rss']} KiB"
        )
        for process in (*several, shim):
            process.terminate()
            _ = process.wait()


if __name__ == "__main__":
    main()
