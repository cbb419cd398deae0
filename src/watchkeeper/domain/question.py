"""Does an agent's last message end by asking something?

A run that ends by asking has not done its task: a person must answer. The only sign that is trusted is a question mark, in any script, where the message
ends. What an agent shows (code, quotes, tables, addresses) is not what it asks, and a question in the middle that the message itself answers is
rhetoric. The steps:

    text ─▶ without code, quotes, tables ─▶ without closing courtesies ─▶ last sentence a question?            ─▶ asked
                                                                      ├▶ list of choices below a question?     ─▶ asked
                                                                      └▶ question to the reader, then remarks? ─▶ asked

English courtesies and forms of address are known; other languages are judged by their last sentence alone. Every step is linear in the length of the text.
"""

import re
from collections import deque

MARKS = "?\uff1f\u061f\u2047\u2048\u203d\u2e2e\u037e\u055e\u1367\u1945\ua60f\ufe56"
"""Question marks: Latin, fullwidth, Arabic, doubled, interrobang, reversed, Greek, Armenian, Ethiopic, Limbu, Vai, small."""

_WITHIN_A_WORD = "\u055e"
"""The Armenian mark stands in the word that is asked about."""

LIMIT = 300
"""Characters of a question that are quoted."""

_LINES = 100
_LINE = 2000
"""How many lines at a message's end are looked at, and how many characters at the end of each."""

