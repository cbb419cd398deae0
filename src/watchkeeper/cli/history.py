"""One entry of the history in words, for people. `wk events --json` has every fact."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, cast

from watchkeeper.cli import render

if TYPE_CHECKING:
    from watchkeeper.ports.store import JournalEntry

Facts = Mapping[str, object]

_PROOFS = {
    "proven": "nothing of it is alive",
    "swept": "nothing of it was found alive",
    "unproven": "something of it may be alive",
}
_BECAME = {"queued": "waits for another try", "needs_input": "needs you"}
_SIGN_INS = {"in": "is signed in", "out": "is signed out", "unknown": "may be signed in or not: that is not known"}
_TERM = 0x7F


def describe(entry: "JournalEntry") -> str:
    """The entry in words. A kind that has none comes from another version."""
    words = _WORDS.get(entry.kind)
    if words is None:
        return f"something that this version cannot put into words ({_text(entry.kind)}); wk events --json has it"
    return words if isinstance(words, str) else words(entry.data)


def _text(value: object) -> str:
    return render.clean(str(value))


def _get(facts: Facts, name: str) -> str:
    return _text(facts.get(name, ""))


def _with(words: str, name: str, start: str = ": ") -> Callable[[Facts], str]:
    """The words, and behind them a fact if it is there."""

    def say(facts: Facts) -> str:
        fact = _get(facts, name)
        return f"{words}{start}{fact}" if fact else words

    return say


def _added(facts: Facts) -> str:
    return f"handed over by {_get(facts, 'by')}: {_get(facts, 'title')}"


def _works(facts: Facts) -> str:
    return f"its agent works (pid {_get(facts, 'agent_pid')})"


def _ended(facts: Facts) -> str:
    status, elapsed_s = facts.get("exit_status"), facts.get("exit_elapsed_s")
    if not isinstance(status, int):
        how = "could not be started"
    elif status & _TERM:
        how = f"ended by signal {status & _TERM}"
    else:
        how = f"ended with code {status >> 8}"
    after = f" after {render.elapsed(elapsed_s)}" if isinstance(elapsed_s, int | float) else ""
    return f"its agent {how}{after}"


def _lost(facts: Facts) -> str:
    return f"its agent is lost: {_get(facts, 'reason')} {_proof(facts).capitalize()}."


def _proof(facts: Facts) -> str:
    return _PROOFS.get(_get(facts, "proof"), "nothing is proven")


def _stalled(facts: Facts) -> str:
    since = facts.get("since")
    if not isinstance(since, str):
        return "it prints something new again"
    return f"it makes no progress since {render.clock(datetime.fromisoformat(since))}"


def _answered(facts: Facts) -> str:
    return "it has given its final answer, and continues" if facts.get("since") else "it took up its work again"


def _settled(facts: Facts) -> str:
    return f"decided: {_get(facts, 'status')}; {_proof(facts)}"


def _came_to(facts: Facts) -> str:
    state = _get(facts, "state")
    words, at = _BECAME.get(state, state or "its run was decided"), facts.get("wake_at")
    if state == "queued" and isinstance(at, str):
        words += f" at {render.clock(datetime.fromisoformat(at))}"
    reason = _get(facts, "reason")
    return words if state == "done" or not reason else f"{words}: {reason}"


def _worktree_removal(facts: Facts) -> str:
    if reason := _get(facts, "reason"):
        return f"its worktree stays: {reason}"
    return "its worktree was removed" if _get(facts, "became") == "removed" else "its worktree is removed next"


def _merge_step(facts: Facts) -> str:
    into, reason = _get(facts, "merge_into"), _get(facts, "reason")
    words = {
        "begun": f"its merge into {into} has begun",
        "conflicts": f"its merge into {into} waits for conflicts to be resolved",
        "landing": f"{into} moves to its commits next",
        "merged": f"it was merged into {into} at {_get(facts, 'merge_tip')[:10]}",
        "ended": f"its merge into {into} ended, and {into} is as it was",
    }
    said = words.get(_get(facts, "became"), f"its merge into {into} came to another step")
    return f"{said}: {reason}" if reason else said


def _swept(facts: Facts) -> str:
    ended, spared = (cast("list[object]", facts.get(name) or []) for name in ("ended", "spared"))
    parts = [f"what was left of it was looked for: {_proof(facts)}"]
    if ended:
        parts.append("ended " + ", ".join(_text(each) for each in ended))
    if spared:
        parts.append("left alone: " + " ".join(_text(each) for each in spared))
    return "; ".join(parts)


def _stop_asked(facts: Facts) -> str:
    return f"{_get(facts, 'request_by')} asked for its end ({_get(facts, 'request_how')})"


def _daemon(facts: Facts) -> str:
    found = facts.get("found")
    runs = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    counts = Counter(_text(word) for word in runs.values())
    had = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    return f"a daemon started (pid {_get(facts, 'pid')})" + (f"; runs that it found: {had}" if had else "")


def _account_added(facts: Facts) -> str:
    home = _get(facts, "home") if facts.get("home") else ""
    variables = ", ".join(_text(each) for each in cast("list[object]", facts.get("variables") or []))
    parts = [f"home {home}" if home else "", f"variables {variables}" if variables else ""]
    what = "; ".join(part for part in parts if part)
    return f"account {_get(facts, 'account')} was added by {_get(facts, 'by')}{f': {what}' if what else ''}"


def _account_seen(facts: Facts) -> str:
    """What was learnt of an account: of its sign-in, its limit, or the service behind it."""
    account = f"account {_get(facts, 'account')}"
    if "sign_in" in facts:
        return f"{account} {_SIGN_INS.get(_get(facts, 'sign_in'), 'was looked at')}"
    if trouble := _get(facts, "trouble"):
        detail = _get(facts, "detail")
        return f"{account}: its service is in trouble ({trouble}){f': {detail}' if detail else ''}"
    until = facts.get("quota_until")
    if isinstance(until, str) and until:
        return f"{account} has used up its limit, until {render.clock(datetime.fromisoformat(until))}"
    return f"{account}: its service answers" if "trouble" in facts else f"{account} is within its limit"


def _harness_seen(facts: Facts) -> str:
    if facts.get("present"):
        where = _get(facts, "detail")
        return f"the program of harness {_get(facts, 'harness')} is there{f': {where}' if where else ''}"
    return f"the program of harness {_get(facts, 'harness')} is missing: {_get(facts, 'detail')}"


def _restored(facts: Facts) -> str:
    at = facts.get("backup_of")
    until = f" of {render.clock(datetime.fromisoformat(at))}" if isinstance(at, str) else ""
    return f"the database was restored from a backup{until}"


def _waits(facts: Facts) -> str:
    until = facts.get("until")
    at = f", until {render.clock(datetime.fromisoformat(until))}" if isinstance(until, str) else ""
    return f"waits ({_get(facts, 'wait')}): {_get(facts, 'detail')}{at}"


def _lane(facts: Facts) -> str:
    project = _get(facts, "project")
    return f"tasks of {_get(facts, 'account')}{f' in project {project}' if project else ''}"


def _rule(words: str) -> Callable[[Facts], str]:
    def say(facts: Facts) -> str:
        scope, name = _get(facts, "scope"), _get(facts, "name")
        most = facts.get("max_running")
        what = "the queue" if scope in {"", "all"} else f"{scope} {name}"
        limit = "none" if most is None else f"{most} at once"
        return f"{what} {words}".replace("LIMIT", limit) + (f" by {_get(facts, 'by')}" if facts.get("by") else "")

    return say


_WORDS: Mapping[str, str | Callable[[Facts], str]] = {
    "task.added": _added,
    "task.claimed": "its turn has come",
    "task.run_held": _with("held", "reason"),
    "task.run_regained": "continues: the evidence came back",
    "task.run_settled": _came_to,
    "task.stop_asked": _stop_asked,
    "task.stopped_off_record": lambda facts: (
        f"{_get(facts, 'by')} had asked for its end ({_get(facts, 'how')}) while the database could not be used"
    ),
    "task.retry_asked": _with("queued again", "by", " by "),
    "message.sent": _with("a message was sent", "message", " "),
    "message.taken": _with("its run takes a message", "message", " "),
    "message.waiting": _with("a message waits again", "message", " "),
    "message.answered": _with("a message was answered", "message", " "),
    "message.stopped": _with("a message was answered with the stop", "message", " "),
    "message.failed": _with("a message failed", "message", " "),
    "task.edited": _with("changed", "changed", ": "),
    "task.renamed": _with("has another title", "title"),
    "task.pinned": lambda facts: "is kept on top" if facts.get("pinned", True) else "is not kept on top any more",
    "task.worktree_made": "its worktree is there",
    "task.worktree_removal": _worktree_removal,
    "task.worktree_restored": _with("its worktree was brought back", "by", " by "),
    "worktree.restored": _with("the worktree that it left was brought back", "by", " by "),
    "task.merge_step": _merge_step,
    "task.pushing": lambda facts: f"{_get(facts, 'branch')} is pushed to {_get(facts, 'url')} next",
    "task.pushed": lambda facts: f"{_get(facts, 'branch')} was pushed to {_get(facts, 'url')}",
    "task.request_asked": lambda facts: f"{_get(facts, 'program')} opens a request for {_get(facts, 'branch')} next",
    "task.request_opened": _with("a request was opened", "answer"),
    "worktree.removed": _with("the worktree that it left was removed", "by", " by "),
    "task.waiting": _waits,
    "task.ready": "waits for nothing of its own any more",
    "queue.waiting": lambda facts: f"{_lane(facts)} wait ({_get(facts, 'wait')}): {_get(facts, 'detail')}",
    "queue.moving": lambda facts: f"{_lane(facts)} are started again",
    "account.probe": lambda facts: f"tries the service of {_get(facts, 'account')} for all its tasks",
    "queue.paused": _rule("was paused"),
    "queue.resumed": _rule("goes on, resumed"),
    "queue.limited": _rule("got another limit, LIMIT,"),
    "run.reserved": "a run was made for it",
    "run.prepared": "everything is prepared for its agent",
    "run.new_commits": _with("there are new commits in its checkout", "detail"),
    "run.shim_started": "its shim was started",
    "run.agent_seen": _works,
    "run.exit_seen": _ended,
    "run.never_launched": _with("its agent was never started", "reason"),
    "run.lost": _lost,
    "run.held_back": _with("what became of it is uncertain", "reason"),
    "run.undecided": "its directory is there again, and nothing had begun in it",
    "run.early_fail_seen": _with("can only fail, so wk ends it early", "early_fail_reason"),
    "run.delayed": _with("waits", "reason"),
    "run.answered": _answered,
    "run.lingered": "it went on for too long after its answer, so it is ended",
    "run.stalled": _stalled,
    "run.stop_wanted": _with("its agent is to end", "how", " by "),
    "run.interrupt_wanted": "its agent is to end together with the daemon",
    "run.stop_told": "its shim was asked to end it",
    "run.stop_failed": _with("it could not be ended yet, and is tried again", "reason"),
    "run.stop_overdue": _with("it has not ended in time, so its shim is asked again", "reason"),
    "run.session_seen": _with("its conversation is", "harness_session", " "),
    "run.setup_started": _with("its worktree is being set up", "line"),
    "run.setup_ended": _with("the set-up has ended", "reason"),
    "run.teardown_started": _with("its worktree is being torn down", "line"),
    "run.teardown_ended": _with("the teardown has ended", "reason"),
    "run.check_started": _with("a check runs", "line"),
    "run.check_ended": _with("a check has ended", "reason"),
    "run.settled": _settled,
    "run.swept": _swept,
    "run.end_told": _with("what may be left of it was looked at", "reason"),
    "run.end_given_up": _with("what may be left of it could not be ended; it is not tried any more", "reason"),
    "daemon.started": _daemon,
    "account.added": _account_added,
    "account.removed": lambda facts: f"account {_get(facts, 'account')} was removed by {_get(facts, 'by')}",
    "account.seen": _account_seen,
    "harness.seen": _harness_seen,
    "task.removed": lambda facts: f"removed by {_get(facts, 'by')}: {_get(facts, 'title')}",
    "salvage.pruned": "what was kept of its removed worktree was let go of by pruning",
    "execution.pruned": "its directory and output were deleted by pruning",
    "execution.left": _with("the directory of one of its runs was left alone", "reason"),
    "database.restored": _restored,
    "notice.given_up": _with("a notice could not be sent and is given up", "reason"),
    "history.torn": _with("this entry cannot be read", "reason"),
    "record.torn": lambda facts: f"a record cannot be read any more ({_get(facts, 'record')}): {_get(facts, 'reason')}",
    "record.mended": lambda facts: f"a record can be read again, or is gone ({_get(facts, 'record')})",
    "record.repaired": lambda facts: (
        f"a record was repaired by {_get(facts, 'by')} ({_get(facts, 'record')}): {_get(facts, 'what')}"
    ),
    "task.torn": _with("it is not started: something about it cannot be read or does not fit", "reason"),
}
KINDS = frozenset(_WORDS)
"""The kinds of entries that have words. A test compares them with all that there are."""
