"""What showing the output of a command costs: secrets hidden, lines read, control characters replaced.

    python benchmarks/logs.py [--megabytes 4]

Prints megabytes for each second of the processor.
"""

import argparse
import io
import random
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from watchkeeper.cli.output import Begins
from watchkeeper.cli.printers import Printer, RawPrinter, pretty
from watchkeeper.cli.render import Terminal
from watchkeeper.harnesses.command import CommandReader
from watchkeeper.redaction.engine import Redactor
from watchkeeper.redaction.variables import secrets_of

if TYPE_CHECKING:
    from watchkeeper.domain.model import Run

_BLOCK = 256 * 1024


def output(kind: str) -> bytes:
    """One block of output."""
    drawn = random.Random(1)  # noqa: S311 - no secret
    if kind == "binary":
        return drawn.randbytes(_BLOCK)
    line = b"the quick brown fox jumps over the lazy dog and looks back\n"
    return (line * (_BLOCK // len(line) + 1))[:_BLOCK]


def shown(data: bytes, megabytes: int, *, raw: bool) -> float:
    """Show so much output and return the seconds of the processor that it took."""
    redactor = Redactor(secrets_of({f"TOKEN_{number}": f"a1B2c3D4e5F6g7H8{number}" for number in range(20)}))
    stream, terminal = redactor.stream(), Terminal({}, io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO())
    printer = RawPrinter(lambda _: None) if raw else Printer(pretty(terminal), CommandReader)
    printer.take(Begins(run=cast("Run", SimpleNamespace(number=1)), hide=redactor.text))
    began = time.process_time()
    for _ in range(megabytes * 1_000_000 // len(data)):
        printer.take(stream.feed(data))
    return time.process_time() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("--megabytes", type=int, default=4)
    megabytes: int = parser.parse_args().megabytes
    for kind in ("text", "binary"):
        for raw in (True, False):
            took = shown(output(kind), megabytes, raw=raw)
            print(f"  {megabytes / took:7.1f} MB/s  {kind}{' with --raw' if raw else ''}")


if __name__ == "__main__":
    main()
