"""The real Claude Code program for tests, in one named version, fetched once per machine.

No sign-in is needed or looked for: tests point the program at a stub model with a made-up key.
"""

import sys
from pathlib import Path

from watchkeeper_testing.npm_program import NpmProgram

VERSION = "2.1.332"
"""The version that the recorded transcripts are of."""

CLAUDE_CODE = NpmProgram(
    title="Claude Code",
    version=VERSION,
    package="@anthropic-ai/claude-code",
    native="@anthropic-ai/claude-code-*/claude",
    wheel="claude-agent-sdk==0.2.189",  # the release of the SDK that carries this version
    member="_bundled/claude",
)


def claude_program(cache: Path | None = None) -> Path:
    """The path of the program, as `NpmProgram.fetched`."""
    return CLAUDE_CODE.fetched(cache)


if __name__ == "__main__":
    sys.stdout.write(f"{claude_program()}\n")
