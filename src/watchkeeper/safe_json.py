r"""JSON that is safe to look at and loses nothing: what a terminal would obey, or could not show, is escaped as \uXXXX.

That is the second set of control characters, marks that reverse or hide text, line ends of Unicode, and halves of surrogates. A byte that is not UTF-8, in a
path for example, is the half of a surrogate U+DC80 to U+DCFF (Python's `surrogateescape`): `os.fsencode(json.loads(text))` gives the byte back.
"""

import json
import re

_UNSAFE = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""In JSON such a character can only stand in a text, where its escape means the same."""

_LAST_OF_BMP = 0xFFFF


def dumps(value: object, *, indent: int | None = None, compact: bool = False, ascii_only: bool = False) -> str:
    """A value as JSON. `ascii_only`: for a stream that has no other letters."""
    separators = (",", ":") if compact else None
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=ascii_only)
    return text if text.isascii() and "\x7f" not in text else _UNSAFE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code <= _LAST_OF_BMP:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
