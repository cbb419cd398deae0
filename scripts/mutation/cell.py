"""The namespace in which changed code runs, and one run of tests in it.

A change may turn "signal only this process" into "signal every other process", or "remove this directory" into "remove its parent". So changed code runs as
processes that see no others (a PID namespace), and on file systems that are read-only but for the copied tree and an empty `/tmp`. Process 1 of the namespace
is the engine: the kernel drops signals to it from inside, and it ends every other process after each run.
"""

import contextlib
import gc
import os
import shutil
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

OUTSIDE = "WATCHKEEPER_MUTATION_OUTSIDE"
"""The PID namespace of the caller. The engine refuses to run in it."""
_IMPORTED = (
    "_hypothesis_pytestplugin", "ahocorasick_rs", "anyio._backends._asyncio", "anyio.pytest_plugin", "apsw", "click", "concurrent.futures", "email.message",
    "hypothesis", "inotify_simple", "multiprocessing", "psycopg", "pytest_randomly", "pytest_timeout", "sqlite3", "tempfile", "tomlkit", "unittest.mock",
    "xdist.looponfail", "xdist.plugin", "zipfile",
)  # fmt: skip
"""Modules that are not ours and take long to import: a run of tests is forked from a process that has them."""

_MOUNTS = """
for mounted in $(findmnt --real --raw --noheadings --output TARGET); do
    mount -o remount,bind,ro "$mounted"
done
mount --bind "$0" "$0"
mount -o remount,bind,rw "$0"
exec 3<"$0"
mount -t tmpfs -o mode=1777 tmp /tmp
[ -d "$0" ] || { mkdir -p "$0"; mount --no-canonicalize --bind /proc/self/fd/3 "$0"; }
exec 3<&-
cd "$0"
exec "$@"
"""


def command(cache: Path, inside: list[str]) -> list[str]:
    """The command line that runs another one as process 1 of new namespaces, where only `cache` and `/tmp` can be written to.

    It needs root, or a kernel that gives namespaces to users.
    """
    own = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    new = ["unshare", *own, "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [*new, "sh", "-euc", _MOUNTS, str(cache), *inside]


def namespace() -> str:
    """The PID namespace of this process."""
    return str(Path("/proc/self/ns/pid").readlink())


def enter() -> None:
    """Check that this is process 1 of a namespace of its own, and import what every run needs. Raises RuntimeError elsewhere."""
    if os.getpid() != 1 or os.environ.get(OUTSIDE, namespace()) == namespace():
        raise RuntimeError("Changed code runs only in a PID namespace of its own; start it with `just mutate`.")
    _ = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for name in _IMPORTED:
        _ = import_module(name)
    gc.freeze()


def run_tests(tree: Path, arguments: list[str], plugin: object, limit_s: float, output: Path) -> int | None:
    """Run pytest on the tree in a process forked from this one, and then end every process that is left. Returns pytest's exit code, None after `limit_s`."""
    child = os.fork()
    if child == 0:
        _pytest(tree, arguments, plugin, output)
    code = _wait(child, time.monotonic() + limit_s)
    _end_all()
    for path in Path("/tmp").iterdir():  # noqa: S108 - empty in this namespace when a run begins
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return code


def _pytest(tree: Path, arguments: list[str], plugin: object, output: Path) -> None:
    code = 3
    try:
        _ = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.setsid()
        out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (out, 1), (out, 2)):
            os.dup2(source, target)
        os.closerange(3, 64)
        os.chdir(tree)
        sys.path[:] = [path for path in sys.path if Path(path) != Path(__file__).parents[1]]
        import pytest  # noqa: PLC0415 - imported already; the name is needed in this process only

        options = ["-q", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        warnings = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        code = int(pytest.main([*options, *warnings, *arguments], plugins=[plugin]))
    finally:
        os._exit(code)


def _wait(child: int, until: float) -> int | None:
    while (left := until - time.monotonic()) > 0:
        _ = signal.sigtimedwait({signal.SIGCHLD}, left)
        for pid, status in _dead():
            if pid == child:
                return os.waitstatus_to_exitcode(status)
    return None


def _dead() -> list[tuple[int, int]]:
    """Every process that has ended; orphans of the tests come to process 1."""
    found: list[tuple[int, int]] = []
    with contextlib.suppress(ChildProcessError):
        while (dead := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(dead)
    return found


def _end_all() -> None:
    """End every other process of the namespace. `enter` has checked that it is a namespace of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # noqa: TID251 - process 1 of a namespace ends what changed code has started
    with contextlib.suppress(ChildProcessError):
        while True:
            _ = os.waitpid(-1, 0)
