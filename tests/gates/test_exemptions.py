"""An exemption from a check names the rule and gives its reason on the same line: `# noqa: S101 - asked for above`."""

import re
import tokenize
from io import StringIO

import pytest
from support.source import TEST_TOOLS, modules

EXEMPTION = re.compile(r"#\s*(noqa|type:\s*ignore|pyright:)", re.IGNORECASE)
WITH_REASON = re.compile(r"#\s*(noqa: [A-Z]+\d+(, ?[A-Z]+\d+)*|pyright: ignore\[\w+(, ?\w+)*\])\s+(- |# )\s*\S.{2,}")


def unexplained(text: str) -> list[int]:
    """The lines that carry an exemption without rule and reason."""
    tokens = tokenize.generate_tokens(StringIO(text).readline)
    comments = [token for token in tokens if token.type == tokenize.COMMENT and EXEMPTION.search(token.string)]
    return [token.start[0] for token in comments if not WITH_REASON.search(token.string)]


def test_every_exemption_in_the_source_says_why() -> None:
    wrong = [
        f"{module.path}:{line}" for module in [*modules(), *modules(TEST_TOOLS)] for line in unexplained(module.text)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "# noqa: S101",
        "# type: ignore",
        "# type: ignore[arg-type] - because so",
        "# pyright: ignore[reportAny]",
    ],
)
def test_the_gate_sees_an_exemption_without_a_reason(comment: str) -> None:
    assert unexplained(f"x = 1  {comment}\n") == [1]


def test_a_reason_is_enough() -> None:
    assert unexplained("x = 1  # noqa: S101, S102 - asked for above\n") == []
    assert unexplained("x = 1  # pyright: ignore[reportAny] - the driver has no types\n") == []
