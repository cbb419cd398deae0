r"""What a secret looks like when its value is not known: the tokens of well-known services, private keys, passwords in URLs and headers.

A shape begins with fixed bytes, so one search finds every place where a shape may begin (`finder`). It is bounded, so a stream knows how long it must wait.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from watchkeeper.redaction.finder import Finder, Needle

_WORD = "[A-Za-z0-9_-]"
_ALNUM = "[A-Za-z0-9]"
_SPACE = r"(?:[ \t\r\n]|\\{1,8}[nrt])"
_HOST = r"[^\s/:@\"'`\\<>()\[\]{}|]"
_PASSWORD = r"[^\s/@\"'`\\<>\[\]|]"  # noqa: S105 - a pattern
_SIGN = r"[\"'\s:=\\]{1,16}"
_KEY_BODY = r"[A-Za-z0-9+/=\s\\]"
_LONGEST_TOKEN = 1024
_LONGEST_KEY = 16384
_LONGEST_PART_OF_JWT = 4096
_DISTINCT = 8
_SHORTEST_RANDOM = 16


class Shape(NamedTuple):
    """One kind of secret. `rest` and `cut` are patterns of what follows the first `fixed` bytes of a start."""

    name: str
    """What it is called in a mark and in a refusal."""
    starts: tuple[bytes, ...]
    """How it begins, in any case: the search for them takes capitals and small letters for the same."""
    rest: str
    """The rest of the shape. Its group is what is secret; without a group all of it is, the start too."""
    cut: str
    """What the end of the data may leave of the rest, each beginning of it at least."""
    longest: int = _LONGEST_TOKEN + 64
    fixed: int | None = None
    """None: all bytes of a start."""
    any_case: bool = False

    @property
    def hides_all(self) -> bool:
        """Whether nothing of it is shown."""
        return re.compile(self.rest).groups == 0

    def pattern(self, start: bytes, rest: str) -> re.Pattern[bytes]:
        """A pattern of what begins with this start and continues like `rest`."""
        pattern = re.escape(start[: self.fixed]) + rest.encode("latin-1")
        return re.compile(pattern, re.DOTALL | (re.IGNORECASE if self.any_case else 0))


def _token(name: str, starts: str, letters: str, least: int, most: int = _LONGEST_TOKEN) -> Shape:
    return Shape(name, tuple(starts.encode().split()), f"{letters}{{{least},{most}}}", f"{letters}{{0,{most}}}")


_PRIVATE_KEY = Shape(
    name="private key",
    starts=(b"-----BEGIN ",),
    rest=f"[A-Z0-9 ]{{0,30}}PRIVATE KEY[A-Z ]{{0,6}}-----{_SPACE}{{1,16}}[A-Za-z0-9+/=]{{40,512}}{_KEY_BODY}{{0,{_LONGEST_KEY}}}",
    cut=f"[A-Z0-9 -]{{0,60}}{_KEY_BODY}{{0,{_LONGEST_KEY + 700}}}",
    longest=_LONGEST_KEY + 800,
)

_JWT = Shape(
    name="JWT",
    starts=(b"eyJ",),
    # A token does not begin far behind the beginning of its word. So a long word of many beginnings is not read once for each of them.
    rest=rf"(?<!{_WORD}{{67}}){_WORD}{{10,{_LONGEST_PART_OF_JWT}}}+\.{_WORD}{{10,{_LONGEST_PART_OF_JWT}}}+\.{_WORD}{{16,{_LONGEST_PART_OF_JWT}}}",
    cut=rf"(?<!{_WORD}{{67}}){_WORD}{{0,{_LONGEST_PART_OF_JWT}}}+(?:\.{_WORD}{{0,{_LONGEST_PART_OF_JWT}}}+){{0,2}}",
    longest=3 * _LONGEST_PART_OF_JWT + 8,
)

_ADDRESS = Shape(
    name="password in an address",
    starts=(b":/", b":\\"),
    fixed=1,
    rest=rf"\\{{0,8}}/\\{{0,8}}/{_HOST}{{0,128}}:({_PASSWORD}{{1,512}})@",
    cut=rf"\\{{0,8}}(?:/\\{{0,8}}(?:/{_HOST}{{0,128}}(?::{_PASSWORD}{{0,512}})?)?)?",
    longest=700,
)

_HEADER = Shape(
    name="authorization header",
    starts=(b"Authorization",),
    rest=rf"{_SIGN}(?:bearer|basic|token)[ \t]{{1,4}}([A-Za-z0-9._~+/=-]{{12,{_LONGEST_TOKEN}}})",
    cut=rf"(?:{_SIGN})?[a-z]{{0,6}}[ \t]{{0,4}}[A-Za-z0-9._~+/=-]{{0,{_LONGEST_TOKEN}}}",
    any_case=True,
)

_AWS_SECRET = Shape(
    name="AWS secret key",
    starts=(b"secret_access_key", b"SecretAccessKey"),
    rest=f"{_SIGN}([A-Za-z0-9/+]{{40}})",
    cut=f"(?:{_SIGN})?[A-Za-z0-9/+]{{0,39}}",
    longest=96,
    any_case=True,
)

SHAPES: tuple[Shape, ...] = (
    _PRIVATE_KEY,
    _JWT,
    _ADDRESS,
    _HEADER,
    _AWS_SECRET,
    _token("Anthropic key", "sk-ant-", _WORD, 20),
    _token("OpenAI key", "sk-proj- sk-svcacct- sk-admin-", _WORD, 20),
    _token("OpenRouter key", "sk-or-v1-", _WORD, 20),
    _token("API key", "sk- sk_live_ rk_live_", _ALNUM, 24),
    _token("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", _ALNUM, 30),
    _token("GitHub token", "github_pat_", "[A-Za-z0-9_]", 22),
    _token("GitLab token", "glpat-", _WORD, 20),
    _token("Slack token", "xoxb- xoxp- xoxa- xoxr- xoxs- xapp-", "[A-Za-z0-9-]", 16),
    _token("AWS key id", "AKIA ASIA", "[A-Z0-9]", 16, 16),
    _token("Google key", "AIza", _WORD, 35, 64),
    _token("npm token", "npm_", _ALNUM, 36),
    _token("Hugging Face token", "hf_", _ALNUM, 30),
)
"""All of them. Where two begin at the same letter the earlier one counts."""

LONGEST = max(shape.longest for shape in SHAPES)
"""Bytes of the longest one."""


class Token(NamedTuple):
    """What has the shape of a secret: the range that is secret, and the place of its shape among `SHAPES`."""

    start: int
    end: int
    shape: int


class Sighting(NamedTuple):
    """A secret that was recognised by its shape."""

    name: str
    value: str


class _Searched(NamedTuple):
    """Finds the starts. For each of them, in order: the place of its shape among `SHAPES`, and the start itself."""

    finder: Finder
    starts: list[tuple[int, bytes]]

    def whole(self, head: int) -> tuple[int, re.Pattern[bytes]]:
        """The shape of a start that was found, and the pattern of all of it."""
        number, start = self.starts[head]
        return number, _pattern(number, start, SHAPES[number].rest)

    def cut(self, head: int) -> re.Pattern[bytes]:
        """The pattern of what the end of the data leaves of it."""
        number, start = self.starts[head]
        return _pattern(number, start, rf"(?:{SHAPES[number].cut})\Z")


@cache
def _pattern(number: int, start: bytes, rest: str) -> re.Pattern[bytes]:
    """Compiled when its start is found for the first time: to compile all of them takes a tenth of the time of a hand-over."""
    return SHAPES[number].pattern(start, rest)


@lru_cache(maxsize=1)
def _searched() -> _Searched:
    by_start = {start.lower(): (number, start) for number, shape in enumerate(SHAPES) for start in shape.starts}
    finder = Finder(Needle(start, start) for start in by_start)
    return _Searched(finder, [by_start[head] for head in finder.heads])


def tokens(data: bytes, start: int, until: int) -> Iterator[Token]:
    """What has the shape of a secret and begins from `start` on and before `until`; ranges may overlap."""
    searched = _searched()
    for head, at, _ in searched.finder.places(data.lower()):
        if start <= at < until:
            shape, whole = searched.whole(head)
            if (found := whole.match(data, at)) is not None:
                yield Token(*found.span(found.lastindex or 0), shape)


def undecided(data: bytes, start: int) -> int:
    """The first position from `start` on from which something with a shape may reach beyond the end of the data; its length if there is none."""
    searched = _searched()
    finder = searched.finder
    start = max(start, len(data) - LONGEST)
    tail = data[start:].lower()
    begun = finder.begun(tail)
    cut = (start + at for head, at, _ in finder.places(tail) if searched.cut(head).match(data, start + at))
    return min(next(cut, len(data)), len(data) if begun is None else start + begun[0])


def sightings(text: str) -> list[Sighting]:
    """What in a text looks like a real secret: placeholders, such as `sk-ant-xxxxxxxx…` or `user:password@`, do not count."""
    data = text.encode("utf-8", "surrogatepass")
    found = sorted(tokens(data, 0, len(data)), key=lambda token: token.shape)
    seen = [(SHAPES[token.shape], data[token.start : token.end].decode("utf-8", "replace")) for token in found]
    return [Sighting(shape.name, value) for shape, value in seen if not _is_placeholder(shape, value)]


_PLACEHOLDER = re.compile(
    r"(?i)^[$%*.{<]|example|placeholder|redacted|your[-_]|x{4,}|\*{3,}|dummy|changeme|^(?:pass|passw|password|passwd|pwd|pw|secret|"
    r"token|postgres|mysql|root|test|admin|user|guest|foo|bar|123456?)$"
)


def _is_placeholder(shape: Shape, value: str) -> bool:
    """Whether it only shows what a secret looks like."""
    if shape is _PRIVATE_KEY:
        return False
    return _PLACEHOLDER.search(value) is not None or (shape is not _ADDRESS and len(set(value)) < _DISTINCT)


def looks_random(text: str) -> bool:
    """Whether a word of a command line looks like a credential and not like a name, a path or a number."""
    if len(text) < _SHORTEST_RANDOM or not re.fullmatch(r"[A-Za-z0-9._~+=!#%&*@^-]+", text):
        return False
    kinds = sum(1 for kind in (r"[a-z]", r"[A-Z]", r"\d") if re.search(kind, text))
    return kinds > 1 and len(set(text)) >= _DISTINCT and _PLACEHOLDER.search(text) is None
