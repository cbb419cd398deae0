"""Where a task's text comes from: an argument, a file, or standard input."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.app.add import MAX_PROMPT_BYTES
from watchkeeper.cli.render import clean
from watchkeeper.errors import BadTask, UsageError

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call


def read(call: "Call", words: tuple[str, ...], file: str | None, *, may_be_absent: bool) -> str:
    """The task's text.

    Raises:
        UsageError: it was given twice, in pieces, or not at all.
        BadTask: it cannot be read, or is not text.
    """
    if len(words) > 1:
        raise UsageError(
            f"The task came in {len(words)} pieces.", hint=f'Put it in quotes: wk run "{clean(" ".join(words))[:60]}"'
        )
    if words and file is not None:
        raise UsageError("The task was given twice, as an argument and with -f.", hint="Leave one of them away.")
    if file is not None and file != "-":
        return _text(_from_file(call.cwd / Path(file).expanduser()), f"'{file}'")
    if file == "-" or words == ("-",) or (not words and not may_be_absent and not call.terminal.stdin_is_terminal):
        return _text(sys.stdin.buffer.read(MAX_PROMPT_BYTES + 1), "standard input")
    if words:
        return _checked(words[0])
    if may_be_absent:
        return ""
    raise UsageError(
        "There is no task.",
        hint='Say what is to be done: wk run "fix the failing test". `wk run --help` has more examples.',
    )


def _from_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_PROMPT_BYTES + 1)
    except OSError as error:
        raise BadTask(f"The task cannot be read from '{path}': {error.strerror}.", hint="Name another file.") from error


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(data) > MAX_PROMPT_BYTES:
            return data[:MAX_PROMPT_BYTES].decode("utf-8", "replace") + " "  # too long anyway: refused for that
        raise BadTask(
            f"What {where} holds is not text in UTF-8 (byte {error.start}).", hint="Convert it, for example with iconv."
        ) from error


def _checked(word: str) -> str:
    try:
        _ = word.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadTask("The task is not text in UTF-8.", hint="Give it in a file with -f, in UTF-8.") from error
    return word
