"""Write `docs/cli.md` anew from the commands' own help."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from watchkeeper.cli.reference import reference

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"


def main() -> None:
    """Replace the page."""
    _ = PAGE.write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
