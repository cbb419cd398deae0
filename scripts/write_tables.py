"""Write the tables of the rules anew into `docs/rules.md`: `just tables`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from watchkeeper.domain.tables import with_tables

PAGE = Path(__file__).parents[1] / "docs" / "rules.md"


def main() -> None:
    """Replace what is between the markers, and leave the rest alone."""
    _ = PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
