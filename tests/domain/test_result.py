"""What a run left behind, and whether that is what its task expects."""

import pytest

from watchkeeper.domain.expectation import judge_success
from watchkeeper.domain.failure import ROWS, FailureKind, Follow
from watchkeeper.domain.outcome_record import Changes, FileChange, Result, Trace
from watchkeeper.domain.result import result_of, summary

NONE = Changes(known=True)
UNKNOWN = Changes(known=False, why_unknown="The directory is gone.")
FILE = FileChange(path="a", change="modified", insertions=10, deletions=3, is_committed=False)
MADE = FileChange(path="b", change="added", insertions=1, deletions=0, is_committed=True)
BINARY = FileChange(path="c", change="added", is_binary=True, is_committed=False)
CHANGED = Changes(known=True, files=(FILE,))
COMMITTED = Changes(known=True, files=(FILE, MADE), commits=("c1", "c2"))


@pytest.mark.parametrize(
    ("kind", "changes", "result"),
    [
        (None, COMMITTED, Result.COMMITTED),
        (None, CHANGED, Result.CHANGED),
        (None, NONE, Result.UNCHANGED),
        (None, UNKNOWN, Result.UNKNOWN),
        (None, None, None),
        (FailureKind.REFUSED, NONE, Result.REFUSED),
        (FailureKind.REFUSED, CHANGED, Result.REFUSED),
        (FailureKind.NOTHING_RECORDED, NONE, Result.NOTHING_RECORDED),
        (FailureKind.NOTHING_CHANGED, NONE, Result.UNCHANGED),
        (FailureKind.CRASH, COMMITTED, Result.COMMITTED),
        (FailureKind.NEVER_LAUNCHED, None, None),
    ],
)
def test_the_class_of_an_outcome(kind: FailureKind | None, changes: Changes | None, result: Result | None) -> None:
    assert result_of(kind, changes) is result


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        (None, ""),
        (UNKNOWN, "what changed is unknown"),
        (NONE, "nothing changed"),
        (CHANGED, "1 file changed, +10 -3, not committed"),
        (COMMITTED, "2 commits, 2 files changed, +11 -3, 1 not committed"),
        (Changes(known=True, files=(MADE,), commits=("c1",)), "1 commit, 1 file changed, +1 -0"),
        (Changes(known=True, commits=("c1",)), "1 commit"),
        (Changes(known=True, files=(BINARY,)), "1 file changed, not committed"),
        (Changes(known=True, files=(FILE, BINARY)), "2 files changed, +10 -3, not committed"),
        (Changes(known=True, files=(FileChange(path="a", change="added"),)), "1 file changed"),
        (
            Changes(known=True, files=(FILE,), beside=("t2", "t3")),
            "1 file changed, +10 -3, not committed, beside t2, t3",
        ),
        (Changes(known=True, files=(FILE,), truncated=True), "1 or more files changed, not committed"),
    ],
)
def test_the_words_for_what_changed(changes: Changes | None, detail: str) -> None:
    """Lines are counted only where they are known of every file."""
    assert summary(changes) == detail


SILENT = Trace(finished=True, ok=True, expects_trace=True)
PROSE = Trace(finished=True, ok=True, expects_trace=True, text="All done.")
CALLED = Trace(finished=True, ok=True, expects_trace=True, tool_calls=1)
COMMAND = Trace(finished=True, ok=True)


@pytest.mark.parametrize(
    ("expect", "trace", "changes", "kind"),
    [
        ("changes", CALLED, CHANGED, None),
        ("changes", COMMAND, COMMITTED, None),
        ("changes", CALLED, NONE, FailureKind.NOTHING_CHANGED),
        ("changes", COMMAND, NONE, FailureKind.NOTHING_CHANGED),
        ("changes", CALLED, UNKNOWN, FailureKind.NOTHING_CHANGED),
        ("changes", CALLED, None, FailureKind.NOTHING_CHANGED),
        ("work", CALLED, NONE, None),
        ("work", PROSE, NONE, FailureKind.NOTHING_RECORDED),
        ("work", SILENT, CHANGED, None),
        ("work", COMMAND, NONE, None),
        ("answer", PROSE, NONE, None),
        ("answer", SILENT, NONE, FailureKind.NOTHING_RECORDED),
        ("any", PROSE, NONE, None),
        ("any", SILENT, NONE, None),
    ],
)
def test_what_a_task_expects(expect: str, trace: Trace, changes: Changes | None, kind: FailureKind | None) -> None:
    assert judge_success("t1", expect, trace, changes)[0] is kind


def test_a_missing_change_needs_a_person() -> None:
    """The sentence says what to do; where it is not known what changed, why not."""
    assert ROWS[FailureKind.NOTHING_CHANGED].then is Follow.NEEDS_INPUT
    assert "`wk retry t1`" in judge_success("t1", "changes", CALLED, NONE)[1]
    assert "The directory is gone." in judge_success("t1", "changes", CALLED, UNKNOWN)[1]
    assert judge_success("t1", "work", CALLED, NONE) == (None, "Done: nothing changed.")
    assert judge_success("t1", "work", CALLED, None) == (None, "Done.")
