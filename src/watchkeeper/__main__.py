"""`wk` and `python -m watchkeeper`."""

import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from watchkeeper.cli.main import main as run

        code = run(sys.argv[1:], os.environ)
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
