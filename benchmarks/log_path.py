"""What the way from an agent to its log costs: the shim's memory, the processor time of a gigabyte of output, and how late a line is in the log.

    python benchmarks/log_path.py [--mebibytes 1024] [--lines 300] [--against CHECKOUT] [--directory DIR]

With `--against`, the shim of another checkout of this repository is measured beside this one, in turns.
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

from shim import prepare, pss_kib, start

WRITER = """
import os, sys
size, total = int(sys.argv[1]), int(sys.argv[2])
block = b"x" * (size - 1) + b"\\n"
for _ in range(total // size):
    os.write(1, block)
"""
CLOCK = """
import os, sys, time
for _ in range(int(sys.argv[1])):
    time.sleep(0.01)
    os.write(1, b"%d\\n" % time.monotonic_ns())
"""
INSTALL = "import sys; from pathlib import Path; from watchkeeper.runtimes.shim_image import install_shim; print(install_shim(Path(sys.argv[1])))"


def image_of(checkout: Path, root: Path) -> Path:
    """Install the shim of a checkout."""
    made = subprocess.run(
        [sys.executable, "-c", INSTALL, root],
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        check=True,
        capture_output=True,
        text=True,
    )
    return Path(made.stdout.strip())


def python(code: str, *arguments: int) -> list[str]:
    """An agent."""
    return [os.path.realpath(sys.executable), "-I", "-S", "-c", code, *map(str, arguments)]


def output(image: Path, directory: Path) -> tuple[float, float, float]:
    """Seconds of a whole life, and processor seconds of shim and agent together, and of the agent alone."""
    began = time.perf_counter()
    shim = start(image, directory)
    _, _, used = os.wait4(shim.pid, 0)
    took = time.perf_counter() - began
    exit_ = json.loads((directory / "exit.json").read_bytes())
    shim.returncode = 0
    return took, used.ru_utime + used.ru_stime, exit_["user_s"] + exit_["system_s"]


def latency_s(image: Path, directory: Path, lines: int) -> list[float]:
    """How long after it was written each line was in the log."""
    shim = start(image, directory)
    log, found, late = directory / "stdout.log", b"", list[float]()
    while not log.exists():
        time.sleep(0.001)
    with log.open("rb", buffering=0) as file:
        while len(late) < lines:
            data = file.read(65536)
            if not data:
                os.sched_yield()
                continue
            now = time.monotonic_ns()
            *whole, found = (found + data).split(b"\n")
            late += [(now - int(line)) / 1e9 for line in whole]
    shim.wait()
    return late


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("--mebibytes", type=int, default=1024)
    _ = parser.add_argument("--lines", type=int, default=300)
    _ = parser.add_argument("--against", type=Path, default=None)
    _ = parser.add_argument("--directory", type=Path, default=None)
    arguments = parser.parse_args()
    here = Path(__file__).resolve().parent.parent
    checkouts = {"this": here} | ({"other": arguments.against} if arguments.against else {})
    with tempfile.TemporaryDirectory(dir=arguments.directory) as where:
        root = Path(where)
        images: dict[str, Path] = {}
        for name, checkout in checkouts.items():
            (root / name).mkdir()
            images[name] = image_of(checkout, root / name)
        for size, total in ((65536, arguments.mebibytes << 20), (100, (arguments.mebibytes << 20) // 10)):
            for name, image in images.items():
                directory = prepare(root, f"{name}-{size}", python(WRITER, size, total))
                took, whole, agent = output(image, directory)
                print(
                    f"{name:<6} {total >> 20:5} MiB in writes of {size:5}: {took:6.2f} s, agent {agent:5.2f} s of processor, shim {whole - agent:5.2f} s"
                )
        for name, image in images.items():
            late = sorted(
                latency_s(image, prepare(root, f"{name}-late", python(CLOCK, arguments.lines)), arguments.lines)
            )
            p50, p99 = statistics.median(late) * 1e6, late[-1 - len(late) // 100] * 1e6
            print(f"{name:<6} a line is in the log after {p50:5.0f} µs (median), {p99:.0f} µs (p99)")
        for name, image in images.items():
            shim = start(image, directory := prepare(root, f"{name}-idle", ["/bin/sleep", "60"]))
            while not (directory / "proc.json").exists():
                time.sleep(0.001)
            time.sleep(0.1)
            print(f"{name:<6} memory of an idle shim {pss_kib(shim.pid) / 1024:5.2f} MiB (PSS)")
            shim.terminate()
            shim.wait()


if __name__ == "__main__":
    main()
