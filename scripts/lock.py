"""Write requirements/run.txt, dev.txt and mutation.txt from pyproject.toml: every version, for every platform, with hashes.

`--check` writes nothing and fails if a version in pyproject.toml is not what the files hold. Other arguments go to `uv pip compile`.
The files name no index: which one is asked is up to how pip is set up on a machine.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "requirements"


def compile_lock(group: str, output: Path, *arguments: str) -> None:
    """Resolve the dependencies of the package and of one group into `output`. What it held already is preferred."""
    command = ["uv", "pip", "compile", "pyproject.toml", "--extra", "postgres", "--group", group]
    command += ["--output-file", str(output)]
    options = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header", "--quiet"]
    subprocess.run([*command, *options, *arguments], cwd=ROOT, check=True)


def compile_locks(directory: Path, *arguments: str) -> None:
    """Write the files. The others take their versions from `dev.txt`, so that one environment can hold all."""
    compile_lock("dev", directory / "dev.txt", *arguments)
    same = ("--constraint", str(directory / "dev.txt"), "--no-annotate")
    compile_lock("build", directory / "run.txt", *same)
    compile_lock("mutation", directory / "mutation.txt", *same)


def main(arguments: list[str]) -> int:
    """Write or check; the exit code is 1 if a check failed."""
    if arguments != ["--check"]:
        LOCKS.mkdir(exist_ok=True)
        compile_locks(LOCKS, *arguments)
        return 0
    with tempfile.TemporaryDirectory() as name:
        fresh = Path(name)
        for lock in LOCKS.glob("*.txt"):
            (fresh / lock.name).write_bytes(lock.read_bytes())
        compile_locks(fresh)
        stale = [lock.name for lock in LOCKS.glob("*.txt") if lock.read_bytes() != (fresh / lock.name).read_bytes()]
    if stale:
        print(f"requirements/{', '.join(stale)} does not fit pyproject.toml; type `just lock`.")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
