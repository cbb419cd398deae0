"""What is secret is hidden, however it is spelled and however the stream is cut, and nothing else is touched."""

import base64
import hashlib
import json
import random
import re
import time
from collections.abc import Callable
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from watchkeeper.redaction.engine import Redactor
from watchkeeper.redaction.known_tokens import SHAPES, sightings
from watchkeeper.redaction.variables import SHORTEST, Secret, is_secret_name, secrets_of, url_holds_secret
from watchkeeper.redaction.views import plain

AWKWARD = 'pa"ss\\wo/rd.*+\n(é)😀\t$x'
TOKEN = "q7Hn4kZx2Lw9Rt5v"

NOISE = st.text(alphabet="<>{}, \n", max_size=12).map(str.encode)
LETTERS = st.text(alphabet='abcAB19"\\/\n-_+é😀%u0', min_size=8, max_size=24).map(lambda text: f"q{text}z")
BACKSLASHES = st.sampled_from([1, 2, 3, 4, 7])


def spellings(letter: str) -> list[str]:
    """Ways to write one character, of the kinds that JSON and addresses know."""
    ways = [letter, json.dumps(letter)[1:-1], json.dumps(json.dumps(letter))[3:-3], quote(letter, safe="")]
    ways += [quote(letter, safe="").lower()] if letter not in "AB" else []
    if letter == "/":
        ways += [r"\/", r"\\\/"]
    if ord(letter) < 0x10000 and letter != "\\":
        ways += [f"\\u{ord(letter):04x}", f"\\\\u{ord(letter):04X}"]
    return ways


@st.composite
def spelled(draw: st.DrawFn, secret: str) -> bytes:
    """A secret, each character in a spelling of its own."""
    # Backslashes in a row share one spelling: no program writes them in a mixture.
    way = draw(st.integers(0, 2))
    return "".join(
        spellings(letter)[way] if letter == "\\" else draw(st.sampled_from(spellings(letter))) for letter in secret
    ).encode()


