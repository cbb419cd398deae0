r"""Hiding secrets in what leaves a run: text or a stream of bytes, in which a known secret becomes `[redacted NAME]`.

A secret is found however it is spelled (`secret_views`), in base64 too, and whatever looks like one of the well-known kinds is hidden without being known
(`secret_shapes`). To prepare takes time that grows with the secrets, and to look time that grows with the text; nothing grows with their product. How a stream
is cut into pieces makes no difference:

    feed ──▶  data that was held  +  new data
              └── decided ──────┘└─ held: it may go on as a secret ─┘

Every position from which no secret reaches beyond the end of the data is decided. What begins at the first other one is held until more comes, so no more is
held than the longest secret, and nothing without need. Secrets that overlap are hidden as one.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from watchkeeper.redaction.known_tokens import SHAPES, jwt_begun, jwts
from watchkeeper.redaction.needles import mark, needles
from watchkeeper.redaction.variables import SHORTEST, Secret
from watchkeeper.redaction.views import (
    CONTEXT,
    Finder,
    View,
    base64,
    certain_base64,
    certain_plain,
    plain,
    raw,
    widened,
)

_CUT = 6
"""Characters of the beginning of a secret that are hidden where something was cut off behind them."""

_PERHAPS_CUT = 300
"""Characters from which on a text may have been cut off without a sign."""

_LONGEST_SPELLING = 16
"""Bytes that one byte of a secret may take, however it is spelled."""

_BLOCK = 256 * 1024
"""Bytes that are looked at at once."""

_TOLD = -1
_BY_SHAPE = [shape for shape in SHAPES if shape.name != "JWT"]


class _Span(NamedTuple):
    """A range of the held data that is hidden; one that starts before it has its mark already."""

    start: int
    known: int
    """0 for a secret that is known, 1 for one that only looks like it: the known one gives its name."""
    end: int
    mark: bytes


class _Looked(NamedTuple):
    """A view in which secrets are looked for."""

    finder: Finder
    view: Callable[[bytes], View]
    certain: Callable[[bytes], int]
    holds: bool
    """What may be an escape that is cut off is held."""


class Redactor:
    """Hides the secrets it was given, and what looks like one."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        """Hide these; those that are shorter than `SHORTEST` cannot be."""
        known = sorted({secret for secret in secrets if len(secret.value) >= SHORTEST}, key=_longest_first)
        self._names = {mark(secret.name): secret.name for secret in known}
        self._looked: list[_Looked] = []
        longest = max(shape.longest for shape in SHAPES)
        if known:
            found = needles(known)
            self._looked = [
                _Looked(Finder(found.plain), plain, certain_plain, holds=True),
                _Looked(Finder(found.raw), raw, len, holds=False),
                _Looked(Finder(found.base64), base64, certain_base64, holds=False),
            ]
            longest = max(longest, *(each.finder.longest * _LONGEST_SPELLING for each in self._looked))
        self.longest = longest
        """How many bytes a stream may have to hold."""

    def stream(self) -> "RedactedStream":
        """A stream that hides them in bytes that come piece by piece."""
        return RedactedStream(self)

    def data(self, data: bytes, *, cut: bool = False) -> bytes:
        """The bytes with what is secret in them hidden; `cut`: something was cut off behind them, perhaps the end of a secret."""
        stream = self.stream()
        return stream.feed(data) + stream.finish(cut=cut)

    def text(self, text: str) -> str:
        """The text with what is secret in it hidden. One that is long or ends with an ellipsis may have been cut off in the middle of a secret."""
        whole = text.removesuffix("…")
        data = whole.encode("utf-8", "surrogatepass")
        hidden = self.data(data, cut=whole != text or len(text) >= _PERHAPS_CUT)
        if hidden == data:
            return text
        try:
            shown = hidden.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            shown = hidden.decode("utf-8", "replace")
        return shown + text[len(whole) :]

    def first(self, text: str) -> str | None:
        """The name of the first known secret in a text; None if it holds none, whatever it looks like."""
        data = text.encode("utf-8", "surrogatepass")
        found = [span for looked in self._looked for span in self._known(looked, data, 0, len(data))]
        return self._names[min(found, key=_in_order).mark] if found else None

    def spans(self, data: bytes, start: int, until: int) -> list[_Span]:
        """What is secret and begins from `start` on and before `until`; ranges may overlap."""
        spans = [span for looked in self._looked for span in self._known(looked, data, start, until)]
        spans += _shaped(data, start, until)
        return sorted(spans, key=_in_order)

    def undecided(self, data: bytes, start: int) -> int:
        """The first position from `start` on from which something secret may reach beyond the end of the data; its length if there is none."""
        limit = _shape_begun(data, max(start, len(data) - _longest_shape()))
        start = max(start, len(data) - self.longest)
        base = max(0, start - CONTEXT)
        tail = data[base:]
        for looked in self._looked:
            certain = looked.certain(tail)
            view = looked.view(tail[:certain])
            begun = looked.finder.begun(view.text)
            places = [certain] if looked.holds else []
            places += [view.begin(begun[0])] if begun is not None else []
            for place in places:
                at = base + (widened(tail, place) if looked.view is plain else place)
                limit = min(limit, max(at, start))
        return limit

    def cut_known(self, data: bytes, start: int) -> tuple[int, bytes] | None:
        """Where the first known secret begins that the end of the data cuts off after a few characters; and its mark."""
        found: list[tuple[int, bytes]] = []
        for looked in self._looked:
            view = looked.view(data[: looked.certain(data)])
            begun = looked.finder.begun(view.text, _CUT)
            if begun is not None:
                at = view.begin(begun[0])
                found.append((max(start, widened(data, at) if looked.view is plain else at), begun[1]))
        return min(found, default=None)

    def cut_end(self, data: bytes) -> tuple[int, bytes] | None:
        """How far the end of a known secret reaches whose beginning was lost in front of the data, at least a few characters of it; and its mark."""
        found: list[tuple[int, bytes]] = []
        for looked in self._looked:
            view = looked.view(data[: self.longest])
            ending = looked.finder.ending(view.text, _CUT)
            if ending is not None:
                found.append((view.end(ending[0]), ending[1]))
        return max(found, default=None)

    def _known(self, looked: _Looked, data: bytes, start: int, until: int) -> Iterator[_Span]:
        if looked.view is raw and b"%" not in data and b"\\" not in data:
            return  # it says nothing that the view without escapes does not
        view = looked.view(data)
        for hit in looked.finder.hits(view.text):
            begin, end = view.begin(hit.start), view.end(hit.end)
            if looked.view is plain:
                begin = widened(data, begin)
            if begin < until and start < end <= begin + self.longest and start <= begin:
                yield _Span(begin, 0, end, hit.mark)


class RedactedStream:
    """One stream; see the module."""

    def __init__(self, redactor: Redactor) -> None:
        """Nothing is held yet."""
        self._redactor = redactor
        self._before = b""
        """What was decided last, by which the beginning of what is held is read."""
        self._held = b""
        self._hidden: list[_Span] = []
        self.count = 0
        """How often something was hidden so far."""

    @property
    def held(self) -> int:
        """How many bytes are held, because they may go on as a secret."""
        return len(self._held)

    def feed(self, data: bytes) -> bytes:
        """Take more, and return what is decided."""
        return b"".join([self._feed(data[at : at + _BLOCK]) for at in range(0, len(data), _BLOCK)])

    def _feed(self, data: bytes) -> bytes:
        self._held += data
        start = len(self._before)
        return self._decide(self._redactor.undecided(self._before + self._held, start) - start)

    def resume(self, data: bytes) -> bytes:
        """Take what comes after bytes that were lost, perhaps the beginning of a secret, whose end is hidden then."""
        self._before = b""
        found = self._redactor.cut_end(data)
        if found is None:
            return self.feed(data)
        self.count += 1
        return found[1] + self.feed(data[found[0] :])

    def finish(self, *, cut: bool = False) -> bytes:
        """Nothing more comes: return the rest. `cut`: what comes next was lost, perhaps the end of a secret, whose beginning is hidden then."""
        size = len(self._held)
        if cut:
            start = len(self._before)
            known = self._redactor.cut_known(self._before + self._held, start)
            if known is not None and known[0] < start + size:
                self._hidden.append(_Span(known[0] - start, 0, size, known[1]))
        rest = self._decide(size)
        self._before = b""
        self._hidden.clear()
        return rest

    def _decide(self, until: int) -> bytes:
        data, start = self._held, len(self._before)
        found = self._redactor.spans(self._before + data, start, start + until) if until else []
        self._hidden += [_Span(span.start - start, span.known, span.end - start, span.mark) for span in found]
        shown: list[bytes] = []
        later: list[_Span] = []
        at = 0
        for span in sorted(self._hidden, key=_in_order):
            if span.start >= until:
                later.append(_Span(span.start - until, span.known, span.end - until, span.mark))
            elif span.start < at:
                at = max(at, span.end)
            else:
                shown += [data[at : span.start], span.mark]
                self.count += 1
                at = span.end
        if at > until:
            later.append(_Span(_TOLD, 0, at - until, b""))
        else:
            shown.append(data[at:until])
        self._before = (self._before + data[:until])[-CONTEXT:]
        self._held, self._hidden = data[until:], later
        return b"".join(shown)


def _in_order(span: _Span) -> tuple[int, int, int]:
    """By their beginning; of those that begin together first what is known, and the longest."""
    return span.start, span.known, -span.end


def _longest_first(secret: Secret) -> tuple[int, str, str]:
    return -len(secret.value), secret.name, secret.value


def _shaped(data: bytes, start: int, until: int) -> Iterator[_Span]:
    pattern, marks, _ = _shapes()
    at = start
    while (found := pattern.search(data, at)) is not None and found.start() < until:
        group = found.lastindex or 1
        first, last = found.span(group) if found.group(group) else found.span()
        yield _Span(first, 1, last, marks[group - 1])
        at = found.start() + 1
    for first, last in jwts(data, start, until):
        yield _Span(first, 1, last, b"[redacted JWT]")


def _shape_begun(data: bytes, start: int) -> int:
    found = _shapes()[2].search(data, start)
    return min(jwt_begun(data, start), len(data) if found is None else found.start())


@lru_cache(maxsize=1)
def _longest_shape() -> int:
    return max(shape.longest for shape in SHAPES)


@lru_cache(maxsize=1)
def _shapes() -> tuple[re.Pattern[bytes], list[bytes], re.Pattern[bytes]]:
    """A pattern of all shapes with one group each, the marks by group, and a pattern of what the end of the data cuts off."""
    named = [(pattern, f"[redacted {shape.name}]".encode()) for shape in _BY_SHAPE for pattern in shape.patterns()]
    pattern, order = _by_first([pattern for pattern, _ in named])
    begun, _ = _by_first([cut for shape in _BY_SHAPE for cut in shape.cut_patterns()])
    return _compiled(pattern), [named[number][1] for number in order], _compiled(begun)


def _by_first(branches: Sequence[tuple[str, str]]) -> tuple[str, list[int]]:
    """One branch for each first letter, and the order of the given ones in it.

    A search skips every letter that begins none, and tries few branches where it does not.
    """
    by_first: dict[str, list[int]] = {}
    for number, (first, _) in enumerate(branches):
        by_first.setdefault(first, []).append(number)
    pattern = "|".join(
        f"{re.escape(first)}(?:{'|'.join(branches[number][1] for number in numbers)})"
        for first, numbers in by_first.items()
    )
    return pattern, [number for numbers in by_first.values() for number in numbers]


def _compiled(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode("latin-1"), re.DOTALL)
