"""The queue as a whole, for people and as JSON."""

from typing import TYPE_CHECKING

from watchkeeper.cli import render
from watchkeeper.cli.machines import names
from watchkeeper.domain.lanes import describe_scope
from watchkeeper.domain.wait import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from watchkeeper.app.views.why import Here, LaneView, QueueView, Why
    from watchkeeper.cli.call import Call
    from watchkeeper.domain.lanes import QueueRule, Reason

NOTHING: dict[str, object] = {
    "at_work": 0, "limit": None, "rules": [], "machines": [], "lanes": [], "waiting": [], "left_out": 0,
}  # fmt: skip
"""What there is to say before there is anything."""


def show(call: "Call", found: "QueueView", here: "Here") -> None:
    """Print it."""
    terminal = call.terminal
    called = names(call, found.machines, here.machine)
    terminal.say(
        f"{found.at_work} of {render.counted(found.limit, 'agent')} at work on this machine (queue.limit) · "
        f"{len(found.waiting) + found.left_out} waiting"
    )
    for rule, at_work in zip(found.rules, found.rules_at_work, strict=True):
        terminal.prose(f"  {_rule(rule, at_work, called, here.now)}", hang=4)
    several = len(called) > 1
    for lane in found.lanes:
        terminal.say("")
        for line in _lane(lane, called, several=several):
            terminal.prose(line, hang=2)
        terminal.table(
            ("  ID", "PRIO", "AGE", "TITLE"),
            [_row(each, lane, here.now) for each in found.waiting if each.lane.id == lane.lane.id],
            at_most=200,
        )
    if found.left_out:
        terminal.say("")
        terminal.say(f"{render.counted(found.left_out, 'more task')}: wk queue show --limit N")


def _rule(rule: "QueueRule", at_work: int, called: dict[str, str], now: "datetime") -> str:
    what = render.clean(describe_scope(rule.scope, rule.name, called))
    detail = ["paused"] if rule.paused else []
    if rule.max_running is not None:
        detail.append(f"at most {rule.max_running} at once, {at_work} at work")
    by = f" ({render.clean(rule.by)}, {render.age(rule.at, now)} ago)" if rule.by and rule.at else ""
    return f"{what}: {'; '.join(detail)}{by}"


def _lane(view: "LaneView", called: dict[str, str], *, several: bool) -> "Iterator[str]":
    lane = view.lane
    parts = [lane.harness if lane.account == f"{lane.harness}:own" else lane.account]
    if lane.project:
        parts.append(f"project {lane.project}")
    if several:
        parts.append(f"on {called.get(lane.machine, lane.machine) if lane.machine else 'any machine'}")
    yield render.clean(f"{', '.join(parts)}: {view.waiting} waiting")
    for reason in view.reasons:
        yield f"  {describe(reason)}"


def _row(each: "Why", lane: "LaneView", now: "datetime") -> tuple[str, str, str, str]:
    """The lane's own reasons stand above its tasks; here are those that a task has by itself."""
    own = [reason for reason in each.reasons if reason not in lane.reasons]
    title = render.clean(each.task.spec.title)
    shown = f"{title} ({describe(own[0])})" if own else title
    return f"  {each.task.id}", str(each.task.spec.priority), render.age(each.task.created_at, now), shown


def describe(reason: "Reason") -> str:
    """A reason in a line."""
    if reason.wait is Wait.NOT_BEFORE and reason.until is not None:
        return f"{reason.wait.value} {render.clock(reason.until)}, {render.clean(reason.detail)}"
    since = f" since {render.clock(reason.since)}" if reason.since is not None else ""
    until = f", until {render.clock(reason.until)}" if reason.until is not None else ""
    if reason.wait is Wait.SERVICE:
        until = next_probe(reason.until, reason.tasks)
    apart = " (a task with --worktree does not wait)" if reason.wait is Wait.CHECKOUT_BUSY else ""
    return f"{reason.wait.value}: {render.clean(reason.detail)}{apart}{since}{until}"


def next_probe(at: "datetime | None", probes: "Sequence[str]") -> str:
    """When a service that fails is tried next, or which task tries it now; with the punctuation before it."""
    if at is not None:
        return f"; next probe at {render.clock(at)}"
    return f"; task {probes[0]} is the probe" if probes else "; the next task that starts is the probe"


def plain(call: "Call", found: "QueueView", here: "Here") -> dict[str, object]:
    """All of it as JSON values."""
    from watchkeeper.app.views import plain as view

    called = names(call, found.machines, here.machine)
    return {
        "at_work": found.at_work,
        "limit": found.limit,
        "rules": [view.rule(rule, at_work) for rule, at_work in zip(found.rules, found.rules_at_work, strict=True)],
        "machines": [
            {"id": machine, "name": name, "this": machine == here.machine} for machine, name in called.items()
        ],
        "lanes": [
            {**view.lane(each.lane), "waiting": each.waiting, "reasons": [view.reason(one) for one in each.reasons]}
            for each in found.lanes
        ],
        "waiting": [view.waiting(each) for each in found.waiting],
        "left_out": found.left_out,
    }
