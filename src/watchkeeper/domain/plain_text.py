"""Text that is safe to show: what a terminal would obey is replaced by what a person can see."""

import unicodedata
from functools import lru_cache

_BLANK_ENDS = "\u2028\u2029\x85"
_JOINERS = "\u200c\u200d"
_PICTURES = 0x2400
_DELETE = 0x7F


def clean(text: str) -> str:
    """One line that is safe to print: line ends and tabs become blanks, control characters become pictures of themselves."""
    return " ".join(clean_text(text).split())


def clean_text(text: str) -> str:
    """Text that is safe to print, on as many lines as it has."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(safe, text.replace("\r\n", "\n").replace("\t", "    ")))


@lru_cache(maxsize=4096)
def safe(letter: str) -> str:
    """A character that is safe to print, for this one."""
    if letter == "\n" or letter.isprintable():
        return letter
    if letter in _BLANK_ENDS:
        return " "
    code = ord(letter)
    if code < ord(" "):
        return chr(_PICTURES + code)
    if code == _DELETE:
        return "\u2421"
    if unicodedata.category(letter) == "Zs" or letter in _JOINERS:
        return letter
    return "\ufffd"  # the second set of controls, marks that reverse the direction of text, halves of surrogates
