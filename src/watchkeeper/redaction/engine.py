r"""Hide secrets in what leaves a run, a text or a stream of bytes: a known secret becomes `[redacted NAME]`.

A secret is found in every spelling (`views`) and encoding (`needles`). What looks like a well-known kind of secret (`known_tokens`) is hidden without being
known. The time to prepare grows with the secrets, and the time to search with the text; none grows with their product. How a stream is cut into pieces makes no
difference:

    feed ──▶  data that was held  +  new data
              └── decided ──────┘└─ held: it may become a secret ─┘

Every position from which no secret reaches beyond the end of the data is decided. What begins at the first other one is held until more comes. A long secret is
found piece by piece, so no more is held than a piece. Secrets that overlap, and pieces of one secret, are hidden as one.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from watchkeeper.redaction.finder import Finder
from watchkeeper.redaction.known_tokens import LONGEST, SHAPES, tokens
from watchkeeper.redaction.known_tokens import undecided as shape_undecided
from watchkeeper.redaction.needles import mark, needles
from watchkeeper.redaction.variables import SHORTEST, Secret
from watchkeeper.redaction.views import CONTEXT, View, views

_CUT = 6
"""Characters of the beginning of a secret that are hidden where something was cut off behind them."""

_PERHAPS_CUT = 300
"""Characters from which on a text may have been cut off without a sign."""

_LONGEST_SPELLING = 16
"""Bytes that one byte of a secret may take, however it is spelled."""

_BLOCK = 256 * 1024
"""Bytes that are searched at once."""


def may_be_cut(text: str) -> bool:
    """Whether a text is long or ends with an ellipsis, so its end may be the beginning of a secret."""
    return len(text) >= _PERHAPS_CUT or text.endswith("…")


class _Span(NamedTuple):
    """A range that is hidden; in their order the one that gives its name to those that overlap it comes first."""

    start: int
    rank: int
    """0 for a secret that is known, more for one that only looks like it."""
    minus_end: int
    mark: bytes


class Redactor:
    """Hides the secrets it was given, and what looks like one."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        """Hide these; those that are shorter than `SHORTEST` cannot be."""
        known = sorted({secret for secret in secrets if len(secret.value) >= SHORTEST}, key=_longest_first)
        self._names = {mark(secret.name): secret.name for secret in known}
        self._finders = [Finder(each) for each in needles(known)] if known else []
        self._reach = max((finder.longest for finder in self._finders), default=0) * _LONGEST_SPELLING
        self.longest = max(LONGEST, self._reach)
        """How many bytes a stream may have to hold."""

    def stream(self) -> "RedactedStream":
        """A stream that hides them in bytes that come piece by piece."""
        return RedactedStream(self)

    def data(self, data: bytes, *, cut: bool = False) -> bytes:
        """The bytes with what is secret in them hidden; `cut`: something was cut off behind them, perhaps the end of a secret."""
        return self.stream().finish(data, cut=cut)

    def text(self, text: str) -> str:
        """The text with what is secret in it hidden, also the beginning of a secret at its end if it may be cut off there."""
        whole = text.removesuffix("…")
        data = whole.encode("utf-8", "surrogatepass")
        hidden = self.data(data, cut=may_be_cut(text))
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
        found = min(self._known(data, 0, len(data)), default=None)
        return None if found is None else self._names[found.mark]

    def spans(self, data: bytes, start: int, until: int) -> list[_Span]:
        """What is secret and begins from `start` on and before `until`, in order; ranges may overlap."""
        looks = [
            _Span(token.start, token.shape + 1, -token.end, mark(SHAPES[token.shape].name))
            for token in tokens(data, start, until)
        ]
        return sorted([*self._known(data, start, until), *looks])

    def undecided(self, data: bytes, start: int) -> int:
        """The first position from `start` on from which something secret may reach beyond the end of the data; its length if there is none."""
        limit = shape_undecided(data, start)
        start = max(start, len(data) - self._reach)
        base = max(0, start - CONTEXT)
        for finder, view in self._views(data[base:]):
            settled = view.settled()
            begun = finder.begun(view.text[view.unbroken() : settled])
            places = [view.certain] if settled == len(view.text) else [view.certain, view.begin(settled)]
            places += [] if begun is None else [view.begin(view.unbroken() + begun[0])]
            limit = min(limit, max(start, base + min(places)))
        return limit

    def cut_known(self, data: bytes, start: int) -> _Span | None:
        """The first known secret, from `start` on, that the end of the data cuts off after a few characters."""
        found: list[_Span] = []
        base = max(0, len(data) - self._reach - CONTEXT)
        for finder, view in self._views(data[base:]):
            begun = finder.begun(view.text[view.unbroken() : view.settled()], _CUT)
            if begun is not None:
                at = max(start, base + view.begin(view.unbroken() + begun[0]))
                found.append(_Span(at, 0, -len(data), begun[1]))
        return min(found, default=None)

    def cut_end(self, data: bytes) -> tuple[int, bytes] | None:
        """How far the end of a known secret reaches whose beginning was lost in front of the data, at least a few characters of it; and its mark."""
        found: list[tuple[int, bytes]] = []
        for finder, view in self._views(data[: self.longest]):
            ending = finder.ending(view.text, _CUT)
            if ending is not None:
                found.append((view.end(ending[0]), ending[1]))
        return max(found, default=None)

    def _views(self, data: bytes) -> Iterator[tuple[Finder, View]]:
        return zip(self._finders, views(data), strict=True) if self._finders else iter(())

    def _known(self, data: bytes, start: int, until: int) -> Iterator[_Span]:
        for finder, view in self._views(data):
            for hit in finder.hits(view.text):
                begin, end = view.begin(hit.start), view.end(hit.end)
                if start <= begin < until and end - begin <= self._reach and view.holds(hit.start, hit.end):
                    yield _Span(begin, 0, -end, hit.mark)


class RedactedStream:
    """One stream; see the module."""

    def __init__(self, redactor: Redactor) -> None:
        """Nothing is held yet."""
        self._redactor = redactor
        self._before = b""
        """What was decided last, by which the beginning of what is held is read."""
        self._held = b""
        self._hidden = 0
        """How many of the bytes that are held are hidden already."""
        self._mark = b""
        """The mark that was shown last, if nothing was shown behind it."""
        self.count = 0
        """How often something was hidden so far."""

    @property
    def held(self) -> int:
        """How many bytes are held, because they may be the start of a secret."""
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
        self._before, shown = b"", b""
        while (found := self._redactor.cut_end(data)) is not None:
            self.count += 1
            shown, data = found[1], data[found[0] :]
        return shown + self.feed(data)

    def finish(self, data: bytes = b"", *, cut: bool = False) -> bytes:
        """Take the last data and return the rest. `cut`: what comes next was lost, perhaps the end of a secret, whose beginning is hidden then."""
        self._held += data
        known = self._redactor.cut_known(self._before + self._held, len(self._before)) if cut else None
        rest = self._decide(len(self._held), known)
        self._before, self._hidden, self._mark = b"", 0, b""
        return rest

    def _decide(self, until: int, known: _Span | None = None) -> bytes:
        data, before = self._before + self._held, len(self._before)
        until += before
        spans = self._redactor.spans(data, before, until) if until > before else []
        shown: list[bytes] = []
        at = before + self._hidden
        for span in sorted([*spans, known]) if known is not None else spans:
            if span.start > at or (span.start == at and span.mark != self._mark):
                shown += [data[at : span.start], span.mark]
                self._mark = span.mark
                self.count += 1
            at = max(at, -span.minus_end)
        if at < until:
            shown.append(data[at:until])
            self._mark = b""
        self._hidden = max(0, at - until)
        self._before, self._held = data[max(0, until - CONTEXT) : until], data[until:]
        return b"".join(shown)


def _longest_first(secret: Secret) -> tuple[int, str, str]:
    return -len(secret.value), secret.name, secret.value
