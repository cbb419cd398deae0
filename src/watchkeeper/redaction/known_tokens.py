"""What a secret looks like when nobody has named it: the tokens of well-known services, private keys, passwords in addresses and headers.

A shape begins with plain letters, so that a search can skip whatever does not begin like one, and is bounded, so that a stream knows how long it must wait.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Atom = tuple[str, str | None]
"""A part of a pattern that is matched, and what its beginnings look like; None if it has none but nothing."""

_WORD = "[A-Za-z0-9_-]"
_ALNUM = "[A-Za-z0-9]"
_SLASH: Atom = (r"\\{0,8}/", r"\\{1,8}")
_SPACE = r"(?:[ \t\r\n]|\\{1,8}[nrt])"
_IN_ADDRESS = r"[^\s/:@\"'`\\<>()\[\]{}|]"
_PASSWORD = r"[^\s/@\"'`\\<>\[\]|]"  # noqa: S105 - a pattern
_KEY_BODY = r"[A-Za-z0-9+/=\s\\]"
_LONGEST_TOKEN = 1024
_LONGEST_KEY = 16384
_LONGEST_PART_OF_JWT = 4096
_DISTINCT = 8
_SHORTEST_RANDOM = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One kind of secret."""

    name: str
    """What it is called in a mark and in a refusal."""
    starts: tuple[bytes, ...]
    """How it begins, in plain letters."""
    rest: tuple[Atom, ...]
    keeps: int = 0
    """How many atoms of the rest are shown: an address is kept, the password in it is not. With 0 everything goes, the start too."""
    drops_last: bool = False
    """The last atom only ends it, and is shown."""
    any_case: bool = False
    longest: int = _LONGEST_TOKEN + 64

    def patterns(self) -> list[tuple[str, str]]:
        """For each start its first letter and a pattern of what follows, with one group: what is secret in it, or empty if all of it is."""
        rest = [full for full, _ in self.rest]
        if not self.keeps:
            return [(chr(start[0]), self._cased(_byte(start[1:]) + "".join(rest)) + "()") for start in self.starts]
        end = len(rest) - 1 if self.drops_last else len(rest)
        shown, secret, after = ("".join(part) for part in (rest[: self.keeps], rest[self.keeps : end], rest[end:]))
        return [(chr(start[0]), self._cased(f"{_byte(start[1:])}{shown}({secret}){after}")) for start in self.starts]

    def cut_patterns(self) -> list[tuple[str, str]]:
        """The same for what the end of the data cuts off, without a group."""
        return [
            (chr(start[0]), self._cased(rf"(?:\Z|{begun([*literal(start[1:]), *self.rest])})")) for start in self.starts
        ]

    def _cased(self, pattern: str) -> str:
        return f"(?i:{pattern})" if self.any_case else pattern


def literal(text: bytes) -> list[Atom]:
    """The atoms of bytes that can be written in one way only."""
    return [(_byte(bytes([byte])), None) for byte in text]


def begun(atoms: Sequence[Atom]) -> str:
    r"""A pattern of every beginning of these atoms that reaches the end of the data, the empty one excepted."""
    pattern = ""
    for full, part in reversed(atoms):
        cut = rf"{part}\Z" if part is not None else ""
        later = rf"{full}(?:\Z|{pattern})" if pattern else ""
        pattern = "(?:" + "|".join(each for each in (cut, later) if each) + ")" if cut or later else ""
        if not pattern:
            pattern = "(?!)"  # the last atom is whole or not there
    return pattern


def _byte(text: bytes) -> str:
    return re.escape(text).decode("latin-1")


def _run(letters: str, least: int, most: int = _LONGEST_TOKEN) -> Atom:
    return f"{letters}{{{least},{most}}}", f"{letters}{{0,{most}}}"


def _token(name: str, start: str, letters: str, least: int, most: int = _LONGEST_TOKEN) -> Shape:
    starts = tuple(each.encode() for each in start.split())
    return Shape(name=name, starts=starts, rest=(_run(letters, least, most),))


_PRIVATE_KEY = Shape(
    name="private key",
    starts=(b"-----BEGIN ",),
    rest=(
        _run("[A-Z0-9 ]", 0, 30),
        *literal(b"PRIVATE KEY"),
        _run("[A-Z ]", 0, 6),
        *literal(b"-----"),
        (rf"{_SPACE}{{1,16}}", rf"{_SPACE}{{0,16}}\\{{0,8}}"),
        _run("[A-Za-z0-9+/=]", 40, 512),
        _run(_KEY_BODY, 0, _LONGEST_KEY),
    ),
    longest=_LONGEST_KEY + 800,
)

_JWT = Shape(
    name="JWT",
    starts=(b"eyJ",),
    rest=(
        _run(_WORD, 10, _LONGEST_PART_OF_JWT),
        *literal(b"."),
        _run(_WORD, 10, _LONGEST_PART_OF_JWT),
        *literal(b"."),
        _run(_WORD, 16, _LONGEST_PART_OF_JWT),
    ),
    longest=3 * _LONGEST_PART_OF_JWT + 8,
)

_ADDRESS = Shape(
    name="password in an address",
    starts=(b":",),
    rest=(_SLASH, _SLASH, _run(_IN_ADDRESS, 0, 128), *literal(b":"), _run(_PASSWORD, 1, 512), *literal(b"@")),
    keeps=4,
    drops_last=True,
    longest=700,
)