@st.composite
def cut(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The same bytes in pieces."""
    at = sorted({0, len(data), *draw(st.lists(st.integers(0, len(data)), max_size=12))})
    return [data[start:end] for start, end in pairwise(at)]


def streamed(redactor: Redactor, pieces: list[bytes]) -> bytes:
    stream = redactor.stream()
    return b"".join([*(stream.feed(piece) for piece in pieces), stream.finish()])


@given(st.data(), LETTERS)
def test_no_planted_secret_survives(data: st.DataObject, secret: str) -> None:
    """Whatever mixture of spellings: what stands around it stays, in its place is the mark."""
    # What is itself an escape, in other escapes letter by letter, cannot be recognised, nor what is hardly anything but escapes. They have a test of their own.
    assume("\\u" not in secret and len(plain(secret.encode())) >= SHORTEST)
    planted, before, after = data.draw(spelled(secret)), data.draw(NOISE), data.draw(NOISE)
    redactor = Redactor([Secret("NAME", secret)])
    whole = before + planted + after
    assert redactor.data(whole) == before + b"[redacted NAME]" + after
    assert streamed(redactor, data.draw(cut(whole))) == redactor.data(whole)


@given(st.data(), st.lists(LETTERS, min_size=1, max_size=4))
def test_cuts_make_no_difference(data: st.DataObject, secrets: list[str]) -> None:
    """Of any mixture of secrets, beginnings of secrets, secrets that overlap, things that look secret, and noise."""
    redactor = Redactor([Secret(f"N{number}", secret) for number, secret in enumerate(secrets)])
    parts: list[bytes] = []
    for secret in data.draw(st.lists(st.sampled_from(secrets), max_size=6)):
        written = data.draw(spelled(secret))
        start = data.draw(st.integers(0, 3))
        parts += [written[start : data.draw(st.integers(start, len(written)))], data.draw(NOISE)]
        parts.append(
            data.draw(
                st.sampled_from([b"", b"sk-ant-" + b"a1B2" * 6, b"://u:p", b"ghp_abc", b"Authorization: Bearer "])
            )
        )
    whole = b"".join(parts)
    assert streamed(redactor, data.draw(cut(whole))) == redactor.data(whole)
    assert streamed(redactor, [whole[at : at + 1] for at in range(len(whole))]) == redactor.data(whole)


@given(st.binary(max_size=300))
def test_bytes_without_secrets_are_unchanged(data: bytes) -> None:
    """No secret of the alphabet of noise: any bytes, valid or not, come out as they went in."""
    assert streamed(Redactor([Secret("N", "\u4e00\u4e01\u4e02\u4e03" * 4)]), [data[:7], data[7:]]) == data


@given(st.text(max_size=200))
def test_texts_without_secrets_are_unchanged(text: str) -> None:
    """The very same text, halves of surrogates and all."""
    assert Redactor([Secret("N", TOKEN)]).text(text) == text


@given(st.data())
def test_no_more_is_held_than_the_longest_secret(data: st.DataObject) -> None:
    """And nothing at all where nothing has begun."""
    redactor = Redactor([Secret("N", TOKEN)])
    stream = redactor.stream()
    pieces = [b"q7Hn", TOKEN.encode(), b"sk-ant-", b"\\", b"eyJ" + b"a" * 5000, b"://" + b"u" * 90, b"xy \n"]
    for piece in data.draw(st.lists(st.sampled_from(pieces), max_size=20)):
        _ = stream.feed(piece)
        assert stream.held <= redactor.longest
        assert stream.held == 0 or piece != b"xy \n"
    assert redactor.stream().feed(b"Continue? [y/n] ") == b"Continue? [y/n] "


def test_a_secret_is_found_in_json_within_json() -> None:
    """Three levels deep, as a tool's answer in an event in a tool's answer is."""
    redactor, told = Redactor([Secret("P", AWKWARD)]), AWKWARD
    for _ in range(4):
        assert "[redacted P]" in redactor.text(told)
        assert "ss" not in redactor.text(told)
        told = json.dumps({"text": told})
    for ascii_only in (True, False):
        line = json.dumps({"text": f"it is {AWKWARD}!"}, ensure_ascii=ascii_only)
        assert json.loads(redactor.text(line)) == {"text": "it is [redacted P]!"}


def test_overlapping_secrets_are_hidden_as_one() -> None:
    """Nothing of the second one stays behind."""
    redactor = Redactor([Secret("ONE", "abcdefghXY"), Secret("TWO", "XYijklmnop"), Secret("SHORT", "abcdefgh")])
    assert redactor.text("-abcdefghXYijklmnop-") == "-[redacted ONE]-"
    assert redactor.text("-abcdefgh-abcdefghXY-") == "-[redacted SHORT]-[redacted ONE]-"
    assert Redactor([Secret("A", "a" * 8)]).text("-" + "a" * 30 + "-") == "-[redacted A]-"


def test_the_longer_of_two_names_for_one_beginning_counts() -> None:
    """A secret that is the beginning of another one hides none of it wrongly, whichever comes first."""
    pair = [Secret("LONG", f"{TOKEN}-more"), Secret("BASE", TOKEN)]
    for redactor in (Redactor(pair), Redactor(pair[::-1])):
        assert redactor.text(f"{TOKEN}-more {TOKEN}-mor") == "[redacted LONG] [redacted BASE]-mor"


@pytest.mark.parametrize("before", ["", "u:", "user:", "someone:"])
def test_base64_of_a_secret_is_hidden(before: str) -> None:
    """Wherever in what was encoded it stands, as in a header that signs in."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        encoded = encode(f"{before}{TOKEN}?>~{TOKEN}".encode()).decode()
        shown = Redactor([Secret("T", TOKEN)]).text(f"<{encoded}>")
        assert shown.count("[redacted T]") == 2
        assert len(shown.replace("[redacted T]", "")) < 28


def test_secrets_that_are_no_utf8() -> None:
    """As bytes, as Python writes them in JSON, and as programs show what they cannot decode."""
    raw = b"caf\xe9-pass\xffword"
    secret = raw.decode("utf-8", "surrogateescape")
    redactor = Redactor([Secret("B", secret)])
    assert redactor.data(b"<" + raw + b">") == b"<[redacted B]>"
    assert redactor.text(json.dumps(secret)) == '"[redacted B]"'
    assert redactor.text(raw.decode("utf-8", "replace")) == "[redacted B]"
    assert redactor.text(secret) == "[redacted B]"


def test_what_is_short_is_not_looked_for() -> None:
    assert Redactor([Secret("N", "abcdefg")]).text("abcdefg") == "abcdefg"


def test_the_beginning_of_a_secret_is_hidden_where_something_was_cut_off() -> None:
    """At an ellipsis, at the end of a long text, and at a hole in a log."""
    redactor = Redactor([Secret("N", TOKEN)])
    assert redactor.text(f"it is {TOKEN[:9]}…") == "it is [redacted N]…"
    assert redactor.text("." * 300 + TOKEN[:9]) == "." * 300 + "[redacted N]"
    assert redactor.text(f"it is {TOKEN[:9]}") == f"it is {TOKEN[:9]}"
    assert redactor.data(b"it is " + TOKEN[:9].encode(), cut=True) == b"it is [redacted N]"
    stream = redactor.stream()
    assert stream.resume(TOKEN[5:].encode() + b" it was") + stream.finish() == b"[redacted N] it was"
    assert stream.resume(b"5v it was") + stream.finish() == b"5v it was"


WRAPPED = ["\n", "\r\n", "\\n", "\\r\\n", "\\\\n", "\n    ", "%0A"]


@pytest.mark.parametrize("columns", [64, 76])
@pytest.mark.parametrize("broken", WRAPPED)
def test_base64_on_several_lines_is_hidden(columns: int, broken: str) -> None:
    """Wherever in a line it begins, whatever breaks the lines, and however the stream is cut."""
    redactor, secret = Redactor([Secret("T", TOKEN * 3)]), TOKEN * 3
    for before in range(40, 90, 3):
        whole = base64.b64encode(("." * before + secret + "." * 80).encode()).decode()
        data = broken.join(whole[at : at + columns] for at in range(0, len(whole), columns)).encode()
        shown = redactor.data(data)
        assert shown.count(b"[redacted T]") == 1 and len(shown) < len(data) - 4 * len(secret) // 3 + 20
        assert streamed(redactor, [data[at : at + 1] for at in range(len(data))]) == shown
        assert streamed(redactor, [data[at : at + 7] for at in range(0, len(data), 7)]) == shown


def _within(depth: int, text: str, encode: Callable[[str], str]) -> str:
    for _ in range(depth):
        text = encode(text)
    return text


SPOKEN = 'correct "horse" battery/staple + x'


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize(
    "encode", [quote, quote_plus, lambda text: quote(text, safe=""), lambda text: json.dumps(text)[1:-1]]
)
def test_an_escape_of_an_escape_is_hidden(depth: int, encode: Callable[[str], str]) -> None:
    """As an address in an address is, and a blank as `+`."""
    assert Redactor([Secret("S", SPOKEN)]).text(f"<{_within(depth, SPOKEN, encode)}>") == "<[redacted S]>"


@pytest.mark.parametrize("skipped", range(3))
@pytest.mark.parametrize("ascii_only", [True, False])
def test_base64_of_json_is_hidden(skipped: int, ascii_only: bool) -> None:
    """And base64 of base64, as a registry's sign-in in the secret of a cluster."""
    secret = f"{SPOKEN}é"
    text = json.dumps({"." * skipped: secret}, ensure_ascii=ascii_only)
    shown = Redactor([Secret("S", secret)]).text(base64.b64encode(text.encode()).decode())
    assert "[redacted S]" in shown and len(shown) < 50
    twice = base64.b64encode(b'{"auth":"' + base64.b64encode(b"." * skipped + TOKEN.encode()) + b'"}').decode()
    assert "[redacted T]" in Redactor([Secret("T", TOKEN)]).text(twice)


def test_secrets_of_backslashes_and_percents_are_hidden() -> None:
    """As they are, in JSON three deep, and in an address: they may be read as escapes themselves."""
    for secret in ("\\\\server\\\\q", "\\" * 9 + "z", "50%41%41%zz", "abc\\u0041bcd%", "%%%%%%%%%%"):
        redactor = Redactor([Secret("S", secret)])
        for encode in (lambda text: json.dumps(text)[1:-1], lambda text: quote(text, safe="")):
            for depth in range(3):
                shown = redactor.text(f"<{_within(depth, secret, encode)}>")
                assert shown.strip("\\%25") == "<[redacted S]>" or shown.startswith("<[redacted S]"), (secret, shown)


def test_a_secret_is_held_from_before_its_first_escape() -> None:
    """The first piece holds no escape yet, and the plain spelling of such a secret is too short to be looked for."""
    secret = r"Tr0ub\4%1"
    (known,) = secrets_of({"DB_PASSWORD": secret})
    whole = f"pw: {secret} end\n".encode()
    for cut in range(len(whole)):
        stream = Redactor([known]).stream()
        shown = stream.feed(whole[:cut]) + stream.feed(whole[cut:]) + stream.finish()
        assert shown == b"pw: [redacted DB_PASSWORD] end\n", cut


def _wrapped(text: str) -> str:
    return base64.encodebytes(text.encode()).decode()


ENCODINGS: list[Callable[[str], str]] = [
    str,
    json.dumps,
    lambda text: json.dumps({"text": text}, ensure_ascii=False),
    lambda text: quote(text, safe=""),
    quote_plus,
    lambda text: base64.b64encode(text.encode()).decode(),
    lambda text: base64.urlsafe_b64encode(f"x:{text}".encode()).decode(),
    lambda text: base64.b64encode(json.dumps([text]).encode()).decode(),
    lambda text: json.dumps(_wrapped("-" * 50 + text + "-" * 50)),
    lambda text: quote(base64.b64encode(text.encode()).decode(), safe=""),
    lambda text: json.dumps(json.dumps(text)),
    lambda text: quote(quote(text, safe=""), safe=""),
    lambda text: json.dumps(quote_plus(text)),
]
ANY = st.text(
    alphabet=st.characters(min_codepoint=33, max_codepoint=0x1FFFF, exclude_categories=["Cs", "Cc"]),
    min_size=16,
    max_size=40,
)


@given(st.data(), ANY)
def test_no_secret_remains_in_any_encoding_however_it_is_cut(data: st.DataObject, secret: str) -> None:
    """What is left of it are the letters at its edges that base64 mixes with its neighbours."""
    secret = f"k{secret}v"
    assume(len(re.sub(r"\\+|%[0-9a-fA-F]{0,2}|u[0-9a-fA-F]{4}", "", secret)) >= 16)
    encode = data.draw(st.sampled_from(ENCODINGS))
    planted, before, after = encode(secret).encode(), data.draw(NOISE), data.draw(NOISE)
    redactor = Redactor([Secret("N", secret)])
    whole = before + planted + after
    shown = redactor.data(whole)
    around = len(encode("")) + 10
    assert shown.count(b"[redacted N]") == 1
    assert len(shown) - len(b"[redacted N]") <= len(before) + len(after) + around, (planted, shown)
    assert streamed(redactor, data.draw(cut(whole))) == shown


@given(st.data(), st.integers(8, 3000), st.integers(0, 2**32))
def test_a_stream_hides_what_a_whole_hides(data: st.DataObject, size: int, seed: int) -> None:
    """Secrets of any length, several encodings in a row, any cuts: the same result, and no part of a secret in it."""
    drawn = random.Random(seed)
    secret = "".join(drawn.choice("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNP23456789-+/=") for _ in range(size))
    redactor = Redactor([Secret("N", f"Q{secret}Z")])
    encoded = [encode(f"Q{secret}Z") for encode in data.draw(st.lists(st.sampled_from(ENCODINGS), max_size=4))]
    whole = data.draw(NOISE) + " | ".join(encoded).encode() + data.draw(NOISE)
    shown = redactor.data(whole)
    assert streamed(redactor, data.draw(cut(whole))) == shown
    assert f"Q{secret}Z".encode() not in shown and (size < 16 or b"[redacted N]" in shown or not encoded)


@pytest.mark.parametrize("size", [100, 300, 2_400, 16_000])
def test_a_part_of_a_long_secret_shows_little_of_itself(size: int) -> None:
    """At most 126 letters, and of a longer part at most 63 at its beginning; none at its end."""
    drawn = random.Random(size)
    secret = base64.b64encode(drawn.randbytes(size)).decode()[:size]
    redactor = Redactor([Secret("N", secret)])
    for _ in range(60):
        first = drawn.randrange(size)
        part = secret[first : first + drawn.choice([64, 126, 127, 200, 900, 3000])]
        shown, mark, after = redactor.text(f"{part}|").partition("[redacted N]")
        assert part.startswith(shown.removesuffix("|")) and (after == "|" if mark else len(part) <= 126)
        assert len(shown) <= 63 or not mark


def of_lines(size: int) -> str:
    """A secret of so many bytes, in lines of 64."""
    whole = "".join(hashlib.sha256(f"{number}".encode()).hexdigest() for number in range(size // 64 + 1))
    return "\n".join(whole[at : at + 64] for at in range(0, size, 64))


def test_many_lines_in_every_spelling() -> None:
    """A bundle of keys is hidden line by line, and in JSON, with CR LF, and in base64, nothing of it stays."""
    value = of_lines(8_000)
    redactor = Redactor(secrets_of({"KEYS_SECRET": value}))
    crlf = value.replace("\n", "\r\n")
    encoded = base64.encodebytes(value.encode()).decode()
    for told in (value, crlf, json.dumps(value), json.dumps(json.dumps(crlf)), quote(quote(value)), encoded):
        left = redactor.text(f"<{told}>").replace("[redacted KEYS_SECRET]", "")
        assert len(left) < 80, left


def _seconds(work: Callable[[], object]) -> float:
    """Of the processor, the least of three."""
    took: list[float] = []
    for _ in range(3):
        began = time.process_time()
        _ = work()
        took.append(time.process_time() - began)
    return min(took)


def prepared(size: int) -> bytes:
    return Redactor(secrets_of({"KEYS_SECRET": of_lines(size)})).data(b"nothing of it " * 100)


WORK = {
    "secrets": (prepared, 32_000),
    "text": (lambda size: Redactor([Secret("N", TOKEN)]).data(b'{"a": "b%20c\\n"}' * (size // 16)), 300_000),
    "beginnings of JWTs": (lambda size: Redactor().data(b"eyJ" * (size // 3)), 1_000_000),
    "long parts of JWTs": (lambda size: Redactor().data((b"eyJ" * 1300 + b".") * (size // 3901)), 1_000_000),
    "JWTs in a task": (lambda size: sightings("eyJ" * (size // 3)), 1_000_000),
    "beginnings of a secret": (lambda size: Redactor([Secret("N", "a" * 900)]).data(b"a" * 899 + b"b" * size), 50_000),
    "backslashes": (lambda size: Redactor([Secret("N", TOKEN)]).data(b"\\u0041" + b"\\" * size + b"x\n"), 64_000),
    "a secret of one letter": (lambda size: Redactor([Secret("N", "a" * 900)]).data(b"a" * size), 8_000),
    "one long word": (lambda size: secrets_of({"A_SECRET": "a" * size}), 16_000),
    "blanks in a header": (lambda size: secrets_of({"A_SECRET": "X-A: b" + " b" * (size // 2)}), 16_000),
}


@pytest.mark.parametrize("kind", WORK)
def test_the_work_grows_as_what_is_given(kind: str) -> None:
    """Four times as much takes four times as long, not sixteen times; eight leaves room for a busy machine."""
    work, size = WORK[kind]
    _ = work(size)
    assert _seconds(lambda: work(4 * size)) < 8 * max(_seconds(lambda: work(size)), 0.002)


def test_time_does_not_grow_with_the_number_of_secrets_times_the_text() -> None:
    """A hundred secrets are looked for in little more than the time of one."""
    data = (json.dumps({"text": "The quick brown fox: https://example.org/a:b src/main.py"}).encode() + b"\n") * 8_000
    one, many = (
        Redactor([Secret(f"N{number}", f"{TOKEN}{number:03}") for number in range(count)]) for count in (1, 100)
    )
    assert _seconds(lambda: many.data(data)) < 4 * _seconds(lambda: one.data(data))


REAL = {
    "Anthropic key": "sk-ant-api03-Zk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6Gh0Js",
    "OpenAI key": "sk-proj-Zk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6",
    "API key": "sk-Zk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6Gh",
    "GitHub token": "ghp_Zk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6Gh0Js2Ka7B",
    "GitLab token": "glpat-Zk3x9Qw7Lm2Pv5Rt8Yb1",
    "Slack token": "xoxb-1234567890-Zk3x9Qw7Lm2P",
    "AWS key id": "AKIAZK3X9QW7LM2PV5RT",
    "AWS secret key": "aws_secret_access_key = Zk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6Gh0Js2Ka7Bu9Wt",
    "Google key": "AIzaZk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6Gh0Js2Ka7",
    "npm token": "npm_Zk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6Gh0Js2Ka7B",
    "Hugging Face token": "hf_Zk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6Gh0Js",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "private key": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZWQy\nNTUxOQ==\n",
    "password in an address": "git clone https://me:Zk3x9Qw7Lm2@example.org/x.git",
    "authorization header": 'curl -H "Authorization: Bearer Zk3x9Qw7Lm2Pv5Rt8Yb1"',
}
"""One of each kind, made up."""


@pytest.mark.parametrize(("kind", "text"), REAL.items(), ids=REAL)
def test_well_known_kinds_are_hidden_without_being_known(kind: str, text: str) -> None:
    """In plain text and in JSON, whole and a byte at a time, and they are recognised in what is handed over."""
    redactor = Redactor()
    for written in (text, json.dumps({"text": f"x {text} y"})):
        data = written.encode()
        shown = redactor.data(data)
        assert f"[redacted {kind}]".encode() in shown
        assert b"Zk3x" not in shown and b"b3Blb" not in shown and b"dozjg" not in shown
        assert streamed(redactor, [data[at : at + 1] for at in range(len(data))]) == shown
    assert kind in {sighting.name for sighting in sightings(text)}


def test_every_shape_has_an_example() -> None:
    assert {shape.name for shape in SHAPES} - REAL.keys() == {"OpenRouter key"}


BENIGN = [
    "Set ANTHROPIC_API_KEY to your key (sk-ant-…) and run the tests",
    "Replace sk-ant-xxxxxxxxxxxxxxxxxxxxxxxxxxxx in the docs by a placeholder",
    "The key looks like sk-ant-api03-YOUR_KEY_HERE_PLEASE_REPLACE",
    "redact ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, npm_… and xoxb-… in the log",
    r"add the pattern r'ghp_[A-Za-z0-9]{36}' and r'sk-[a-zA-Z0-9]{48}' to the scanner",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ7n0Zk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6Gh0Js2Ka7 me@host",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEZk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUZk3x9Qw7Lm2Pv5Rt8Yb1Nc4Df6Gh0Js2Ka7Bu9WtXy\n-----END CERTIFICATE-----",
    "write a parser for `-----BEGIN RSA PRIVATE KEY-----` headers, and explain each line of it",
    "use postgres://user:password@localhost:5432/db in the example",
    "clone https://$USER:$TOKEN@github.com/x/y and https://<user>:<token>@host/z",
    "the documented example AKIAIOSFODNN7EXAMPLE with wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "revert 2b85931d07c7a5d3f9e1b6c4a8f0e2d4c6b8a0f1 and look at 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "the scikit package sk-learn-contrib-with-a-very-long-name-and-more and task-runner-for-something",
    "hf_hub_download and npm_config_registry and eyJ are only words",
    "send `Authorization: Bearer <token>` or Authorization: Bearer $TOKEN",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "fix the bug at src/api/http.py:120: see https://example.org:8080/a@b and user@example.org",
]


@pytest.mark.parametrize("text", BENIGN)
def test_what_only_speaks_of_secrets_is_no_secret(text: str) -> None:
    assert sightings(text) == []


@pytest.mark.parametrize(
    "name",
    ["ANTHROPIC_API_KEY", "NPM_TOKEN", "MY_SECRET", "DB_PASSWORD", "db_pass", "AWS_SECRET_ACCESS_KEY", "GH_PAT", "SENTRY_DSN",
     "GOOGLE_CREDENTIALS", "SESSION_COOKIE", "MYSQL_PWD", "REGISTRY_AUTH", "APIKEY", "ANTHROPIC_CUSTOM_HEADERS"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "PWD", "LANG", "MODEL", "KEYBOARD", "AUTHOR", "PATTERN", "COMPASS", "TOKENIZER"]
)
def test_names_of_what_is_none(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json"),
        ("MAX_THINKING_TOKENS", "1234567890"),
        ("API_TOKEN", "short"),
    ],
)
def test_a_secret_name_with_a_value_that_is_plainly_none(name: str, value: str) -> None:
    assert secrets_of({name: value}) == []


@pytest.mark.parametrize(
    "value",
    [
        "/home/me/src",
        "production",
        "1234567",
        "90m",
        "en_US.UTF-8",
        "Europe/Berlin",
        "https://api.example.org:8443/",
        "localhost:8080",
        "1.2.3",
    ],
)
def test_what_was_asked_for_and_is_plainly_no_secret(value: str) -> None:
    assert secrets_of({"X": value}, ["X"]) == []


@pytest.mark.parametrize(
    "value",
    [
        "correct horse battery",
        "hunter2hunter2",
        "https://hooks.example.org/services/T0/B0/XyZ",
        TOKEN,
        "4111111111111111",
        "a1b2.c3d4.e5f6",
    ],
)
def test_what_was_asked_for_and_may_be_a_secret(value: str) -> None:
    """And nothing that was not asked for, under a name that says nothing."""
    assert value in [secret.value for secret in secrets_of({"X": value}, ["X"])]
    assert secrets_of({"X": value}) == []


def test_the_parts_of_a_secret_are_secret() -> None:
    """A proxy's password, each line of a key, what a header says, and the values in credentials that are JSON."""
    values = {
        "HTTPS_PROXY": "http://me:p%40ssw0rd-9@proxy.example.org:3128",
        "DEPLOY_KEY": "-----BEGIN KEY-----\nline-one-of-it\nline-two-of-it\n-----END KEY-----\n",
        "ANTHROPIC_CUSTOM_HEADERS": "X-One: Zk3x9Qw7Lm\nAuthorization: Bearer Pv5Rt8Yb1N",
        "GCP_CREDENTIALS": json.dumps({"type": "service_account", "private_key_id": "0f1e2d3c4b5a69788796"}),
    }
    found = {secret.value for secret in secrets_of(values)}
    assert {"p%40ssw0rd-9", "p@ssw0rd-9", "line-one-of-it", "Zk3x9Qw7Lm", "Pv5Rt8Yb1N", "0f1e2d3c4b5a69788796"} <= found
    assert "http://me:p%40ssw0rd-9@proxy.example.org:3128" not in found


def test_a_very_long_secret_is_hidden_as_one() -> None:
    """All of it under one mark, though it is found in pieces and a stream holds one of them at most."""
    value = "".join(f"{number:05}x" for number in range(3000))
    redactor = Redactor(secrets_of({"BIG_SECRET": value}))
    assert redactor.text(f"<{value}>") == "<[redacted BIG_SECRET]>"
    stream, shown, most = redactor.stream(), b"", 0
    for byte in f"<{value}>".encode():
        shown += stream.feed(bytes([byte]))
        most = max(most, stream.held)
    assert shown + stream.finish() == b"<[redacted BIG_SECRET]>" and most < 200


@pytest.mark.parametrize("shown", [64, 65, 900, 1200])
def test_of_a_long_secret_what_is_there_is_hidden_as_far_as_it_goes(shown: int) -> None:
    """However it is cut; its beginning identifies it, so no pattern of all its characters is needed."""
    value = "".join(hashlib.sha256(f"{number}".encode()).hexdigest() for number in range(20))
    redactor = Redactor([Secret("LONG_KEY", value)])
    told = f"before {value[:shown]}- after".encode()
    assert redactor.data(told) == b"before [redacted LONG_KEY]- after"
    for size in (1, 7, 64, 100):
        stream = redactor.stream()
        pieces = [stream.feed(told[at : at + size]) for at in range(0, len(told), size)]
        assert b"".join([*pieces, stream.finish()]) == b"before [redacted LONG_KEY]- after"


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("https://gw.example.org/v1?api-version=2", False),
        ("https://gw.example.org/v1?api-key=x", True),
        ("https://me@gw.example.org/", True),
        ("http://[bad", True),
        ("/etc/ssl/ca.pem", False),
        ("opus", False),
    ],
)
def test_an_address_with_a_secret_is_seen(url: str, secret: bool) -> None:
    """What cannot be taken apart counts as one."""
    assert url_holds_secret(url) is secret
