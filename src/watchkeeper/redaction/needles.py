"""What is looked for to find a secret: its bytes in each view of a text (see `secret_views`)."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from watchkeeper.redaction import views
from watchkeeper.redaction.variables import SHORTEST, Secret
from watchkeeper.redaction.views import Needle

_SHORTEST_BASE64 = 12
_LONGEST_TWICE = 512
"""Bytes of the longest secret that is looked for in base64 of base64, as a registry's sign-in in a cluster's secret is."""

_OPEN_END = re.compile(rb"%[0-9a-fA-F]?\Z")
_DEPTH = 3


class Needles(NamedTuple):
    """What is looked for, by view."""

    plain: list[Needle]
    raw: list[Needle]
    base64: list[Needle]


def needles(secrets: Iterable[Secret]) -> Needles:
    """What is looked for to find these, each long enough."""
    found = Needles([], [], [])
    for secret in secrets:
        shown = mark(secret.name)
        for spelled in _as_bytes(secret.value):
            found.plain.extend(Needle(each, shown) for each in _plain(spelled))
            found.raw.append(Needle(spelled, shown))
        if "\\" in secret.value or "%" in secret.value:
            # What it is made of may be read as an escape, alone or with its neighbours, so its spellings are looked for as they are.
            found.raw.extend(Needle(each, shown) for each in _escaped(secret.value))
        if not secret.part:
            found.base64.extend(Needle(each, shown) for each in _encoded(secret.value))
    return found


def mark(name: str) -> bytes:
    """What stands in the place of a secret."""
    return f"[redacted {name}]".encode("utf-8", "backslashreplace")


def _as_bytes(value: str) -> set[bytes]:
    """How its characters are written in bytes; a byte that is no UTF-8 also as what programs make of it."""
    spelled = {value.encode("utf-8", "surrogatepass")}
    if any("\udc80" <= letter <= "\udcff" for letter in value):
        shown = re.sub("[\udc80-\udcff]", "\ufffd", value)
        spelled |= {value.encode("utf-8", "surrogateescape"), shown.encode("utf-8", "surrogatepass")}
    return spelled


def _plain(spelled: bytes) -> set[bytes]:
    """Its bytes with escapes undone, line ends as LF and as CR LF. None if hardly anything is left: that would be found everywhere."""
    both = {spelled, re.sub(rb"\r?\n", b"\r\n", spelled)}
    # What would be an escape together with what follows is left away.
    undone = {_OPEN_END.sub(b"", views.plain(each).text) for each in both}
    return {each for each in undone if len(each) >= SHORTEST}


def _escaped(value: str) -> set[bytes]:
    found: set[str] = set()
    for escape in (_in_json, _in_json_as_it_is, _in_address):
        each = value
        for _ in range(_DEPTH):
            each = escape(each)
            found.add(each)
    return {each.encode("utf-8", "surrogatepass") for each in found}


def _encoded(value: str) -> Iterator[bytes]:
    """Base64 of it, and of what it is in JSON and in an address."""
    raw = value.encode(
        "utf-8", "surrogateescape" if any("\udc80" <= each <= "\udcff" for each in value) else "surrogatepass"
    )
    inner = {raw} | {
        escape(value).encode("utf-8", "surrogatepass")
        for escape in (_in_json, _in_json_as_it_is, _in_address, _in_form)
    }
    for each in inner:
        yield from _base64(each)
    if len(raw) <= _LONGEST_TWICE:
        for once in _base64(raw):
            yield from _base64(once)


def _base64(raw: bytes) -> Iterator[bytes]:
    """Where it stands in what was encoded is not known; the letters at its edges depend on its neighbours."""
    if len(raw) < _SHORTEST_BASE64:
        return
    for skipped in range(3):
        encoded = base64.b64encode(b"\0" * skipped + raw).rstrip(b"=")
        yield encoded[-(-skipped * 8 // 6) : (skipped + len(raw)) * 8 // 6]


def _in_json(value: str) -> str:
    return json.dumps(value)[1:-1]


def _in_json_as_it_is(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]


def _in_address(value: str) -> str:
    return quote(value, safe="", errors="surrogateescape")


def _in_form(value: str) -> str:
    return quote_plus(value, safe="", errors="surrogateescape")
