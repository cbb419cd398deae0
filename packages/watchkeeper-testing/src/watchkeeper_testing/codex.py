"""The real Codex program for tests, in one named version, fetched once per machine.

It is the native program, without the wrapper for node that starts it elsewhere; what it needs beside it, its own sandbox above all, is kept with it.
No sign-in is needed or looked for: tests point the program at a stub model with a made-up key.
"""

import sys
from pathlib import Path

from watchkeeper_testing.npm_program import NpmProgram

VERSION = "0.171.0"
"""The version that the recorded transcripts are of."""

CODEX = NpmProgram(
    title="Codex",
    version=VERSION,
    package="@openai/codex",
    native="@openai/codex-*/vendor/*/bin/codex",
    whole=2,
)


def codex_program(cache: Path | None = None) -> Path:
    """The path of the program, as `NpmProgram.fetched`."""
    return CODEX.fetched(cache)


if __name__ == "__main__":
    sys.stdout.write(f"{codex_program()}\n")
