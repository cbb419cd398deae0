r"""Hiding secrets in what leaves a run: text or a stream of bytes, in which a known secret becomes `[redacted NAME]`.

A secret is found however it is spelled (see `secret_pattern`), in base64 too, and whatever looks like one of the well-known kinds is hidden without being
known (`secret_shapes`). How a stream is cut into pieces makes no difference:

    feed ──▶  data that was held  +  new data
              └── decided ──────┘└─ held: it may go on as a secret ─┘

Every position from which no secret reaches beyond the end of the data is decided. What begins at the first other one is held until more comes, so no more is
held than the longest secret, and nothing without need. Secrets that overlap are hidden as one.
"""

import base64
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from watchkeeper.domain.secret_names import SHORTEST, Secret
from watchkeeper.domain.secret_pattern import Element, base64_element, elements
from watchkeeper.domain.secret_shapes import SHAPES

_CUT = 6
"""Characters of the beginning of a secret that are hidden where something was cut off behind them."""

_PERHAPS_CUT = 300
"""Characters from which on a text may have been cut off without a sign."""

_CERTAIN = 64
"""Characters of the beginning of a secret that tell it: of a longer one, what is there is hidden as far as it goes. To look for every character of a long one
in one pattern would take seconds to prepare."""

_SHORTEST_BASE64 = 12
_TOLD = -1


class _Needle(NamedTuple):
    """Something to look for."""

    mark: bytes
    elements: Sequence[Element]


class _Span(NamedTuple):
    """A range of the held data that is hidden; one that starts before it has its mark already."""

    start: int
    known: int
    """0 for a secret that is known, 1 for one that only looks like it: the known one gives its name."""
    end: int
    mark: bytes


class _Branch(NamedTuple):
    """A way in which something secret may begin: its first byte, and a pattern with one group of what follows."""

    first: str
    rest: str
    known: int
    mark: bytes
    needle: _Needle | None = None
    """What goes on behind the pattern, if that is only its beginning."""


