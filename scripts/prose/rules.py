"""The rules of the house, as checks of proselint. `docs/writing.md` explains them with examples."""

import re
from dataclasses import dataclass
from pathlib import Path

from proselint.registry.checks import Check, CheckFlags, types  # pyright: ignore[reportMissingTypeStubs] - its types are in its source

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"


def former_words() -> tuple[str, ...]:
    """The words that the glossary lists as former ones."""
    rows = [line.split("|") for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return tuple(word.lower() for row in rows if "word" in row[3] for word in re.findall(r"`(\w+)`", row[1]))


@dataclass(frozen=True)
class Rule:
    """Expressions to avoid, and those that look like them and are fine."""

    message: str
    items: tuple[str, ...]
    exceptions: tuple[str, ...] = ()


RULES = {
    "noun": Rule("Name who or what it is, in place of '{}'.", ("nobody", "somebody", "anybody", "whoever", "whomever")),
    "negation": Rule(
        "Negate the verb ('is not'), in place of '{}'.",
        (r"\w+ (?:is|are|was|were) no \w+", r"\w+ (?:is|are|was|were) (?:none|nothing)", "knows? (?:no|nothing)"),
        (r"there (?:is|are|was|were) (?:no \w+|none|nothing)", r"\w+ (?:is|are|was|were) no longer"),
    ),
    "inversion": Rule(
        "Put the subject before the verb, in place of '{}'.",
        (
            "nor (?:is|are|does|do|has|have)",
            "neither (?:is|are|does|do|has|have)",
            "so (?:is|are|does|do) (?:the|a|an)",
        ),
    ),
    "person": Rule(
        "A program does not speak, want or mind: state what it does, in place of '{}'.",
        ("wants? to be", "minds", "(?:is|are|was|were) told", "tells? (?:it|them|us)", "of (?:ours|theirs)"),
    ),
    "term": Rule(
        "Use the standard term (docs/glossary.md), in place of '{}'.",
        ("goes on", "go on", "going on", "(?:is|are|was|were) at work", *former_words()),
    ),
    "riddle": Rule(
        "State the fact, in place of '{}'.",
        ("at the door", "whence", "thither", "as it were", "so to speak", "is what it is"),
    ),
}

CHECKS = tuple(
    Check(
        check_type=types.Existence(items=rule.items, exceptions=rule.exceptions),
        path=f"house.{name}",
        message=rule.message,
        flags=CheckFlags(allow_quotes=True),
    )
    for name, rule in RULES.items()
)

BUILT_IN = {
    "archaism": True,
    "cliches": True,
    "hedging": True,
    "industrial_language": True,
    "malapropisms": True,
    "misc": True,
    "mixed_metaphors": True,
    "mondegreens": True,
    "needless_variants": True,
    "nonwords": True,
    "oxymorons": True,
    "redundancy": True,
    "uncomparables": True,
}
"""What we take of proselint's own checks. Typography and spelling stay out, because the text is ASCII and British on purpose,
and weasel words do, because 'the very same file' is exact."""
