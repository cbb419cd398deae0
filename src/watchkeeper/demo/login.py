"""The demo agent's login: pretends to take a key, and keeps nothing of it.

Run by path with `python -I -S`, like the agent itself: the standard library only.
"""

import os
import sys
from pathlib import Path


def main() -> int:
    """Read a line; any word signs in."""
    home = Path(os.environ.get("DEMO_HOME") or Path.home() / ".demo")
    sys.stderr.write("This is a pretended login: type any word for a key.\n")
    if not sys.stdin.readline().strip():
        sys.stderr.write("Nothing was typed, so the sign-in failed.\n")
        return 1
    (home / "signed-in").touch()
    sys.stderr.write("Signed in.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
