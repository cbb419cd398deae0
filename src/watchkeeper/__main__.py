"""`wk` and `python -m watchkeeper`."""

import gc
import os
import sys


def main() -> None:
    """Run the command line and exit with its code.

    What modules make while they are imported stays until the end: looking for garbage among it, then and when the process ends, would find nothing and take
    a seventh of the time of a quick command.
    """
    gc.disable()
    try:
        from watchkeeper.cli.main import main as run

        gc.freeze()
        gc.enable()
        code = run(sys.argv[1:], os.environ)
    except KeyboardInterrupt:
        code = 130
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