_SIGN = (r"[\"'\s:=\\]{1,16}", r"[\"'\s:=\\]{0,16}")

_HEADER = Shape(
    name="authorization header",
    starts=(b"Authorization", b"authorization", b"AUTHORIZATION"),
    rest=(
        _SIGN,
        (r"(?:bearer|basic|token)[ \t]{1,4}", "[a-z]{0,6}[ \t]{0,4}"),
        _run("[A-Za-z0-9._~+/=-]", 12),
    ),
    keeps=2,
    any_case=True,
    longest=_LONGEST_TOKEN + 64,
)

_AWS_SECRET = Shape(
    name="AWS secret key",
    starts=(b"secret_access_key", b"SecretAccessKey", b"SECRET_ACCESS_KEY"),
    rest=(_SIGN, _run("[A-Za-z0-9/+]", 40, 40)),
    keeps=1,
    longest=96,
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


_JWT_START = b"eyJ"
_JWT_MOST = len(_JWT_START) + _LONGEST_PART_OF_JWT
_JWT_LEAST = len(_JWT_START) + 10
_LETTERS_OF_JWT = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_JWT_RUN = re.compile(rf"{_WORD}*+".encode())
_JWT_REST = re.compile(rf"\.{_WORD}{{10,{_LONGEST_PART_OF_JWT}}}\.{_WORD}{{16,{_LONGEST_PART_OF_JWT}}}".encode())


def jwts(data: bytes, start: int, until: int) -> Iterator[tuple[int, int]]:
    """Where JWTs that begin from `start` on and before `until` begin and end.

    All that begin in one run of letters end in the same place, so each run is looked at once, however often it may begin one.
    """
    at = data.find(_JWT_START, start)
    while 0 <= at < until:
        end = _end_of_run(data, at)
        first = data.find(_JWT_START, max(at, end - _JWT_MOST), end)
        if 0 <= first < until and end - first >= _JWT_LEAST and (rest := _JWT_REST.match(data, end)) is not None:
            yield first, rest.end()
        at = data.find(_JWT_START, end)


def jwt_begun(data: bytes, start: int) -> int:
    """The first position from `start` on from which a JWT may reach beyond the end of the data; its length if there is none."""
    end, least, found = len(data), 0, len(data)
    for part in range(3):
        begin = max(start, len(data[start:end].rstrip(_LETTERS_OF_JWT)) + start)
        size = end - begin
        if part < 2 or size >= _JWT_LEAST:
            first = data.find(_JWT_START, max(begin, end - _JWT_MOST), end)
            if first >= 0 and end - first >= least:
                found = first
            elif part == 0:
                found = next((end - cut for cut in (2, 1) if data[begin:end].endswith(_JWT_START[:cut])), found)
        if size > _LONGEST_PART_OF_JWT or size < (0, 10, 10)[part] or begin <= start or data[begin - 1] != ord("."):
            break
        end, least = begin - 1, _JWT_LEAST
    return found


def _end_of_run(data: bytes, at: int) -> int:
    found = _JWT_RUN.match(data, at)
    return at if found is None else found.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A secret that was recognised by its shape."""

    name: str
    value: str


def sightings(text: str) -> list[Sighting]:
    """What in a text looks like a real secret: placeholders, such as `sk-ant-xxxxxxxx…` or `user:password@`, do not count."""
    data = text.encode("utf-8", "surrogatepass")
    found: list[Sighting] = []
    for shape in SHAPES:
        for value in _values(shape, data):
            if not _is_placeholder(shape, value):
                found.append(Sighting(name=shape.name, value=value))  # noqa: PERF401 - a comprehension of three levels
    return found


def _values(shape: Shape, data: bytes) -> Iterator[str]:
    if shape is _JWT:
        yield from (data[first:last].decode("utf-8", "replace") for first, last in jwts(data, 0, len(data)))
        return
    for first, rest in shape.patterns():
        for match in re.finditer((re.escape(first) + rest).encode("latin-1"), data, re.DOTALL):
            yield (match.group(1) or match.group()).decode("utf-8", "replace")


_PLACEHOLDER = re.compile(
    r"(?i)^[$%*.{<]|example|placeholder|redacted|your[-_]|x{4,}|\*{3,}|dummy|changeme|^(?:pass|passw|password|passwd|pwd|pw|secret|"
    r"token|postgres|mysql|root|test|admin|user|guest|foo|bar|123456?)$"
)


def _is_placeholder(shape: Shape, value: str) -> bool:
    """Whether somebody wrote it to show what a secret looks like."""
    if shape is _PRIVATE_KEY:
        return False
    if shape is _ADDRESS:
        return _PLACEHOLDER.search(value) is not None
    return _PLACEHOLDER.search(value) is not None or len(set(value)) < _DISTINCT


def looks_random(text: str) -> bool:
    """Whether a word of a command line looks like a credential and not like a name, a path or a number."""
    if len(text) < _SHORTEST_RANDOM or not re.fullmatch(r"[A-Za-z0-9._~+=!#%&*@^-]+", text):
        return False
    kinds = sum(1 for kind in (r"[a-z]", r"[A-Z]", r"\d") if re.search(kind, text))
    return kinds > 1 and len(set(text)) >= _DISTINCT and _PLACEHOLDER.search(text) is None
