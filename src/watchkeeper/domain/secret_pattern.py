r"""How a secret's characters may be written in what an agent prints: as they are, escaped in JSON (once, or JSON within JSON), or percent-encoded.

A secret becomes a row of elements, one for each character. An element is a small regular expression of all its spellings, and one for their beginnings, by
which a stream knows that what it holds may go on as a secret. All of it is over bytes, which are written here as the letters of Latin-1.
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

Atom = tuple[str, str | None]
"""A part that is matched, and what its beginnings look like; None if it has none but nothing."""

_BACKSLASHES: Atom = (r"\\{1,8}", r"\\{0,8}")
"""One escape, or up to three of them nested."""

_SHORT = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_DEEPEST = 8
_LAST_OF_BMP = 0xFFFF
_SURROGATES = range(0xD800, 0xE000)
_BYTES_IN_DISGUISE = range(0xDC80, 0xDD00)
_ASCII = 0x80


@dataclass(frozen=True, kw_only=True)
class Element:
    """One character of a secret, or a run of backslashes, in all spellings."""

    full: str
    """Matches a whole spelling."""
    begun: str
    """Matches a beginning of a spelling that the end of the data cuts off."""
    tails: tuple[tuple[int, str], ...]
    """For each byte with which a spelling may begin, what may follow it."""
    longest: int
    """How many bytes the longest spelling has."""
    backslashes: int = 0
    """How many backslashes in a row it stands for, which may be spelled with up to eight times as many; else 0."""

    @cached_property
    def whole(self) -> re.Pattern[bytes]:
        """`full`, compiled."""
        return re.compile(self.full.encode("latin-1"), re.DOTALL)

    @cached_property
    def cut(self) -> re.Pattern[bytes]:
        """`begun`, compiled."""
        return re.compile(self.begun.encode("latin-1"), re.DOTALL)

    def ends(self, data: bytes, at: int) -> list[int]:
        """Where spellings that begin at `at` may end."""
        found = self.whole.match(data, at)
        if found is None:
            return []
        if self.backslashes and data[at : at + 1] == b"\\":
            return list(range(at + self.backslashes, found.end() + 1))
        return [found.end()]


def literal(text: bytes) -> list[Atom]:
    """The atoms of bytes that can be written in one way only."""
    return [(_escaped(byte), None) for byte in text]


def begun(atoms: list[Atom]) -> str:
    r"""A pattern of every beginning of these atoms that reaches the end of the data, the empty one excepted."""
    pattern = ""
    for full, part in reversed(atoms):
        cut = rf"{part}\Z" if part is not None else ""
        later = rf"{full}(?:\Z|{pattern})" if pattern else ""
        pattern = "(?:" + "|".join(each for each in (cut, later) if each) + ")" if cut or later else ""
        if not pattern:
            pattern = "(?!)"  # the last atom is whole or not there
    return pattern


@lru_cache(maxsize=4096)
def element(letter: str) -> Element:
    """All spellings of a character that is no backslash."""
    return _of_forms(_forms(letter))


@lru_cache(maxsize=256)
def backslashes(count: int) -> Element:
    """All spellings of a run of backslashes."""
    most = count * _DEEPEST
    one = [[_BACKSLASHES, *literal(b"u005"), _hex("c")], [*literal(b"%5"), _hex("c")]]
    escaped = "|".join("".join(full for full, _ in form) for form in one)
    cut = "|".join(begun(form) for form in one)
    tails = (
        (ord("\\"), rf"(?:\\{{0,7}}u005[cC](?:{escaped}){{{count - 1}}}|\\{{{count - 1},{most - 1}}})"),
        (ord("%"), rf"5[cC](?:{escaped}){{{count - 1}}}"),
    )
    return Element(
        full=rf"(?:(?:{escaped}){{{count}}}|\\{{{count},{most}}})",
        begun=rf"(?:(?:{escaped}){{0,{count - 1}}}(?:{cut})|\\{{0,{most}}}\Z)",
        tails=tails,
        longest=count * _longest(one),
        backslashes=count,
    )


@lru_cache(maxsize=128)
def base64_element(letter: str) -> Element:
    """The spellings of a character of base64: the ordinary alphabet, the one for addresses, and both escaped."""
    forms = [literal(letter.encode())]
    if letter in "+/":
        forms += [literal(b"-" if letter == "+" else b"_"), _percent(letter.encode())]
    if letter == "/":
        forms.append([_BACKSLASHES, *literal(b"/")])
    return _of_forms(forms)


def elements(text: str) -> list[Element]:
    """The row of elements of a secret."""
    pieces = re.findall(r"\\+|[^\\]", text, re.DOTALL)
    return [backslashes(len(piece)) if piece[0] == "\\" else element(piece) for piece in pieces]


def _forms(letter: str) -> list[list[Atom]]:
    code = ord(letter)
    forms: list[list[Atom]] = []
    if code in _SURROGATES:
        forms += [literal(letter.encode("utf-8", "surrogatepass")), _unicode(code)]
        if code in _BYTES_IN_DISGUISE:
            # A byte that is no UTF-8: as itself, and as what programs make of it.
            raw = letter.encode("utf-8", "surrogateescape")
            forms += [literal(raw), literal("\ufffd".encode()), _unicode(0xFFFD), _percent(raw)]
        return forms
    raw = letter.encode()
    forms += [literal(raw), _percent(raw)]
    if code > _LAST_OF_BMP:
        high, low = divmod(code - 0x10000, 0x400)
        forms.append([*_unicode(0xD800 + high), *_unicode(0xDC00 + low)])
    else:
        forms.append(_unicode(code))
    if letter in _SHORT:
        forms.append([_BACKSLASHES, *literal(_SHORT[letter].encode())])
        if letter == "\n":
            forms += [literal(b"\r\n"), [_BACKSLASHES, *literal(b"r"), _BACKSLASHES, *literal(b"n")]]
    elif letter in "\"'/`$ " or (code < _ASCII and not letter.isalnum()):
        forms.append([_BACKSLASHES, *literal(raw)])
    return forms


def _unicode(code: int) -> list[Atom]:
    return [_BACKSLASHES, *literal(b"u"), *(_hex(digit) for digit in f"{code:04x}")]


def _percent(raw: bytes) -> list[Atom]:
    atoms: list[Atom] = []
    for byte in raw:
        atoms += [*literal(b"%"), *(_hex(digit) for digit in f"{byte:02x}")]
    return atoms


def _hex(digit: str) -> Atom:
    return (f"[{digit}{digit.upper()}]" if digit.isalpha() else digit), None


def _of_forms(forms: list[list[Atom]]) -> Element:
    """Longer spellings first, so that the greediest is taken."""
    ordered = sorted(forms, key=len, reverse=True)
    whole = ["".join(full for full, _ in form) for form in ordered]
    cut = [begun(form) for form in ordered]
    by_first: dict[int, list[str]] = {}
    for form in ordered:
        first, tail = _split(form[0])
        by_first.setdefault(first, []).append(tail + "".join(full for full, _ in form[1:]))
    return Element(
        full=_alternatives(whole),
        begun=_alternatives(cut),
        tails=tuple((first, _alternatives(tails)) for first, tails in by_first.items()),
        longest=_longest(forms),
    )


def _split(atom: Atom) -> tuple[int, str]:
    """The byte with which an atom begins, and the rest of it."""
    full = atom[0]
    return (ord("\\"), r"\\{0,7}") if atom is _BACKSLASHES else (ord(full[-1]), "")


def _alternatives(patterns: list[str]) -> str:
    return patterns[0] if len(patterns) == 1 else f"(?:{'|'.join(patterns)})"


def _longest(forms: list[list[Atom]]) -> int:
    return max(sum(_DEEPEST if atom is _BACKSLASHES else 1 for atom in form) for form in forms)


def _escaped(byte: int) -> str:
    return re.escape(bytes([byte])).decode("latin-1")
