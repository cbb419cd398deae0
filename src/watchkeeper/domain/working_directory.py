"""Which directory a path leads to, and which checkout is there: what is recorded when a task is approved, and compared before each launch (R13).

A path is only a name. The directory under it can be replaced by another one or by a symbolic link, and a checkout can be switched to another branch. What was
approved is the directory and the branch, so nothing is launched in another one, and nothing falls back to another one.
"""

from dataclasses import dataclass, replace

_HEADS = "refs/heads/"
_SHORT = 10
"""Digits of a commit's id, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingDirectory:
    """One look at a working directory."""

    machine: str = ""
    """The id of the machine that looked; empty where only one can be meant."""
    boot: str = ""
    """The boot id of that machine: after another boot its file systems may have other device numbers."""
    path: str
    """Where it is, without symbolic links."""
    device: int
    inode: int
    generation: int | None = None
    """Tells two directories apart that had the same inode number one after the other; None where the file system does not say."""
    top: str | None = None
    """The top of the checkout that it is in; None: it is in none."""
    repository: tuple[int, int, int | None] | None = None
    """Device, inode and generation of the directory that all checkouts of the repository share."""
    ref: str | None = None
    """The full name of the branch that is checked out; None: a commit, or no checkout."""
    head: str | None = None
    """The commit that is checked out; None where there is none yet, or it cannot be told."""
    head_file: str | None = None
    """The file that names the branch or the commit; None where it is not kept like that."""
    unknown: str = ""
    """Why nothing can be said of the checkout; empty if it can."""

    @property
    def branch(self) -> str | None:
        """The branch as people name it."""
        return None if self.ref is None else self.ref.removeprefix(_HEADS)

    @property
    def head_text(self) -> str | None:
        """What the file that names the branch or the commit says."""
        return f"ref: {self.ref}" if self.ref is not None else self.head


def left_by(approved: WorkingDirectory, left: WorkingDirectory) -> WorkingDirectory:
    """What the next launch must find: the directory that was approved, with its checkout as the task's own last run left it."""
    return replace(
        approved,
        top=left.top,
        repository=left.repository,
        ref=left.ref,
        head=left.head,
        head_file=left.head_file,
        unknown=left.unknown,
    )


def is_settled(before: WorkingDirectory, after: WorkingDirectory) -> bool:
    """Whether two looks, one before and one after something else was read, saw the same. A new commit on the same branch does not count."""
    return replace(before, head="") == replace(after, head="") if before.ref is not None else before == after


def change(approved: WorkingDirectory, now: WorkingDirectory) -> str:
    """In which way a directory is not what was approved, as the end of a sentence that begins with its path; empty if it is.

    Numbers of devices and inodes say nothing on another machine, and those of devices nothing after another boot.
    """
    is_here = approved.machine in {"", now.machine}
    if is_here:
        replaced = _replaced(approved, now)
        if replaced:
            return f"is not the directory you approved: {replaced}"
    return _checkout_change(approved, now, is_here=is_here)


def new_commits(approved: WorkingDirectory, now: WorkingDirectory) -> str:
    """How far the branch has moved since, for people; empty if it has not, or that is not known."""
    if (
        approved.ref is None
        or approved.ref != now.ref
        or None in {approved.head, now.head}
        or approved.head == now.head
    ):
        return ""
    return f"{approved.branch} is at {_short(now.head)} now; it was at {_short(approved.head)} when it was approved"


def described(place: WorkingDirectory) -> str:
    """What is checked out there, for people; empty outside of checkouts, or where that is not known."""
    return "" if place.top is None or place.unknown else _head(place)


def _replaced(approved: WorkingDirectory, now: WorkingDirectory) -> str:
    same_boot = approved.boot == now.boot
    is_same = _is_same(
        (approved.device, approved.inode, approved.generation),
        (now.device, now.inode, now.generation),
        same_boot=same_boot,
    )
    if is_same and approved.path == now.path:
        return ""
    if is_same:
        return f"it was moved to {now.path}, and a symbolic link leads there"
    if approved.path != now.path:
        return f"a symbolic link leads to {now.path} now"
    if same_boot and approved.device != now.device:
        return "another file system is mounted there"
    return "it was deleted and created again"


def _is_same(one: tuple[int, int, int | None], other: tuple[int, int, int | None], *, same_boot: bool) -> bool:
    """Whether two records of device, inode and generation are of one directory, as far as they tell."""
    generations_agree = one[2] == other[2] or None in {one[2], other[2]}
    return one[1] == other[1] and generations_agree and (not same_boot or one[0] == other[0])


def _checkout_change(approved: WorkingDirectory, now: WorkingDirectory, *, is_here: bool) -> str:
    if approved.unknown:
        return ""
    if now.unknown:
        return f"was in {_head(approved)}, and what is checked out there now cannot be told: {now.unknown}"
    if approved.top is None or now.top is None:
        return _came_or_went(approved, now)
    if is_here and not _is_same_repository(approved, now):
        return f"belongs to another repository than when it was approved: the one of {now.top}"
    if is_here and approved.top != now.top:
        return f"is in the checkout {now.top} now, and was in {approved.top} when it was approved"
    if approved.ref != now.ref or (approved.ref is None and approved.head != now.head):
        return f"is on {_head(now)} now, and was on {_head(approved)} when it was approved"
    return ""


def _is_same_repository(approved: WorkingDirectory, now: WorkingDirectory) -> bool:
    if approved.repository is None or now.repository is None:
        return approved.repository == now.repository
    return _is_same(approved.repository, now.repository, same_boot=approved.boot == now.boot)


def _came_or_went(approved: WorkingDirectory, now: WorkingDirectory) -> str:
    if approved.top is not None:
        return f"is in no checkout now, and was in {approved.top} when it was approved"
    return f"is in the checkout {now.top} now, and was in none when it was approved" if now.top is not None else ""


def _head(place: WorkingDirectory) -> str:
    if place.ref is not None:
        return f"branch {place.branch}"
    return f"commit {_short(place.head)}, on no branch" if place.head else "no branch"


def _short(commit: str | None) -> str:
    return (commit or "?")[:_SHORT]
