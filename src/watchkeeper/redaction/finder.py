"""Find any of many needles in one text. The time grows with the text and not with the number of needles (Aho-Corasick).

    a long secret   ├─ HEAD ─┼──────────────────────────────────────────────┤
    its needles     ├─ head ─┼─ compared ────────┤
                        step ├─ head ─┼─ compared ────────┤
                                          step ├─ head ─┼─ …

The automaton holds heads only; what follows a head is compared. So a part of a secret is found from its first whole head on, as far as it goes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

HEAD = 64
"""Bytes by which a longer needle is recognised."""

_MOST_PIECES = 256

_HEADS_AT_ONCE = 2048
"""Heads of one automaton. To make an automaton is one call into C, which no other thread of the process can interrupt: for the secrets of one environment, at
most 2 MiB, it would take a quarter of a second in one piece and takes ten milliseconds for each piece."""


class Needle(NamedTuple):
    """Bytes to search for, and the mark that stands in their place."""

    data: bytes
    mark: bytes


class Hit(NamedTuple):
    """A needle in a text."""

    start: int
    end: int
    mark: bytes


def pieces(data: bytes) -> Iterator[bytes]:
    """The needles of one secret: at most 256, one each HEAD bytes or more, each long enough to overlap the head of the next."""
    step = max(HEAD, len(data) // _MOST_PIECES)
    for at in range(0, max(1, len(data) - HEAD + 1), step):
        yield data[at : at + step + HEAD]


class Finder:
    """Finds needles in one text."""

    def __init__(self, needles: Iterable[Needle]) -> None:
        """Of two needles with the same bytes the first gives the mark."""
        from ahocorasick_rs import BytesAhoCorasick  # noqa: PLC0415 - only where something is searched for

        self._marks: dict[bytes, bytes] = {}
        for needle in needles:
            _ = self._marks.setdefault(needle.data, needle.mark)
        self._with_head: dict[bytes, list[bytes]] = {}
        for data in sorted(self._marks):
            self._with_head.setdefault(data[:HEAD], []).append(data)
        self.heads = list(self._with_head)
        """What is searched for, in order."""
        self._firsts = frozenset(head[0] for head in self.heads)
        self._searches = [
            (at, BytesAhoCorasick(self.heads[at : at + _HEADS_AT_ONCE]))
            for at in range(0, len(self.heads), _HEADS_AT_ONCE)
        ]
        self.longest = max(map(len, self._marks), default=0)

    def places(self, text: bytes) -> list[tuple[int, int, int]]:
        """Every head in the text, overlapping ones too, in the order of their ends: its place in `heads`, where it begins and where it ends."""
        found = [
            (first + number, start, end)
            for first, search in self._searches
            for number, start, end in search.find_matches_as_indexes(text, overlapping=True)
        ]
        return sorted(found, key=_end_and_start) if len(self._searches) > 1 else found

    def hits(self, text: bytes) -> Iterator[Hit]:
        """Every needle in the text, overlapping ones too; of a long one what is there, from its head on."""
        for number, start, end in self.places(text):
            head = self.heads[number]
            if len(head) < HEAD:
                yield Hit(start, end, self._marks[head])
            else:
                there = text[start : start + self.longest]
                size, _, data = max((_common(data, there), -len(data), data) for data in self._with_head[head])
                yield Hit(start, start + size, self._marks[data])

    def begun(self, text: bytes, least: int = 1) -> tuple[int, bytes] | None:
        """Where the first needle begins that the end of the text cuts off after at least `least` bytes, and its mark."""
        tail = max(0, len(text) - self.longest)
        if self.longest > HEAD <= len(text) - tail:
            for number, start, _ in self.places(text[tail:]):
                for data in self._with_head[self.heads[number]]:
                    if len(data) > len(text) - tail - start and data.startswith(text[tail + start :]):
                        return tail + start, self._marks[data]
        for start in range(max(0, len(text) - HEAD + 1), len(text) - least + 1):
            if text[start] in self._firsts:
                end = text[start:]
                for head in self.heads[(at := bisect_right(self.heads, end)) : at + 1]:
                    if head.startswith(end):
                        return start, self._marks[self._with_head[head][0]]
        return None

    def ending(self, text: bytes, least: int) -> tuple[int, bytes] | None:
        """How far the end of a needle reaches whose beginning was lost in front of the text, at least `least` bytes of it; and its mark."""
        best = None
        for data, mark in self._marks.items() if len(text) >= least else ():
            at = data.find(text[:least], 1)
            while at >= 0 and not text.startswith(data[at:]):
                at = data.find(text[:least], at + 1)
            if at >= 0 and (best is None or len(data) - at > best[0]):
                best = len(data) - at, mark
        return best


def _end_and_start(place: tuple[int, int, int]) -> tuple[int, int]:
    _, start, end = place
    return end, start


def _common(one: bytes, other: bytes) -> int:
    """How many bytes at their beginning are the same."""
    if other.startswith(one):
        return len(one)
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(other))
