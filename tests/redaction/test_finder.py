"""Many needles are found by several automata as by one, and each automaton is made in a moment."""

import random

import pytest

from watchkeeper.redaction import finder
from watchkeeper.redaction.engine import Redactor
from watchkeeper.redaction.finder import Finder, Needle, pieces
from watchkeeper.redaction.needles import needles
from watchkeeper.redaction.variables import secrets_of


def _needles(many: int) -> list[Needle]:
    """Short and long ones that overlap one another, are inside one another and begin alike."""
    drawn = random.Random(7)
    words = ["".join(drawn.choices("ab", k=drawn.randint(8, 100))).encode() for _ in range(many)]
    words += [word[:9] for word in words[::3]]
    return [Needle(piece, word[:4]) for word in words for piece in pieces(word)]


@pytest.mark.parametrize("at_once", [1, 3, 50])
def test_several_automata_find_what_one_finds_and_in_its_order(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = random.Random(8)
    sought = _needles(60)
    text = "".join(drawn.choices("ab", k=4000)).encode() + b"".join(needle.data for needle in sought[::5])
    whole = Finder(sought)
    monkeypatch.setattr(finder, "_HEADS_AT_ONCE", at_once)
    split = Finder(sought)
    assert whole.heads == split.heads
    assert whole.places(text) == split.places(text)
    assert list(whole.hits(text)) == list(split.hits(text)) != []
    cuts = [text[: len(text) - cut] for cut in range(150)]
    assert [whole.begun(each) for each in cuts] == [split.begun(each) for each in cuts]


def test_no_automaton_is_so_large_that_other_threads_wait_long_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make one is one call into C. An environment of two megabytes of secrets would need a quarter of a second."""
    import ahocorasick_rs

    _ = Redactor().data(b"what is known by its look has an automaton of its own, made once")
    made: list[int] = []
    real = ahocorasick_rs.BytesAhoCorasick

    def counted(heads: list[bytes]) -> object:
        made.append(len(heads))
        return real(heads)

    monkeypatch.setattr(ahocorasick_rs, "BytesAhoCorasick", counted)
    drawn = random.Random(9)
    environment = {f"BIG_SECRET_KEY{number}": drawn.randbytes(60_000).hex() for number in range(4)}
    secret = environment["BIG_SECRET_KEY3"]
    redactor = Redactor(secrets_of(environment))
    assert sum(made) > 4000 and max(made) <= 2048
    assert redactor.data(f"<{secret}>".encode()) == b"<[redacted BIG_SECRET_KEY3]>"
    assert sum(len(each) for each in needles(secrets_of(environment))) >= sum(made)
