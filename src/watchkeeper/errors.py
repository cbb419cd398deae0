"""Everything that can be said to a user when something is wrong.

    WatchkeeperError                    70  a bug in Watchkeeper
    ├── UsageError                       2  the command line is off
    ├── NotFound                         3  no such task, or several
    │   ├── NoSuchTask
    │   └── AmbiguousId
    ├── HarnessError                     4  the agent program
    │   ├── UnknownHarness
    │   └── ProgramMissing
    ├── BadTask                          5  the task cannot be accepted as it is
    ├── StateError                       6  state directory or database cannot be used
    │   ├── StateDirectoryUnusable
    │   ├── DatabaseUnusable
    │   │   ├── NoDatabase
    │   │   ├── DatabaseCorrupt
    │   │   │   └── RecordTorn           one record of it
    │   │   ├── DatabaseNewer
    │   │   ├── DatabaseMoved
    │   │   ├── DatabaseBusy
    │   │   └── DatabaseFull
    ├── DaemonError                      7  the daemon is not there, does not start, or is there already
    ├── Refused                          8  not allowed in this state, or not by you
    │   ├── Stale
    │   ├── Elsewhere                    it is on another machine
    │   └── InsideAgent                 13  a daemon is never born inside an agent
    └── SettingsError                    9  a setting is unknown or has a wrong value

The number is the exit code of `wk`. A message is one sentence on what is wrong; `hint` says what to do next. The other exit codes tell how
a task ended and are in `Exit`.
"""

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of `wk`; scripts may rely on them."""

    OK = 0
    TASK_FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    HARNESS = 4
    BAD_TASK = 5
    STATE = 6
    DAEMON = 7
    REFUSED = 8
    SETTINGS = 9
    NEEDS_YOU = 10
    TASK_STOPPED = 11
    TIMEOUT = 12
    INSIDE_AGENT = 13
    INTERNAL = 70
    INTERRUPTED = 130


class WatchkeeperError(Exception):
    """Something went wrong inside Watchkeeper."""

    exit_code: Exit = Exit.INTERNAL
    hint: str = ""

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        """Say `message`, or the class's docstring, and what to do next."""
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])
        if hint:
            self.hint = hint


class UsageError(WatchkeeperError):
    """The command line does not fit together."""

    exit_code = Exit.USAGE


class NotFound(WatchkeeperError):
    """There is nothing by that name."""

    exit_code = Exit.NOT_FOUND


NOTHING_YET = 'No tasks yet. `wk run "…"` hands one over; `wk demo` shows the whole way without any model.'
"""What to do where nothing was ever handed over."""


class NoSuchTask(NotFound):
    """There is no such task."""

    hint = "`wk ls --all` lists every task."


class AmbiguousId(NotFound):
    """That id fits several tasks."""

    hint = "Give a few more letters."

    def __init__(self, prefix: str, candidates: list[str], *, more: bool = False, removed: str = "") -> None:
        """Name the candidates, at most a handful of them; `more`: there are others. `removed`: a task that was removed, which it fits too."""
        self.candidates = candidates
        self.more = more
        fits = f"{', '.join(candidates)}{' and more' if more else ''}"
        detail = f"'{prefix}' fits several tasks: {fits}"
        if removed:
            detail = f"'{prefix}' fits {fits}, and also task {removed}, which was removed"
        super().__init__(f"{detail}.")


class HarnessError(WatchkeeperError):
    """The agent program cannot be used."""

    exit_code = Exit.HARNESS


class UnknownHarness(HarnessError):
    """There is no such harness."""


class ProgramMissing(HarnessError):
    """The agent program is not installed."""

    hint = "`wk doctor` says what is installed and how to get what is missing."


class BadTask(WatchkeeperError):
    """The task cannot be accepted as it is."""

    exit_code = Exit.BAD_TASK


class StateError(WatchkeeperError):
    """What Watchkeeper keeps on disk cannot be used."""

    exit_code = Exit.STATE


class StateDirectoryUnusable(StateError):
    """The state directory cannot be used."""


class DatabaseUnusable(StateError):
    """The database cannot be used."""


class NoDatabase(DatabaseUnusable):
    """There is no database yet."""


class DatabaseCorrupt(DatabaseUnusable):
    """The database file is damaged."""


class RecordTorn(DatabaseCorrupt):
    """One record of the database cannot be read; all others can."""

    hint = "`wk store repair` shows what can be done about it; nothing was changed."

    def __init__(self, *, place: str, key: str, reason: str, task_id: str | None = None) -> None:
        """Name the record: its table, its key, what is wrong with it, and the task that it is about, if that is known."""
        self.place = place
        self.key = key
        self.reason = reason or "it does not say what such a record says"
        self.task_id = task_id
        super().__init__(f"The {place} '{key}' in the database cannot be read ({self.reason}).")


class DatabaseNewer(DatabaseUnusable):
    """The database was written by a newer version."""


class DatabaseMoved(DatabaseUnusable):
    """The database was moved, or is only half of one."""


class DatabaseBusy(DatabaseUnusable):
    """Timed out waiting for another process to release the database."""


class DatabaseFull(DatabaseUnusable):
    """The disk is full: nothing was changed."""


class DaemonError(WatchkeeperError):
    """The daemon cannot be used."""

    exit_code = Exit.DAEMON


class Superseded(DaemonError):
    """A newer daemon acts for this machine: nothing was written."""


class Refused(WatchkeeperError):
    """This is not allowed now."""

    exit_code = Exit.REFUSED


class Stale(Refused):
    """The record has moved on: nothing was written."""


class KeyTaken(Refused):
    """The key stands for another hand-over already."""


class Elsewhere(Refused):
    """That is on another machine."""


class InsideAgent(Refused):
    """A daemon is never started from inside an agent."""

    exit_code = Exit.INSIDE_AGENT


class SettingsError(WatchkeeperError):
    """A setting cannot be used."""

    exit_code = Exit.SETTINGS


def describe_os_error(problem: OSError) -> str:
    """What the system refused, in words, whatever the error lacks: the library raises some without a number, and some with nothing but a file."""
    if problem.strerror:
        return problem.strerror
    words = [str(each) for each in problem.args if each is not None and not isinstance(each, int)]
    return words[0] if words else "the system refused it"
