"""Errors never repeat a secret that was typed into them, such as a key in place of a name, not even its beginning."""

import re
from collections.abc import Iterable, Mapping, Sequence

from watchkeeper.redaction.engine import Redactor
from watchkeeper.redaction.known_tokens import SHAPES, sightings
from watchkeeper.redaction.variables import SHORTEST, Secret, is_plain, is_secret_name, secrets_of

_STARTS = sorted(
    {start.decode() for shape in SHAPES if shape.hides_all for start in shape.starts},
    key=lambda start: (-len(start), start),
)
_BEGUN = re.compile(rf"(?:{'|'.join(map(re.escape, _STARTS))})[\w.+/=-]{{{SHORTEST},}}", re.ASCII)
"""What an error shortened may be too little to have a secret's shape, and too much to show."""

_PASSWORD_BEGUN = re.compile(r"(://[^\s/:@'\"]{0,128}:)[^\s@'\"]+")


def conceal(text: str, words: Sequence[str], environ: Mapping[str, str]) -> str:
    """The text without what is secret in it: what was typed (`words`) and looks so, the caller's own secrets, and what only looks so."""
    for word in _secret_words(words):
        text = _without(text, word)
    named = {name: value for name, value in environ.items() if is_secret_name(name) and not is_plain(value)}
    text = Redactor(secrets_of(named)).text(text)
    return _PASSWORD_BEGUN.sub(r"\1[redacted]", _BEGUN.sub("[redacted]", text))


def _secret_words(words: Sequence[str]) -> Iterable[Secret]:
    for word in words:
        for seen in sightings(word):
            yield Secret(seen.name, seen.value)


def _without(text: str, secret: Secret) -> str:
    """The text without the secret, or as much of its beginning as is there."""
    for size in range(len(secret.value), SHORTEST - 1, -1):
        if secret.value[:size] in text:
            return text.replace(secret.value[:size], f"[redacted {secret.name}]")
    return text
