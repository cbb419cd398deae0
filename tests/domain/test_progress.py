"""What counts as progress."""

import pytest

from watchkeeper.domain.progress import LOOKED_AT, REMEMBERED, Progress


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("building…\n", "building…\n"),
        ("⠋ Thinking\r", "⠙ Thinking\r⠹ Thinking\r"),
        ("\x1b[2K\x1b[1G⠋ Thinking\x1b[2K", "\x1b[2K\x1b[1G⠙ Thinking\x1b[2K\x1b[1G⠹ Thinking" * 1000),
        ("| work\r", "/ work\r- work\r\\ work\r"),
        ("Waiting (12 s)\n", "Waiting (13 s)\nWaiting (2.5 min)\n"),
        ("2026-01-02 03:04:05 still here\n", "2026-01-02T03:04:09.123Z still here\n"),
        ("[03:04:05] retry\n", "[03:04:15] retry\n"),
        ("\x1b[32mok\x1b[0m\n", "\x1b[1mok\n\x1b]0;title\x07ok\n"),
        ('{"type":"ping","uuid":"0b0e8f5a-1c2d-4e3f-8a9b-0c1d2e3f4a5b"}\n',
         '{"type":"ping","uuid":"11111111-2222-4333-8444-555555555555"}\n'),
        ("....\n", "\n\n.....\n"),
        ("tick 1767312000\n", "tick 1767312001\n"),
    ],
)  # fmt: skip
def test_what_changes_by_itself_is_no_progress(first: str, later: str) -> None:
    progress = Progress()
    _ = progress.feed(first.encode())
    assert not progress.feed(later.encode())


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("test 1 passed\n", "test 2 passed\n"),
        ("12 %\r", "13 %\r"),
        ("Waiting\n", "Waiting\nGo on\n"),
        ("", "first\n"),
    ],
)
def test_what_is_new_is_progress(first: str, later: str) -> None:
    progress = Progress()
    _ = progress.feed(first.encode())
    assert progress.feed(later.encode())


def test_it_does_not_depend_on_where_lines_are_cut() -> None:
    progress = Progress()
    assert not progress.feed(b"one li")
    assert progress.feed(b"ne\n")
    assert not progress.feed(b"one l") and not progress.feed(b"ine\n")


def test_memory_is_bounded() -> None:
    """A line without an end, and very many lines."""
    progress = Progress()
    for number in range(3):
        _ = progress.feed(b"%d" % number * LOOKED_AT)
    _ = progress.feed(b"\n")
    for start in range(0, 3 * REMEMBERED, 1000):
        _ = progress.feed(b"".join(b"line %d\n" % number for number in range(start, start + 1000)))
    assert len(progress._seen) <= REMEMBERED and len(progress._rest) < LOOKED_AT


def test_a_block_that_is_repeated_is_no_progress() -> None:
    progress, block = Progress(), b"".join(b"line %d of it\n" % number for number in range(500))
    assert progress.feed(block)
    assert not progress.feed(block)


def test_exactly_the_newest_lines_are_remembered() -> None:
    """The oldest is forgotten when one more comes, and a line that comes again is new in age."""
    progress = Progress()
    lines = [b"line %d of it\n" % number for number in range(REMEMBERED)]
    assert all(progress.feed(line) for line in lines)
    assert not progress.feed(lines[0])
    assert progress.feed(b"one more\n")
    assert not progress.feed(lines[0]) and not progress.feed(lines[2])
    assert progress.feed(lines[1])


def test_of_a_long_look_only_whole_lines_of_its_end_are_compared() -> None:
    """The line that is cut off at its begin is not, whatever is left of it; the next one is."""
    progress = Progress()
    _ = progress.feed(b"the last\n")
    assert not progress.feed(b"x" * LOOKED_AT + b" cut off\nthe last\n")
    assert progress.feed(b"x" * LOOKED_AT + b" cut off\nanother\nthe last\n")
    assert not progress.feed(b"another\n")


def test_a_line_without_an_end_is_compared_once_it_is_long() -> None:
    progress = Progress()
    assert not progress.feed(b"y" * 4095)
    assert progress.feed(b"y")
    assert not progress.feed(b"y" * 4096)
