"""What an ending without a final event means, the same for every program that has one."""

import signal

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import ExitFact

_ASKED_TO_END = {signal.SIGTERM, signal.SIGHUP, signal.SIGINT}
_REASON_LIMIT = 400
TEXT_LIMIT = 64 * 1024
"""Characters of a message that are kept."""
NO_LONGER_KNOWN = "{program} no longer knows the conversation. The message is kept; `wk retry --fresh` begins a new conversation with it."
"""What is said where a conversation cannot be resumed because its program has none of that id."""
_SHELL_SIGNALS = 128
_SHELL_NOT_FOUND = 127


def judge_ending(exit_fact: ExitFact, said: str, *, begun: bool) -> tuple[FailureKind | None, str]:
    """The kind of an ending without a final event, None to leave it at a crash.

    Args:
        exit_fact: how the process ended.
        said: what the program said last on standard error.
        begun: it had said on its stream that it works.
    """
    code = exit_fact.exit_code
    number = exit_fact.signal or (code - _SHELL_SIGNALS if code is not None and code > _SHELL_SIGNALS else None)
    if number in _ASKED_TO_END:
        return FailureKind.INTERRUPTED, f"The agent was killed by signal {number} from outside Watchkeeper."
    if begun or number is not None:
        return None, ""
    if code == _SHELL_NOT_FOUND:
        return FailureKind.PROGRAM_MISSING, sentence(said) or "What the program needs to run is missing."
    return FailureKind.PROGRAM_BROKEN, sentence(said) or f"The program ended with exit code {code} before it began."


def ended(exit_fact: ExitFact) -> str:
    """How a process ended, in two or three words."""
    return f"signal {exit_fact.signal}" if exit_fact.signal else f"exit code {exit_fact.exit_code}"


def kept_text(text: str) -> str:
    """A message as it is kept: all of it, or both ends of one that is very long, since what it comes to stands at its end."""
    if len(text) <= TEXT_LIMIT:
        return text
    half = TEXT_LIMIT // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def last_line(text: str) -> str:
    """The last line with words."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def sentence(text: str) -> str:
    """The first line, of a length that people read."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _REASON_LIMIT else line[: _REASON_LIMIT - 1] + "…"
