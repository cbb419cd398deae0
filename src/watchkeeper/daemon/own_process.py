"""The process that a daemon is: its name, the signals that it heeds, and its end."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from watchkeeper.errors import Exit
from watchkeeper.shim.system import set_title

_TURN_S = 0.001
"""How long a thread computes when another one waits for the interpreter. The usual five milliseconds are waited for after every call that blocks, so a claim or
a settlement would take half a second longer while another thread hides the secrets of a long output."""

_TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGHUP)


def take_title(state: Path) -> None:
    """Set an own process title, so that `pkill python` does not match, and ignore the signals that only a terminal sends."""
    set_title(b"wk-daemon " + os.fsencode(state))
    for number in set(_TERMINAL_SIGNALS) - set(heeded()):
        _ = signal.signal(number, _let_pass)  # unlike SIG_IGN, a handler is not inherited


def take_short_turns() -> None:
    """Have threads that compute give way to the others sooner than is usual."""
    sys.setswitchinterval(_TURN_S)


def heeded() -> tuple[signal.Signals, ...]:
    """TERM, and in the foreground of a terminal Ctrl-C and the terminal's end."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return (signal.SIGTERM,)
    return (signal.SIGTERM, *_TERMINAL_SIGNALS)


def _let_pass(_number: int, _frame: object) -> None:
    """There is no terminal, so the signal was meant for another process."""


def end_within(seconds: float, say: Callable[[], None]) -> threading.Timer:
    """End this process after so long, whatever it still waits for: what a loop was at is found again, as after any crash."""

    def end() -> None:
        try:
            say()
        finally:
            os._exit(Exit.OK)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer
