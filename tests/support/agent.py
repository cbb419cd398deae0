"""The agent of the crash tests: it notes that it began, prints what is always the same, and does what its arguments say.

    agent.py STARTS [lines N] [steps N FILE] [wait FILE] [stubborn] [fail-first CODE] [exit CODE]

`steps N FILE`: prints N lines, but never more than the number that FILE holds.
`stubborn`: ignores TERM and leaves grandchildren in sessions of their own that ignore it too. `fail-first CODE`: the first run ends with CODE.
"""

import os
import signal
import sys
import time
from pathlib import Path

_STUBBORN_CHILD = (
    "import os, signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    "os.fork() and os._exit(0)\n"
    "os.setsid()\n"
    "os.fork() and os._exit(0)\n"
    "time.sleep(300)\n"
)


def steps(number: int, file: Path) -> None:
    """Print lines as far as the file allows, until all are printed."""
    line = 0
    while line < number:
        allowed = int(file.read_text(encoding="utf-8") or 0) if file.exists() else 0
        for each in range(line, min(number, allowed)):
            print(f"line {each}: the quick brown fox jumps over the lazy dog")
        line = max(line, min(number, allowed))
        sys.stdout.flush()
        time.sleep(0.002)


def be_stubborn() -> None:
    """Ignore TERM, and leave two grandchildren that do."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(2):
        # `subprocess` takes longer to import than all that the agent does.
        child = os.posix_spawn(sys.executable, [sys.executable, "-I", "-S", "-c", _STUBBORN_CHILD], os.environ)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit("a grandchild did not start")


def main() -> None:
    """Do it."""
    starts, *words = sys.argv[1:]
    with Path(starts).open("a", encoding="utf-8") as out:
        out.write(os.environ["WATCHKEEPER_RUN"] + "\n")
    code = 0
    while words:
        match words:
            case ["lines", number, *words]:
                for line in range(int(number)):
                    print(f"line {line}: the quick brown fox jumps over the lazy dog", flush=line % 100 == 0)
            case ["steps", number, file, *words]:
                steps(int(number), Path(file))
            case ["wait", file, *words]:
                print("waiting", flush=True)
                while not Path(file).exists():
                    time.sleep(0.005)
                print("released", flush=True)
            case ["stubborn", *words]:
                be_stubborn()
            case ["fail-first", number, *words]:
                if os.environ["WATCHKEEPER_RUN"].endswith(".1"):
                    code, words = int(number), []
            case ["exit", number, *words]:
                code = int(number)
            case _:
                sys.exit(f"unknown: {words}")
    sys.stdout.flush()
    sys.exit(code)


if __name__ == "__main__":
    main()
