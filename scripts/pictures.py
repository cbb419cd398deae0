"""Draw what the commands print in a terminal of 80 columns: `just pictures` writes docs/pictures.

The real program runs on a scenario of the demo agent, in a home of its own. What differs from one call to the next has a fixed value in the picture: ids,
pids, times, lengths of time, memory and the name of the home. A second call so writes the same bytes. The bars of the timeline follow the times, so its spans
are fixed in `TIMELINE`, and the real command draws them.
"""

import fcntl
import html
import io
import os
import pty
import re
import secrets
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
COLUMNS = 80
_PATIENCE_S, _POLL_S = 60.0, 0.2
HOME = "/home/ada"
IDS = ("k3f9m2qx", "5k6mpzr7", "w4xq2mne", "7f3atbc9", "qg5wtrep")
"""Of the tasks of the scenario, in the order of handing over."""
EXECUTIONS = tuple(f"{name}{name[::-1]}" for name in IDS)

FIX = r"""usage 12000 800 0.12
say The total keeps only the last price.
run sed -i 's/result = price/result += price/' cart.py
write test_cart.py from cart import total\n\n\ndef test_total() -> None:\n    assert total([1, 2]) == 3
commit Add up all prices
say Fixed: the total adds up every price."""
CART = "def total(prices):\n    result = 0\n    for price in prices:\n        result = price\n    return result\n"

PICTURED = {
    "ls": ("ls",),
    "report": ("report",),
    "show": ("show", "{0}"),
    "explain": ("explain", "{0}"),
    "diff": ("diff", "{0}"),
    "why": ("why", "{4}"),
}
"""Each picture, with the command that it shows; `{0}` is the first task."""

TIMELINE = r"""
import os, sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from watchkeeper.app.views import timeline as views
from watchkeeper.domain.timeline import OnStep, Span
from watchkeeper.cli.main import main
real, start = views.timeline, datetime(2026, 11, 30, 9, tzinfo=timezone.utc)
# For each task: minutes of waiting from, starting from, working from, until, and whether it needs a person from then on.
MINUTES = ((0, 1, 2, 26, False), (5, 26, 27, 38, True), (9, 38, 39, 47, False), (12, 47, 48, 60, False), (20, 60, 60, 60, False))
def at(minute):
    return start + timedelta(minutes=minute)
def fixed(*arguments):
    found, rows = real(*arguments), []
    for row, (waits, starts, works, ends, asks) in zip(found.rows, MINUTES, strict=True):
        spans = [("WAITING", waits, starts), ("STARTING", starts, works), ("WORKING", works, ends), ("NEEDS_YOU", ends, 60 if asks else ends)]
        rows.append(replace(row, spans=tuple(
            Span(on_step=OnStep[name], start=at(a), end=at(b), why="") for name, a, b in spans if a < b)))
    return replace(found, start=start, end=at(60), rows=tuple(rows))
views.timeline = fixed
sys.exit(main(["timeline"], os.environ))
"""


def main() -> None:
    """Write every picture."""
    PICTURES.mkdir(exist_ok=True)
    for name, shown in pictures().items():
        _ = (PICTURES / f"{name}.svg").write_text(svg(name, shown), encoding="utf-8")


def pictures() -> dict[str, str]:
    """What each pictured command prints, with its colours, after `fixed`. Raises CalledProcessError where the scenario fails."""
    with _home() as (home, environ):
        ids = _scenario(home, environ)
        shown = {
            name: fixed(
                _printed(["-m", "watchkeeper", *(each.format(*ids) for each in command)], home, environ), home, ids
            )
            for name, command in PICTURED.items()
        }
        shown["timeline"] = fixed(_printed(["-c", TIMELINE], home, environ), home, ids, times=False)
    return {name: f"$ wk {' '.join(PICTURED.get(name, (name,))).format(*IDS)}\n{text}" for name, text in shown.items()}


