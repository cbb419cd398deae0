"""The encodings of a secret that are searched for, by the view of a text (`views`) in which each is found."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from watchkeeper.redaction import views
from watchkeeper.redaction.finder import Needle, pieces
from watchkeeper.redaction.variables import SHORTEST, Secret

_SHORTEST_BASE64 = 12
_LONGEST_TWICE = 512
"""Bytes of the longest secret that is looked for in base64 of base64, as a registry's sign-in in a cluster's secret is."""

_OPEN_END = re.compile(rb"%[0-9a-fA-F]?\Z")
_NO_UTF8 = re.compile("[\udc80-\udcff]")
"""A character that stands for a byte that is not UTF-8. A search in C: secrets of many variables have millions of characters."""
_DEPTH = 3


class Needles(NamedTuple):
    """What is searched for, in the order of `views.views`."""

    plain: list[Needle]
    raw: list[Needle]
    base64: list[Needle]


def needles(secrets: Iterable[Secret]) -> Needles:
    """What is searched for to find these, each long enough."""
    found = Needles([], [], [])
    for secret in secrets:
        named = mark(secret.name)
        spelled = _as_bytes(secret.value)
        plain = {undone for each in spelled for undone in _plain(each)}
        if "\\" in secret.value or "%" in secret.value:
            # What it is made of may be read as an escape, alone or with its neighbours, so its spellings are looked for as they are.
            spelled |= _escaped(secret.value)
        encoded: Iterable[bytes] = () if secret.part else _encoded(secret.value)
        for sought, texts in zip(found, (plain, spelled, encoded), strict=True):
            sought.extend(Needle(piece, named) for text in texts for piece in pieces(text))
    return found


def mark(name: str) -> bytes:
    """What stands in the place of a secret."""
    return f"[redacted {name}]".encode("utf-8", "backslashreplace")


def _as_bytes(value: str) -> set[bytes]:
    """How its characters are written in bytes; a byte that is not UTF-8 also as what programs make of it."""
    spelled = {value.encode("utf-8", "surrogatepass")}
    if _NO_UTF8.search(value) is not None:
        shown = _NO_UTF8.sub("\ufffd", value)
        spelled |= {value.encode("utf-8", "surrogateescape"), shown.encode("utf-8", "surrogatepass")}
    return spelled


def _plain(spelled: bytes) -> set[bytes]:
    """Its bytes with escapes undone, line ends as LF and as CR LF. None if hardly anything is left: that would be found everywhere."""
    both = {spelled, re.sub(rb"\r?\n", b"\r\n", spelled)}
    # What would be an escape together with what follows is left away.
    undone = {_OPEN_END.sub(b"", views.plain(each)) for each in both}
    return {each for each in undone if len(each) >= SHORTEST}


def _escaped(value: str) -> set[bytes]:
    found: set[str] = set()
    for escape in _ESCAPES[:3]:
        each = value
        for _ in range(_DEPTH):
            each = escape(each)
            found.add(each)
    return {each.encode("utf-8", "surrogatepass") for each in found}


def _encoded(value: str) -> Iterator[bytes]:
    """Base64 of it, of what it is in JSON and in a URL, and of its base64."""
    raw = value.encode("utf-8", "surrogatepass" if _NO_UTF8.search(value) is None else "surrogateescape")
    inner = {raw, *(escape(value).encode("utf-8", "surrogatepass") for escape in _ESCAPES)}
    if len(raw) <= _LONGEST_TWICE:
        inner.update(_base64(raw))
    for each in inner:
        yield from _base64(each)


def _base64(raw: bytes) -> Iterator[bytes]:
    """Base64 at each of three alignments, without the letters at its edges, which depend on its neighbours."""
    if len(raw) < _SHORTEST_BASE64:
        return
    for skipped in range(3):
        encoded = base64.b64encode(b"\0" * skipped + raw)
        yield encoded[-(-skipped * 8 // 6) : (skipped + len(raw)) * 8 // 6]


_ESCAPES: tuple[Callable[[str], str], ...] = (
    lambda value: json.dumps(value)[1:-1],
    lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    lambda value: quote(value, safe="", errors="surrogateescape"),
    lambda value: quote_plus(value, safe="", errors="surrogateescape"),
)
"""JSON in ASCII and as it is, a URL, a form."""
