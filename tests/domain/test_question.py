"""Does a message end by asking? Agents' own words, and words that only look like a question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.domain.question import LIMIT, MARKS, question_at_end

ASKS = [
    ("Which database should I use?", "Which database should I use?"),
    ("I looked around.\n\nShall I go on? (yes/no)", "Shall I go on?"),
    ("Do it now? [y/N]", "Do it now?"),
    ("Should I delete it? It has three users.", "Should I delete it?"),
    ("I fixed it. Do you want me to push?\n\nThanks!", "Do you want me to push?"),
    ("Could you tell me where it is? Thanks a lot!", "Could you tell me where it is?"),
    ("Which one do you prefer? Let me know and I'll continue.", "Which one do you prefer?"),
    ("What should I call the file?\n\nI'll wait for your answer.", "What should I call the file?"),
    ("**Which option do you prefer?**\n1. A\n2. B", "Which option do you prefer?"),
    ("Which of these do you want?\n- A\n- B\n\nI'd recommend A.", "Which of these do you want?"),
    ("Which one?\n```\na\nb\n```", "Which one?"),
    ("Which one?\n> a\n> b", "Which one?"),
    ("Before I start:\n1. Which region?\n2. Which size?", "Which size?"),
    ("- [ ] Should I remove it?", "Should I remove it?"),
    ("Should I use `foo.py?`?", "Should I use `foo.py?`?"),
    ("Did you mean https://example.org/a?b=c?", "Did you mean https://example.org/a?b=c?"),
    ("*Shall I go on?*", "Shall I go on?"),
    ("“Shall I push?”", "“Shall I push?”"),
    ("Shall I go on?\n\n---\n", "Shall I go on?"),
    ("Shall I go on? 🙂", "Shall I go on?"),
    ("Really?!", "Really?!"),
    ("Before I go on, could you confirm the region?", "Before I go on, could you confirm the region?"),
    ("続けますか\uff1f", "続けますか\uff1f"),
    ("完了しました。続けますか\uff1f", "続けますか\uff1f"),
    ("هل أستمر؟", "هل أستمر؟"),
    ("¿Sigo con esto?", "¿Sigo con esto?"),
    ("Συνεχίζω\u037e", "Συνεχίζω\u037e"),
    ("Շարունակե՞մ", "Շարունակե՞մ"),
    ("A\r\nB?\r\n", "B?"),
    ("Shall I go on?   ", "Shall I go on?"),
    ("It works. **Shall I go on?**", "Shall I go on?"),
    ("It works. ~~Shall I go on?~~", "Shall I go on?"),
    ("Shall I go on? " + "x" * 1980 + ". Shall I stop? ", "Shall I stop?"),
    ("Yes, it works. Should I push it? It is one commit.", "Should I push it?"),
    ("Which one do you want?:\n- A\n- B", "Which one do you want?"),
    ("Which one do you want?\n- A\n  more of A\n- B", "Which one do you want?"),
    ("Should I push it? " + "a" * 400 + "?", f"…{'a' * 298}?"),
]

STATES = [
    "",
    "   \n",
    "?",
    "Done.",
    "Done.\n\nThanks!",
    "What did I change? Three files.",
    "Why did it fail? Because the lock was held. I fixed it.",
    "Can I delete it? No, it is used.",
    "I asked myself: why? how? and moved on.",
    "## What changed?\n- a\n- b",
    "What did I do?\n- fixed x\n- added y",
    "## Questions?",
    "See https://example.org/s?a=b",
    "See [the page](https://example.org/?q)",
    "I ran `grep -c ?`",
    "The C code is `a ? b : c`",
    "Output:\n```\nContinue?\n```",
    "Output:\n~~~\nContinue?",
    "It prints:\n\n> Continue?",
    'The error says "are you sure?"',
    "| a? | b? |",
    "<!-- ok? -->",
    "Done. Anything else?",
    "Is there anything else I can help you with?",
    "How can I help you today?",
    "Let me know if you have any questions.",
    "It works; it is fast.",
    "Which one do you want:\n- A\n- B",
    "Can I push it? Yes. Can I delete it? No, it is used.",
]


@pytest.mark.parametrize(("text", "question"), ASKS)
def test_a_message_that_ends_by_asking(text: str, question: str) -> None:
    """The question is quoted in one line, as it was put, without its markup."""
    assert question_at_end(text) == question


@pytest.mark.parametrize("text", STATES)
def test_a_message_that_does_not_ask(text: str) -> None:
    """What it shows, what it answers itself, and what is only polite."""
    assert question_at_end(text) is None


def test_code_that_began_long_before_the_end_is_code() -> None:
    """However long it is, and what follows it is not."""
    code = "```\n" + "is this a question?\n" * 5000
    assert question_at_end(code) is None
    assert question_at_end(f"{code}```\nShall I go on?") == "Shall I go on?"


@pytest.mark.parametrize("mark", [mark for mark in MARKS if mark != "\u055e"])
def test_every_mark_asks(mark: str) -> None:
    """In whatever script."""
    assert question_at_end(f"Done. And now{mark}")


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    """Without an error, and a quotation is one line of a bounded length that has a mark in it."""
    found = question_at_end(text)
    if found is not None:
        assert 0 < len(found) <= LIMIT
        assert len(found.splitlines()) == 1
        assert set(found) & set(MARKS)


@given(st.text("ab .!\n*`>-#|", max_size=80))
def test_without_a_mark_nothing_is_asked(text: str) -> None:
    assert question_at_end(text) is None


@given(st.text(max_size=200), st.sampled_from(["", "\n", "  ", "\n\nThanks!\n", "\n---\n", " (yes/no)", "**"]))
def test_a_plain_question_at_the_end_is_found_behind_anything(before: str, after: str) -> None:
    """Whatever stands above it, unless that opens a block of code that it would be a part of."""
    if "```" in before or "~~~" in before or "<!--" in before:
        return
    stars = "**" if after == "**" else ""
    assert question_at_end(f"{before}\n\n{stars}Which file do you mean?{after}") == "Which file do you mean?"


@pytest.mark.parametrize(
    "piece", ["a ", "? ", "(", "[", "**", "`", "- a?\n", "> ", "<!-- ", "so, ", "thanks ", " ", "```\n"]
)
def test_long_texts_take_no_long_time(piece: str) -> None:
    """No expression goes back and forth: a megabyte is judged in a bounded number of steps."""
    _ = question_at_end(piece * (1_000_000 // len(piece)))
