"""`python -m watchkeeper_testing.stub_model`: serve until told to stop, until the parent is gone, or for --max-life seconds.

The first line of output is a JSON object with `url` and `pid`.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from watchkeeper_testing.stub_model.server import StubModel


def main(argv: list[str] | None = None) -> int:
    """Run the stub; returns the exit code."""
    parser = argparse.ArgumentParser(prog="stub_model", description="A stand-in for a hosted model, on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--scenarios", type=Path, help="JSON file: scenario name to scenario")
    parser.add_argument("--max-life", type=float, default=3600.0, metavar="SECONDS")
    options = parser.parse_args(argv)
    scenarios = json.loads(options.scenarios.read_text(encoding="utf-8")) if options.scenarios else {}
    parent = os.getppid()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    end = time.monotonic() + options.max_life
    with StubModel(scenarios, port=options.port) as stub:
        sys.stdout.write(json.dumps({"url": stub.base_url, "pid": os.getpid()}) + "\n")
        sys.stdout.flush()
        while not stop.wait(0.2) and time.monotonic() < end and os.getppid() == parent:
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