class Redactor:
    """Hides the secrets it was given, and what looks like one."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        """Hide these; those that are shorter than `SHORTEST` cannot be."""
        known = sorted({secret for secret in secrets if len(secret.value) >= SHORTEST}, key=_longest_first)
        self._needles = [needle for secret in known for needle in _needles(secret)]
        branches = [*self._needle_branches(), *_shape_branches()]
        pattern, order = _by_first([(first, rest) for first, rest, *_ in branches])
        self._pattern = _compiled(pattern)
        self._branches = [branches[number] for number in order]
        self._cut_shape = _compiled(_by_first([cut for shape in SHAPES for cut in shape.cut_patterns()])[0])
        self._needles_by_first: defaultdict[int, list[_Needle]] = defaultdict(list)
        for needle in self._needles:
            for first, _ in needle.elements[0].tails:
                self._needles_by_first[first].append(needle)
        firsts = "".join(re.escape(chr(first)) for first in self._needles_by_first)
        self._firsts = _compiled(f"[{firsts}]" if firsts else "(?!)")
        spans = [sum(element.longest for element in needle.elements) for needle in self._needles]
        self.longest_known = max(spans, default=0)
        self.longest = max(self.longest_known, *(shape.longest for shape in SHAPES))
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

    def spans(self, data: bytes, start: int, until: int) -> Iterator[_Span]:
        """What is secret and begins from `start` on and before `until`, in order of its beginning; ranges may overlap."""
        while start < until:
            found = self._pattern.search(data, start)
            if found is None or found.start() >= until:
                return
            group = found.lastindex or 1
            first, last = found.span(group) if found.group(group) else found.span()
            branch = self._branches[group - 1]
            if branch.needle is not None:
                last = max(last, _extent(branch.needle.elements, data, first))
            yield _Span(first, branch.known, last, branch.mark)
            start = found.start() + 1

    def undecided(self, data: bytes) -> int:
        """The first position from which something secret may reach beyond the end of the data; its length if there is none."""
        shape = self._cut_shape.search(data, max(0, len(data) - self.longest))
        limit = shape.start() if shape is not None else len(data)
        known = self.cut_known(data, max(0, len(data) - self.longest_known), limit)
        return limit if known is None else known[0]

    def cut_known(self, data: bytes, start: int, limit: int, least: int = 1) -> tuple[int, bytes] | None:
        """Where the first known secret begins, before `limit`, that the end of the data cuts off after at least so many characters; and its mark."""
        for found in self._firsts.finditer(data, start, limit):
            for needle in self._needles_by_first[data[found.start()]]:
                if _reaches_end(needle.elements, data, found.start(), least):
                    return found.start(), needle.mark
        return None

    def cut_end(self, data: bytes) -> tuple[int, bytes] | None:
        """How far the end of a known secret reaches whose beginning was lost in front of the data, at least so many characters of it; and its mark."""
        ends = (
            (end, needle.mark)
            for needle in self._needles
            for start in range(1, len(needle.elements) - _CUT + 1)
            if (end := _end(needle.elements[start:], data)) is not None
        )
        return max(ends, default=None)

    def _needle_branches(self) -> Iterator[_Branch]:
        for needle in self._needles:
            first, *others = needle.elements
            rest = "".join(element.full for element in others[: _CERTAIN - 1])
            for letter, tail in first.tails:
                long = needle if len(needle.elements) > _CERTAIN else None
                yield _Branch(chr(letter), f"{tail}{rest}()", 0, needle.mark, long)


class RedactedStream:
    """One stream; see the module."""

    def __init__(self, redactor: Redactor) -> None:
        """Nothing is held yet."""
        self._redactor = redactor
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
        if not data:
            return b""
        self._held += data
        return self._decide(self._redactor.undecided(self._held))

    def resume(self, data: bytes) -> bytes:
        """Take what comes after bytes that were lost, perhaps the beginning of a secret, whose end is hidden then."""
        found = self._redactor.cut_end(data)
        if found is None:
            return self.feed(data)
        self.count += 1
        return found[1] + self.feed(data[found[0] :])

    def finish(self, *, cut: bool = False) -> bytes:
        """Nothing more comes: return the rest. `cut`: what comes next was lost, perhaps the end of a secret, whose beginning is hidden then."""
        size = len(self._held)
        if cut:
            known = self._redactor.cut_known(self._held, 0, size, _CUT)
            if known is not None:
                self._hidden.append(_Span(known[0], 0, size, known[1]))
        rest = self._decide(size)
        self._hidden.clear()
        return rest

    def _decide(self, until: int) -> bytes:
        data, self._hidden = self._held, [*self._hidden, *self._redactor.spans(self._held, 0, until)]
        if not self._hidden:
            self._held = data[until:]
            return data[:until]
        shown: list[bytes] = []
        later: list[_Span] = []
        at = 0
        for span in sorted(self._hidden):
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
        self._held, self._hidden = data[until:], later
        return b"".join(shown)


def _needles(secret: Secret) -> Iterator[_Needle]:
    mark = f"[redacted {secret.name}]".encode("utf-8", "backslashreplace")
    yield _Needle(mark, elements(secret.value))
    raw = secret.value.encode("utf-8", "surrogateescape" if _is_disguised(secret.value) else "surrogatepass")
    if len(raw) < _SHORTEST_BASE64:
        return
    for skipped in range(3):
        # Where it stands in what was encoded is not known; the letters at its edges depend on its neighbours.
        encoded = base64.b64encode(b"\0" * skipped + raw).rstrip(b"=")
        first = -(-skipped * 8 // 6)
        last = (skipped + len(raw)) * 8 // 6
        yield _Needle(mark, [base64_element(chr(letter)) for letter in encoded[first:last]])


def _is_disguised(value: str) -> bool:
    return any("\udc80" <= letter <= "\udcff" for letter in value)


def _reaches_end(row: Sequence[Element], data: bytes, start: int, least: int) -> bool:
    """Whether the data ends within this secret, begun at `start`, after at least so many of its characters."""
    places = {start}
    for number, element in enumerate(row):
        after: set[int] = set()
        for place in places:
            if place == len(data):
                return number >= least
            if number + 1 >= least and element.cut.match(data, place):
                return True
            after.update(element.ends(data, place))
        if not after:
            return False
        places = after
    return False


def _end(row: Sequence[Element], data: bytes) -> int | None:
    """Where these elements end, if the data begins with them."""
    places = {0}
    for element in row:
        places = {end for place in places for end in element.ends(data, place)}
        if not places:
            return None
    return max(places)


def _extent(row: Sequence[Element], data: bytes, start: int) -> int:
    """How far these elements go in the data from `start` on."""
    places = {start}
    for element in row:
        after = {end for place in places for end in element.ends(data, place)}
        if not after:
            break
        places = after
    return max(places)


def _longest_first(secret: Secret) -> tuple[int, str, str]:
    return -len(secret.value), secret.name, secret.value


def _shape_branches() -> Iterator[_Branch]:
    for shape in SHAPES:
        for first, rest in shape.patterns():
            yield _Branch(first, rest, 1, f"[redacted {shape.name}]".encode())


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
