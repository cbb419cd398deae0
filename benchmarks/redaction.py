"""What hiding secrets costs: to prepare for long secrets, and to look through text.

    python benchmarks/redaction.py [--megabytes 64]

Prints seconds of the processor.
"""

import argparse
import base64
import json
import random
import time
from collections.abc import Callable

from watchkeeper.redaction.engine import Redactor
from watchkeeper.redaction.variables import secrets_of

_BLOCK = 256 * 1024
_LINE = json.dumps({"type": "text", "text": 'He said "fine":\n https://example.org/a?b=%20 src/main.py costs 50%.'})


def of_lines(size: int, seed: int) -> str:
    """A secret of many lines, such as a bundle of keys."""
    drawn = random.Random(seed)  # noqa: S311 - no secret
    whole = base64.b64encode(drawn.randbytes(size * 3 // 4)).decode()
    return "\n".join(whole[at : at + 64] for at in range(0, len(whole), 64))[:size]


def taken(work: Callable[[], object]) -> float:
    """Seconds of the processor."""
    began = time.process_time()
    _ = work()
    return time.process_time() - began


def prepared(environment: dict[str, str]) -> None:
    """Prepare, and hide what is secret in one line."""
    shown = Redactor(secrets_of(environment)).data(_LINE.encode())
    if shown != _LINE.encode():
        raise RuntimeError("a line without secrets was changed")


def streamed(megabytes: int) -> None:
    """Look through so much output for twenty secrets."""
    drawn = random.Random(1)  # noqa: S311 - as above
    environment = {f"TOKEN_{number}": drawn.randbytes(20).hex() for number in range(20)}
    stream, data = Redactor(secrets_of(environment)).stream(), (_LINE + "\n").encode() * (_BLOCK // len(_LINE))
    for _ in range(megabytes * 1_000_000 // len(data)):
        _ = stream.feed(data)
    _ = stream.finish()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("--megabytes", type=int, default=64)
    megabytes: int = parser.parse_args().megabytes
    print(f"  {taken(lambda: prepared({'A_TOKEN': 'a1B2c3D4e5F6g7H8'})):8.3f} s  one short secret")
    for size, count in ((8_000, 1), (64_000, 1), (120_000, 4)):
        environment = {f"KEYS_{number}_SECRET": of_lines(size, number) for number in range(count)}
        took = taken(lambda environment=environment: prepared(environment))
        print(f"  {took:8.3f} s  {count} secret(s) of {size // 1000} KB in lines")
    print(f"  {taken(lambda: streamed(megabytes)):8.3f} s  {megabytes} MB of output, twenty secrets")
    print(f"  {taken(lambda: Redactor().data(b'eyJ' * 3_333_333)):8.3f} s  10 MB of beginnings of JWTs")


if __name__ == "__main__":
    main()
