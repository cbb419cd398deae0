"""Which directory a task may work in: every way in which it can be another one has its words, and what is normal has none."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.domain.failure import ROWS, FailureKind, Follow
from watchkeeper.domain.run_record import EndReason, ExitFact
from watchkeeper.domain.samples import AT
from watchkeeper.domain.spawn_failure import judge_spawn
from watchkeeper.domain.working_directory import WorkingDirectory, change, described, is_settled, left_by, new_commits

ONE, TWO = "1" * 40, "2" * 40
PLAIN = WorkingDirectory(boot="b1", path="/p", device=1, inode=2, generation=3)
MAIN = replace(PLAIN, top="/p", repository=(1, 20, 30), ref="refs/heads/main", head=ONE, head_file="/p/.git/HEAD")
ALONE = replace(MAIN, ref=None)

REPLACED: list[tuple[str, dict[str, Any], str]] = [
    ("made anew", {"inode": 9, "generation": 8}, "it was deleted and created again"),
    ("made anew with the same number", {"generation": 8}, "it was deleted and created again"),
    ("a link in its place", {"path": "/q", "inode": 9, "generation": 8}, "a symbolic link leads to /q now"),
    ("moved, with a link", {"path": "/q"}, "it was moved to /q, and a symbolic link leads there"),
    ("mounted over", {"device": 7, "inode": 9}, "another file system is mounted there"),
]
CHECKED_OUT: list[tuple[str, WorkingDirectory, dict[str, Any], str]] = [
    ("another branch", MAIN, {"ref": "refs/heads/fix"}, "is on branch fix now, and was on branch main"),
    ("detached", MAIN, {"ref": None}, "is on commit 1111111111, on no branch now, and was on branch main"),
    ("another commit", ALONE, {"head": TWO}, "is on commit 2222222222, on no branch now, and was on commit 1111111111"),
    ("another repository", MAIN, {"repository": (1, 20, 31)}, "belongs to another repository"),
    ("another checkout", MAIN, {"top": "/"}, "is in the checkout / now, and was in /p"),
    ("no checkout", MAIN, {"top": None, "repository": None, "ref": None}, "is in no checkout now"),
    ("a new checkout", PLAIN, {"top": "/p", "repository": (1, 2, 3)}, "is in the checkout /p now, and was in none"),
    ("unreadable", MAIN, {"unknown": "HEAD is not a regular file."}, "cannot be told: HEAD is not a regular file."),
]


@pytest.mark.parametrize("before", [PLAIN, MAIN], ids=["plain", "checkout"])
@pytest.mark.parametrize(("now", "words"), [each[1:] for each in REPLACED], ids=[each[0] for each in REPLACED])
def test_another_directory_is_named(before: WorkingDirectory, now: dict[str, Any], words: str) -> None:
    assert change(before, replace(before, **now)) == f"is not the directory you approved: {words}"


@pytest.mark.parametrize(
    ("before", "now", "words"), [each[1:] for each in CHECKED_OUT], ids=[each[0] for each in CHECKED_OUT]
)
def test_another_checkout_or_branch_is_named(before: WorkingDirectory, now: dict[str, Any], words: str) -> None:
    assert words in change(before, replace(before, **now))


def test_what_is_normal_is_no_change() -> None:
    """The same again; a new commit on the same branch, which is said; a file system that tells no generation."""
    commit = replace(MAIN, head=TWO)
    assert [change(MAIN, MAIN), change(PLAIN, PLAIN), change(MAIN, commit)] == ["", "", ""]
    assert new_commits(MAIN, commit) == "main is at 2222222222 now; it was at 1111111111 when it was approved"
    assert [new_commits(MAIN, MAIN), new_commits(PLAIN, PLAIN), new_commits(ALONE, replace(ALONE, head=TWO))] == [
        ""
    ] * 3
    assert change(MAIN, replace(MAIN, generation=None)) == ""
    assert change(replace(MAIN, unknown="it could not be read", top=None), MAIN) == ""


def test_numbers_that_mean_nothing_are_not_compared() -> None:
    """Devices after another boot; everything but the branch on another machine."""
    assert change(MAIN, replace(MAIN, boot="b2", device=99, repository=(99, 20, 30))) == ""
    assert "created again" in change(MAIN, replace(MAIN, boot="b2", inode=99))
    there = replace(MAIN, machine="m2", boot="b2", device=98, inode=99, generation=None, repository=(98, 97, None))
    assert change(replace(MAIN, machine="m1"), there) == ""
    assert "is on branch fix" in change(replace(MAIN, machine="m1"), replace(there, ref="refs/heads/fix"))
    assert "created again" in change(replace(MAIN, machine="m1"), replace(MAIN, machine="m1", inode=9))


def test_the_own_run_may_switch_the_branch_and_not_the_directory() -> None:
    left = replace(MAIN, inode=9, ref="refs/heads/fix", head=TWO)
    expected = left_by(MAIN, left)
    assert expected == replace(MAIN, ref="refs/heads/fix", head=TWO)
    assert left_by(PLAIN, replace(MAIN, unknown="It is locked.")) == replace(MAIN, unknown="It is locked.")
    assert change(expected, replace(MAIN, ref="refs/heads/fix")) == ""
    assert "is on branch main" in change(expected, MAIN)
    assert "created again" in change(expected, left)


def test_a_look_is_settled_if_only_commits_came() -> None:
    assert is_settled(MAIN, replace(MAIN, head=TWO))
    assert not is_settled(MAIN, replace(MAIN, ref="refs/heads/fix"))
    assert not is_settled(ALONE, replace(ALONE, head=TWO))


def test_what_is_checked_out_is_described() -> None:
    assert [described(each) for each in (PLAIN, MAIN, ALONE, replace(ALONE, head=None))] == [
        "",
        "branch main",
        "commit 1111111111, on no branch",
        "no branch",
    ]


@pytest.mark.parametrize(
    ("step", "words"), [("directory", "not the directory you approved"), ("branch", "another branch or commit")]
)
def test_what_the_shim_refused_needs_a_person_and_uses_no_attempt(step: str, words: str) -> None:
    fact = ExitFact(status=None, reason=EndReason.SPAWN_FAILED, at=AT, elapsed_s=0.0, errno=116, step=step, path="/p")
    kind, detail = judge_spawn(fact, "t1")
    assert kind is FailureKind.DIRECTORY_CHANGED
    assert words in detail and "'/p'" in detail and "`wk retry t1`" in detail
    row = ROWS[kind]
    assert (row.retried, row.counts, row.then) == (False, False, Follow.NEEDS_INPUT)


NUMBERS = st.integers(1, 2)
LOOKS = st.builds(
    WorkingDirectory,
    boot=st.sampled_from(["b1", "b2"]),
    path=st.sampled_from(["/p", "/q"]),
    device=NUMBERS,
    inode=NUMBERS,
    generation=st.none() | NUMBERS,
    top=st.none() | st.just("/p"),
    repository=st.tuples(NUMBERS, NUMBERS, st.none() | NUMBERS),
    ref=st.none() | st.sampled_from(["refs/heads/a", "refs/heads/b"]),
    head=st.sampled_from([ONE, TWO]),
)


@given(approved=LOOKS, now=LOOKS)
def test_nothing_else_is_ever_taken_for_what_was_approved(approved: WorkingDirectory, now: WorkingDirectory) -> None:
    """Where there is no word, it is the same directory, and the same is checked out."""
    assert change(approved, approved) == ""
    if change(approved, now):
        return
    assert (approved.path, approved.inode, approved.top) == (now.path, now.inode, now.top)
    assert None in {approved.generation, now.generation} or approved.generation == now.generation
    assert approved.boot != now.boot or approved.device == now.device
    if approved.top is not None:
        assert approved.ref == now.ref
        assert approved.ref is not None or approved.head == now.head
