"""Which parts of a file are prose: docstrings, comments and sentences in Python, comments in SQL, paragraphs in Markdown."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

_CODE = re.compile(r"``.*?``|`[^`\n]*`|https?://\S+|<[a-z_-]+>|\{[^{}\n]*\}", re.DOTALL)
_FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.DOTALL | re.MULTILINE)
_SENTENCE = re.compile(r"[A-Za-z]+ [a-z]+ [a-z]+")
"""A string of at least three words is taken for a sentence; a shorter one may be a key or a name."""


class Page:
    """A text of which only the marked parts stay visible."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._shown = [char if char == "\n" else " " for char in text]
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def show(self, start: int, end: int) -> None:
        """Make a range visible, without the code in it."""
        part = _CODE.sub(lambda found: re.sub(r"[^\n]", "_", found[0]), self._text[start:end])
        self._shown[start:end] = list(part)

    def position(self, row: int, column: int) -> int:
        """The offset of a row (from 1) and a column (from 0)."""
        return self._starts[row - 1] + column

    def prose(self) -> str:
        """The text with blanks for what is not prose."""
        return "".join(self._shown)


def python(text: str, *, with_data: bool = True) -> str:
    """Docstrings, comments and sentences in a Python module; the sentences of a test are data (`with_data`)."""
    page = Page(text)
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        starts_line = before in {
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.NL,
            tokenize.COMMENT,
            tokenize.ENCODING,
        }
        is_text = token.type == tokenize.STRING and (starts_line or with_data) and _is_sentence(token.string)
        if is_text or token.type == tokenize.COMMENT:
            page.show(page.position(*token.start), page.position(*token.end))
        before = token.type
    return page.prose()


def _is_sentence(source: str) -> bool:
    try:
        value = ast.literal_eval(source)
    except (SyntaxError, ValueError):  # an f-string: its source is near enough to what it prints
        value = source
    return isinstance(value, str) and bool(_SENTENCE.search(value)) and "SELECT" not in value


def markdown(text: str) -> str:
    """A Markdown page without its blocks of code."""
    page = Page(text)
    at = 0
    for fence in _FENCE.finditer(text):
        page.show(at, fence.start())
        at = fence.end()
    page.show(at, len(text))
    return page.prose()


def sql(text: str) -> str:
    """The comments of SQL statements."""
    page = Page(text)
    for found in _sql_comments(text):
        page.show(found.start(), found.end())
    return page.prose()


def _sql_comments(text: str) -> Iterator[re.Match[str]]:
    return re.finditer(r"--[^\n]*", text)


def prose_of(name: str, text: str) -> str:
    """The prose of a Python, Markdown or SQL file; empty for any other."""
    if name.startswith("tests/") and name.endswith(".py"):
        return python(text, with_data=False)
    read = {".py": python, ".md": markdown, ".sql": sql}.get("." + name.rpartition(".")[2])
    return read(text) if read else ""
