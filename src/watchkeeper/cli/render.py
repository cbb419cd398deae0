"""Text for people: safe for their terminal, aligned, and within its width.

Whatever comes from a task or an agent goes through `clean` or `clean_text` before it is printed: a prompt or an agent's output must never send control codes
to the terminal of the person who looks.
"""

import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TextIO

from watchkeeper.domain import plain_text

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"
_OWN_CODES = f"{BOLD}|{DIM}|{RED}|{GREEN}|{YELLOW}|{CYAN}"
_COLOUR = rf"\x1b\[(?:0|(?:{_OWN_CODES})(?:;(?:{_OWN_CODES}))*)m"

_COLOURS = {
    "running": CYAN,
    "starting": CYAN,
    "stopping": YELLOW,
    "ending": CYAN,
    "checking": CYAN,
    "setting up": CYAN,
    "needs you": YELLOW,
    "held": YELLOW,
    "stop failed": RED,
    "lost?": RED,
    "unknown": RED,
    "done": GREEN,
    "failed": RED,
    "stopped": DIM,
}

LABEL = 12
"""Columns of the labels of a page about one thing."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_TWO_HOURS, _TWO_DAYS = 2 * _HOUR, 2 * _DAY
_NARROWEST = 40
_JOINER = "\u200d"

clean, clean_text = plain_text.clean, plain_text.clean_text


def width(text: str) -> int:
    """How many columns a terminal uses for a text. Our own colours use none."""
    if "\x1b" in text:
        import re

        text = re.sub(_COLOUR, "", text)
    if text.isascii():
        return len(text)
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if unicodedata.combining(letter) or letter in {_JOINER, "\u200c", "\ufe0f"}:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in {"W", "F"} else 1


def shorten(text: str, columns: int) -> str:
    """The text, or its beginning and `…`, within so many columns."""
    if width(text) <= columns:
        return text
    kept, used = "", 0
    for letter in text:
        used += _columns(letter)
        if used > max(0, columns - 1):
            break
        kept += letter
    return kept.rstrip() + "…" if columns > 0 else ""


def duration(seconds: float) -> str:
    """A length of time in its two largest units, such as `3h 12m`."""
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d {whole % _DAY // _HOUR}h"


def elapsed(seconds: float) -> str:
    """How long something took; what took less than a second did take time."""
    return duration(seconds) if seconds >= 1 else "<1s"


def lasting(why: str, since: "datetime | None", now: datetime) -> str:
    """A sentence's beginning, and for how long that has been so, where that is known."""
    return f"{why} for {duration((now - since).total_seconds())}" if why and since is not None else why


def age(at: datetime, now: datetime) -> str:
    """How long ago, in one unit."""
    seconds = max(0, int((now - at).total_seconds()))
    if seconds < _MINUTE:
        return f"{seconds}s"
    if seconds < _TWO_HOURS:
        return f"{seconds // _MINUTE}m"
    return f"{seconds // _HOUR}h" if seconds < _TWO_DAYS else f"{seconds // _DAY}d"