def svg(name: str, shown: str) -> str:
    """The picture of a text with colours."""
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), color_system="standard", force_terminal=True)
    console.print(Text.from_ansi(shown), soft_wrap=True)
    picture = console.export_svg(title=f"wk {name}", unique_id=f"wk-{name}")
    # The library names a font of another host; a page that shows the picture would ask that host for it.
    picture = re.sub(r"@font-face \{.*?\}\n?", "", picture, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    return "\n".join(line.rstrip() for line in picture.splitlines()) + "\n"


def text_of(picture: str) -> list[str]:
    """The lines of a picture, without blanks: how these are written is a matter of the library that draws."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for element in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"):  # noqa: S314 - our own pictures
        if "clip-path" in element.attrib:
            place = lines.setdefault(float(element.attrib["y"]), [])
            place.append((float(element.attrib["x"]), html.unescape(element.text or "")))
    joined = ("".join(text for _, text in sorted(line)) for _, line in sorted(lines.items()))
    return [bare for line in joined if (bare := "".join(line.split()))]


def plain(shown: str) -> list[str]:
    """The lines of a text with colours, as `text_of` has those of its picture."""
    return [bare for line in Text.from_ansi(shown).plain.splitlines() if (bare := "".join(line.split()))]


@contextmanager
def _home() -> Generator[tuple[Path, dict[str, str]]]:
    """A home whose name is as long as `HOME`, so that lines are broken at the same words, and an environment for it."""
    home = Path(f"/tmp/{secrets.token_hex(2)}")  # noqa: S108 - a short name; only its owner can enter it
    home.mkdir(mode=0o700)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "TZ": "UTC",
        "USER": "ada",
        "XDG_RUNTIME_DIR": str(home),
        "GIT_PAGER": "cat",
        "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    _ = (home / "gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.org\n", encoding="utf-8")
    try:
        yield home, environ
    finally:
        for each in ("kill", "--all", "--yes"), ("daemon", "stop"):
            _ = _wk(home, environ, *each, check=False)
        shutil.rmtree(home)


def _scenario(home: Path, environ: dict[str, str]) -> list[str]:
    """Five tasks in a repository, each in another state; their ids, in the order of handing over."""
    shop = home / "shop"
    shop.mkdir()
    _ = (shop / "cart.py").write_text(CART, encoding="utf-8")
    for words in ("init", "-qb", "main"), ("add", "."), ("commit", "-qm", "Begin"):
        _ = subprocess.run(["git", *words], cwd=shop, env=environ, check=True)
    demo = ("run", "--harness", "demo")

    def hand_over(*words: str, ends: bool = True) -> str:
        task_id = _wk(shop, environ, *words).split()[0]
        if ends:
            _ = _wk(shop, environ, "wait", task_id, check=False)
        return task_id

    ids = [
        hand_over(*demo, "--worktree", "--title", "Add up all prices", FIX),
        hand_over(*demo, "--title", "Explain the cart", "say The cart is a list of prices. Shall I write that down?"),
        hand_over(*demo, "--title", "Upgrade the linter", "fail bad_request The linter needs Node 22."),
        hand_over(*demo, "--worktree", "--title", "Write the release notes", "wait-for /nowhere", ends=False),
    ]
    publish = ("add", "--harness", "demo", "--title", "Publish", "--after", ids[-1], "say Published.")
    ids.append(hand_over(*publish, ends=False))
    deadline = time.monotonic() + _PATIENCE_S
    while f"{ids[3]}  running" not in _wk(shop, environ, "ls"):
        if time.monotonic() > deadline:
            msg = f"{ids[3]} does not run after {_PATIENCE_S} seconds"
            raise TimeoutError(msg)
        time.sleep(_POLL_S)
    return ids


def _wk(directory: Path, environ: dict[str, str], *words: str, check: bool = True) -> str:
    """Run a command; what it prints. Raises CalledProcessError."""
    command = [sys.executable, "-m", "watchkeeper", *words]
    done = subprocess.run(
        command, cwd=directory, env=environ, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    if check and done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout)
    return done.stdout


def _printed(command: list[str], home: Path, environ: dict[str, str]) -> str:
    """What Python prints in a terminal of `COLUMNS`. Raises CalledProcessError."""
    ours, theirs = pty.openpty()
    _ = fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))
    with subprocess.Popen(
        [sys.executable, *command], cwd=home / "shop", env=environ, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        pieces = list[bytes]()
        while piece := _read(ours):
            pieces.append(piece)
        os.close(ours)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, b"".join(pieces))
    return b"".join(pieces).decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # EIO: the last writer has closed it
        return b""


def fixed(text: str, home: Path, ids: list[str], *, times: bool = True) -> str:
    """A text with a fixed value for each value that another call does not repeat, as wide as this is if it may stand in a column."""
    for found, name in zip(ids, IDS, strict=True):
        text = text.replace(found, name)
    text = text.replace(str(home), HOME).replace(sys.executable, "/usr/bin/python3")
    for pattern, value in (
        (r"executions/[a-z0-9]{16}", f"executions/{EXECUTIONS[0]}"),
        (r"\bdemo-[0-9a-f]{8}\b", "demo-430f1481"),
        (r"\b[0-9a-f]{40}\b", "5e5bcb0a8907be2f0d2a1d9c3f6f4f7c51c0aa11"),
        (r"\b(?=[0-9a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{10}\b", "5e5bcb0a89"),
        (r"pid \d+", "pid 4711"),
        # The history has it only if the daemon reads it before the agent has ended.
        (r"[^\n]*its conversation is [^\n]*\n", ""),
        (r"\b\d+ MiB", "18 MiB"),
        (r"\d{4}-\d\d-\d\d", "2026-11-30"),
        *([(r"(?<!\d)\d\d:\d\d:\d\d(?!\d)", "09:26:00")] if times else []),
        (r"(?<=after )(<1s|\d+s)", "<1s"),
        (r"\d+s ago", "12s ago"),
        (r"(?<=  )(\d[sm] |\d\d[sm])  (?=\S)", "9s   "),  # in the column of ages
    ):
        text = re.sub(pattern, value, text)
    return text


if __name__ == "__main__":
    main()