_FENCE = re.compile(r"^ {0,3}(?:`{3,}|~{3,})")
_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)[^`\n]{1,500}\1(?!`)")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s<>\"')\]]+", re.IGNORECASE)
_LINK = re.compile(r"!?\[([^\]\n]{0,500})\]\([^)\n]{0,2000}\)")
_NOT_PROSE = re.compile(r"^\s*(?:>|\||(?:[-*_=]\s*){3,}$)")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s|^\s*(\*\*|__)[^*_\n]{1,300}\1:?\s*$")
_ITEM = re.compile(r"^\s*(?:[-*+•–·]|\(?\w{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_SENTENCE_END = re.compile(rf"[.!…。！{re.escape(MARKS)}]+[\"'”’»」』)\]*_~]*(?=\s|$)|[。！？]")  # noqa: RUF001 - of other scripts
_WRAPPING = " \t*_~\"'“”‘’«»‹›「」『』()[]{}"  # noqa: RUF001 - quotes of other scripts
_CLOSERS = "\"'”’»›」』"  # noqa: RUF001 - the same
_OPENERS = "\"'“‘«‹「『"  # noqa: RUF001 - the same
_ASIDE = re.compile(r"\s*(?:\([^()\n]{1,300}\)|\[[^\[\]\n]{1,300}\])[\s.]*$")

_COURTESY = re.compile(
    r"""(?:
        (?:many\s+)?thanks\b.* | thank\s+you\b.* | cheers\b.* | (?:best|kind|warm)?\s*regards\b.* | sincerely\b.* | best,?
      | (?:please\s+|just\s+)?(?:let\s+me\s+know|tell\s+me|reply|respond|confirm|advise|say\s+(?:so|the\s+word))\b.*
      | (?:i(?:'ll|\s+will|'m|\s+am)|we(?:'ll|\s+will))\s+(?:wait|pause|hold|stop|be\s+waiting|standing\s+by|waiting|happy\s+to)\b.*
      | (?:once|as\s+soon\s+as|when|after)\s+you\b.*
      | (?:i(?:'d|\s+would)?|we(?:'d|\s+would)?)\s+(?:recommend|suggest|lean|prefer)\b.*
      | my\s+(?:recommendation|suggestion|preference)\b.*
      | (?:i\s+)?(?:look|looking)\s+forward\b.* | awaiting\b.* | standing\s+by\b.*
      | [—–-]{1,2}\s*[\w .]{1,40} | \W*
    )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)  # fmt: skip
"""A sentence or line that closes a message and neither asks nor answers."""

_OFFER = re.compile(
    r"""(?:
        (?:is\s+there\s+)?anything\s+else(?:\s+(?:that\s+)?i\s+can\s+(?:help|do|assist)\b.*)?
      | (?:how|what)\s+(?:else\s+)?can\s+i\s+(?:help|do|assist)(?:\s+you)?(?:\s+with)?(?:\s+(?:for\s+you|today|else|next|now))*
    )\W*""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
"""A question that offers further service: the agent has done its task."""

_LEAD_IN = r"(?:(?:so|also|and|or|but|then|now|finally|otherwise|before|if|once|given|since|first)\b[^,.]{0,120},\s*|(?:so|also|and|or|but)\s+)?"
_TO_THE_READER = re.compile(
    rf"""{_LEAD_IN}(?:
        (?:should|shall|may|can|could|must)\s+(?:i|we)\b
      | (?:do|would|could|can|will|are|have)\s+you\b
      | (?:is|are|would)\s+(?:it|that|this|these|those)\s+(?:ok|okay|fine|all\s+right|alright|acceptable)\b
      | (?:ok|okay)\s+(?:to|if)\b
      | (?:which|what|where|when|how|who|whom)\b.*?\b(?:(?:should|shall)\s+(?:i|we)|do\s+you\s+(?:want|prefer|need|mean|like)|would\s+you)\b
    )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
"""How a question to the reader begins."""

_CHOICE = re.compile(rf"{_LEAD_IN}(?:which|what\s+(?:is|are)\s+your)\b", re.IGNORECASE)
_ANSWER = re.compile(r"(?:yes|no|nope|yep|because|of\s+course|not\s+(?:yet|really|at\s+all))\b", re.IGNORECASE)


def question_at_end(text: str) -> str | None:
    """The question with which a message ends, in one line of at most `LIMIT` characters; None if it does not end by asking."""
    lines = _prose(text)
    while lines and _closes(lines[-1]):
        _ = lines.pop()
    if not lines:
        return None
    return _in_last_line(lines) or _above_choices(lines)


def _prose(text: str) -> list[str]:
    """The lines that the agent itself says: no fenced code, quoted lines, tables or rules. An address and a span of code become one word."""
    lines: deque[str] = deque(maxlen=_LINES)
    fence = ""
    for line in _without_comments(text).splitlines():
        if mark := _FENCE.match(line):
            opened = mark.group().strip()
            if not fence:
                fence = opened
            elif opened[0] == fence[0] and len(opened) >= len(fence):
                fence = ""
        elif not fence and line.strip() and not _NOT_PROSE.match(line[:_LINE]):
            lines.append(line)
    return [_plain(line.rstrip()[-_LINE:]) for line in lines]


def _without_comments(text: str) -> str:
    """The text without HTML comments; one that does not end is text."""
    first, *pieces = text.split("<!--")
    kept = [first]
    for piece in pieces:
        inside, end, after = piece.partition("-->")
        kept.append(f" {after}" if end else f"<!--{inside}")
    return "".join(kept)


def _plain(line: str) -> str:
    line = _LINK.sub(r"\1", line)
    line = _SPAN.sub(lambda found: f"`{found.group()[1:-1].translate(_HIDDEN)}`", line)
    return _ADDRESS.sub(_address, line)


_HIDDEN = {ord(mark): 0xE000 + number for number, mark in enumerate(f"{MARKS}.!")}
"""A mark within code or an address does not end a sentence: it is replaced by a private-use character until the question is quoted."""
_SHOWN = {hidden: mark for mark, hidden in _HIDDEN.items()}


def _address(found: "re.Match[str]") -> str:
    """An address, whose last marks belong to the sentence."""
    bare = found.group().rstrip(f".,;:!{MARKS}*_`")
    return bare.translate(_HIDDEN) + found.group()[len(bare) :]


def _sentences(line: str) -> list[str]:
    """The sentences of a line, each with its marks."""
    sentences: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(line):
        sentences.append(line[start : end.end()])
        start = end.end()
    sentences.append(line[start:])
    return [each.strip() for each in sentences if each.strip(_WRAPPING + ".!…")]


def _closes(line: str) -> bool:
    """Whether all of a line is a courtesy that closes a message."""
    bare = _ITEM.sub("", line)
    return all(_is_courtesy(each) for each in _sentences(bare))


def _is_courtesy(sentence: str) -> bool:
    bare = sentence.strip(_WRAPPING)
    if _OFFER.fullmatch(bare) or _ASIDE.fullmatch(sentence):
        return True
    return not _has_mark(bare) and _COURTESY.fullmatch(bare) is not None


def _has_mark(sentence: str) -> bool:
    return any(mark in sentence for mark in MARKS)


def _asks(sentence: str) -> bool:
    """Whether a sentence asks a question itself, and does not report a question of another person."""
    bare = _ASIDE.sub("", sentence).rstrip(" \t*_~.!…")
    inner = bare.rstrip(_CLOSERS + "*_~)")
    if _WITHIN_A_WORD in inner:
        return True
    if not inner or inner[-1] not in MARKS or not any(letter.isalnum() for letter in inner):
        return False
    if not any(closer in _CLOSERS for closer in bare[len(inner) :]):
        return True
    start = sentence.lstrip(" \t*_~")
    return start[:1] in _OPENERS  # all of it is quoted: the agent's own words, set off


def _in_last_line(lines: list[str]) -> str | None:
    """The question of the last line: its last sentence, or one to the reader that only remarks follow."""
    line, item = lines[-1], _ITEM.match(lines[-1])
    sentences = _sentences(_ITEM.sub("", line))
    while sentences and _is_courtesy(sentences[-1]):
        _ = sentences.pop()
    if not sentences:
        return None
    heading = _HEADING.match(line) is not None
    if _asks(sentences[-1]):
        return _quoted(sentences[-1]) if not heading or _is_to_the_reader(sentences[-1]) else None
    if item is not None:
        return None
    for number, sentence in enumerate(sentences[:-1]):
        answered = _ANSWER.match(sentences[number + 1].strip(_WRAPPING)) is not None
        if _asks(sentence) and _is_to_the_reader(sentence) and not answered:
            return _quoted(sentence)
    return None


def _above_choices(lines: list[str]) -> str | None:
    """The question right above a list with which the message ends: the list says what there is to choose from."""
    number = len(lines)
    while number and (_ITEM.match(lines[number - 1]) or (number < len(lines) and lines[number - 1][:2].isspace())):
        number -= 1
    if number in {0, len(lines)}:
        return None
    sentences = _sentences(lines[number - 1].rstrip(": "))
    if not sentences or not _asks(sentences[-1]):
        return None
    bare = sentences[-1].strip(_WRAPPING + "#")
    foreign = not any(letter.isascii() and letter.isalpha() for letter in bare)
    chosen = _HEADING.match(lines[number - 1]) is None and _CHOICE.match(bare) is not None
    return _quoted(sentences[-1]) if foreign or chosen or _is_to_the_reader(bare) else None


def _is_to_the_reader(sentence: str) -> bool:
    return _TO_THE_READER.match(sentence.strip(_WRAPPING + "#")) is not None


def _quoted(sentence: str) -> str:
    """A sentence in one line, without its markup."""
    line = " ".join(sentence.translate(_SHOWN).replace("**", "").replace("__", "").strip("#*_~ \t").split())
    return line if len(line) <= LIMIT else f"…{line[1 - LIMIT :]}"