def clock(at: datetime) -> str:
    """A time of day for people, in their own zone."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and its noun."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def field(label: str, text: str) -> str:
    """One labelled line of a page about one thing; what is longer hangs below, see `LABEL`."""
    return f"{label:<{LABEL}}{text}".rstrip()


class Terminal:
    """Where a command's words go. Colour and cutting only where a person looks."""

    def __init__(
        self,
        environ: Mapping[str, str],
        out: TextIO | None = None,
        err: TextIO | None = None,
        stdin: TextIO | None = None,
    ) -> None:
        """Take the process's own streams unless others are given."""
        self.stdout = out or sys.stdout
        self.stderr = err or sys.stderr
        self.stdin = stdin or sys.stdin
        self._plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        self.is_terminal = _is_terminal(self.stdout)
        self.stderr_is_terminal = _is_terminal(self.stderr)
        self.stdin_is_terminal = _is_terminal(self.stdin)
        self.columns = max(_NARROWEST, _columns_of_terminal()) if self.is_terminal else None
        self.has_blocks = _is_utf8(self.stdout)
        """Whether it can show more than ASCII."""
        self._status = ""
        self.conceal: Callable[[str], str] = str
        """Takes secrets out of what is said of an error."""

    def say(self, text: str = "") -> None:
        """A line of the answer."""
        self._print(_obeyed_by_none(text))

    def _print(self, text: str) -> None:
        self.clear_status()
        print(text, file=self.stdout, flush=True)  # a pipe may be followed, too

    def prose(self, text: str, *codes: str, hang: int = 0) -> None:
        """A line of the answer that may be long, or several: on a terminal each is broken between words, what follows `hang` columns in."""
        self.say(self.style(text if self.columns is None else _broken(text, self.columns, hang), *codes))

    def note(self, text: str, *, hang: int | None = None) -> None:
        """A line beside the answer, on standard error; on a terminal it is broken between words, what follows as far in as it begins, or `hang` columns."""
        self.clear_status()
        if self.stderr_is_terminal:
            text = _broken(text, max(_NARROWEST, _columns_of_terminal()), hang)
        print(_obeyed_by_none(text), file=self.stderr, flush=True)

    def error(self, value: object) -> None:
        """What ended a command, as one JSON value on standard error."""
        from watchkeeper.safe_json import dumps

        self.clear_status()
        print(dumps(value, ascii_only=not _is_utf8(self.stderr)), file=self.stderr, flush=True)

    def write(self, data: bytes) -> None:
        """Bytes of the answer, as they are."""
        self.stdout.flush()
        _ = self.stdout.buffer.write(data)
        self.stdout.buffer.flush()

    def document(self, value: object) -> None:
        """One JSON document."""
        self._print(self._json(value, indent=2))

    def array(self, values: Iterable[object]) -> None:
        """One JSON array, written as its values come."""
        before = "[\n"
        for value in values:
            text = self._json(value, indent=2).replace("\n", "\n  ")
            _ = self.stdout.write(f"{before}  {text}")
            before = ",\n"
        self.say("[]" if before == "[\n" else "\n]")

    def line(self, value: object) -> None:
        """One JSON value on a line of its own, at once."""
        print(self._json(value, compact=True), file=self.stdout, flush=True)

    def _json(self, value: object, *, indent: int | None = None, compact: bool = False) -> str:
        from watchkeeper.safe_json import dumps

        return dumps(value, indent=indent, compact=compact, ascii_only=not _is_utf8(self.stdout))

    def style(self, text: str, *codes: str) -> str:
        """The text in colour, where a person looks and wants colour."""
        if self._plain or not self.is_terminal or not codes or not text:
            return text
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m"

    def word(self, word: str) -> str:
        """A word for where a task stands, in its colour."""
        code = _COLOURS.get(word)
        return self.style(word, code) if code else word

    def fit(self, text: str, used: int = 0, at_most: int | None = None) -> str:
        """The text, cut to what is left of the terminal's line, or of `at_most` columns where no person looks."""
        columns = self.columns or at_most
        return text if columns is None else shorten(text, max(10, columns - used))

    def status(self, text: str) -> None:
        """Update the status line; nothing without a terminal."""
        if not self.stderr_is_terminal:
            return
        columns = max(_NARROWEST, _columns_of_terminal())
        self._status = shorten(_obeyed_by_none(text), columns - 1)
        _ = self.stderr.write(f"\r\x1b[2K{self._status}")
        self.stderr.flush()

    def clear_status(self) -> None:
        """Take that line away again."""
        if self._status:
            self._status = ""
            _ = self.stderr.write("\r\x1b[2K")
            self.stderr.flush()

    def table(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        colour: int | None = None,
        *,
        at_most: int | None = None,
    ) -> None:
        """Aligned columns; the last one is cut to the terminal.

        `colour`: the column that holds words for where a task stands. `at_most`: the longest line where no person looks.
        """
        widths = [max([width(title), *(width(row[column]) for row in rows)]) for column, title in enumerate(head)]
        self.say(self.style(self._aligned(head, widths, None, at_most), DIM))
        for row in rows:
            self.say(self._aligned(row, widths, colour, at_most))

    def _aligned(self, cells: Sequence[str], widths: Sequence[int], colour: int | None, at_most: int | None) -> str:
        line, used = "", 0
        for column, cell in enumerate(cells[:-1]):
            shown = self.word(cell) if column == colour else cell
            line += shown + " " * (widths[column] - width(cell) + 2)
            used += widths[column] + 2
        return (line + self.fit(cells[-1], used, at_most)).rstrip()


def _obeyed_by_none(text: str) -> str:
    """The last line of defence: of what a terminal would obey only our own colours are left, whatever a caller forgot to clean."""
    if text.isprintable():
        return text
    import re

    parts = re.split(rf"({_COLOUR}|[\n\t])", text)
    return "".join(part if number % 2 else "".join(map(plain_text.safe, part)) for number, part in enumerate(parts))


def _is_utf8(stream: TextIO) -> bool:
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "").replace("_", "") == "utf8"


def _broken(text: str, columns: int, hang: int | None) -> str:
    """Each line of a text, broken between words where it is too long for so many columns."""
    return "\n".join(_broken_line(line, columns, hang) for line in text.split("\n"))


def _broken_line(line: str, columns: int, hang: int | None) -> str:
    if width(line) <= columns:
        return line
    import re

    blanks, *rest = re.split("([^ ]+)", line)
    begins = " " * (len(blanks) if hang is None else hang)
    lines, now = list[str](), blanks
    blanks = ""
    for word, after in zip(rest[::2], rest[1::2], strict=True):
        if now.strip() and width(now + blanks + word) > columns:
            lines.append(now)
            now, blanks = begins, ""
        now += blanks + word
        blanks = after
    return "\n".join([*lines, now])


def _columns_of_terminal() -> int:
    import shutil

    return shutil.get_terminal_size((100, 24)).columns


def _is_terminal(stream: TextIO) -> bool:
    try:
        return os.isatty(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return False
