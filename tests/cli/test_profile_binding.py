"""Every setting of every harness, by every source: what it was at hand-over is launched, whatever it is when the daemon launches."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from support.cli import Wk
from support.launching import prepare_next

from watchkeeper.harnesses.registry import BUILT_IN, Registry
from watchkeeper.ports.harness import declared
from watchkeeper.settings import KEYS

OPTIONS: dict[tuple[str, str], tuple[str, str]] = {
    ("claude", "isolation"): ("strict", "user"),
    ("claude", "permission_mode"): ("plan", "acceptEdits"),
    ("claude", "allowed_tools"): ("Read", "Bash"),
    ("claude", "tools"): ("Read", "Bash"),
    ("claude", "max_turns"): ("3", "300"),
    ("claude", "max_budget_usd"): ("0.1", "100"),
    ("claude", "max_retries"): ("0", "9"),
    ("claude", "request_timeout_s"): ("5", "500"),
    ("codex", "isolation"): ("strict", "user"),
    ("codex", "sandbox"): ("read-only", "danger-full-access"),
    ("codex", "network_access"): ("false", "true"),
    ("codex", "config"): ('model_verbosity = "low"', 'model_verbosity = "high"'),
    ("command", "prompt_by"): ("none", "argument"),
    ("demo", "pace"): ("1", "2"),
}
"""Each option with a value for the hand-over, and another one for later. `program` has tests of its own."""

BINDING = {
    "run.model": ("small", "large"),
    "run.deadline": ("60", "3600"),
    "run.silence": ("50", "5000"),
    "run.leftovers": ("wait", "kill"),
    "stop.grace": ("1s", "90s"),
    "logs.limit": ("1M", "100M"),
    "environment.names": ("PLAIN_ONE", "PLAIN_TWO"),
}
"""Settings beside the harnesses' that a launch is made with."""

NOT_OF_A_LAUNCH = [
    "run.harness",
    "run.retries",
    "run.on_lost",
    "run.worktree",
    "run.check",
    "check.deadline",
    "worktree.setup",
    "worktree.teardown",
    "queue.limit",
    "queue.probe_base",
    "queue.probe_cap",
    "queue.outage_patience",
    "queue.retry_base",
    "queue.retry_cap",
    "queue.relaunch_base",
    "daemon.start_grace",
    "daemon.poll",
    "daemon.look_limit",
    "daemon.worktree_limit",
    "review.tool",
    "notify.command",
    "notify.webhook",
    "notify.webhook_key",
    "notify.desktop",
    "notify.services",
    "notify.on",
    "notify.quiet",
    "daemon.answered_grace",
    "daemon.stalled_after",
    "prune.keep_days",
    "prune.keep_salvage_days",
    "prune.keep_tasks_days",
    "worktree.salvage",
    "prune.keep_history_days",
    "store.url",
]
"""Settings that say when and how often something is launched, and what is kept afterwards, but not what."""

PLAIN = {"PLAIN_ONE": "1", "PLAIN_TWO": "2"}


class Case(NamedTuple):
    """One setting, from one source."""

    harness: str
    key: str
    first: str
    later: str
    source: str


def cases() -> Iterator[Case]:
    """Every setting from every source that it can come from."""
    for (harness, option), values in OPTIONS.items():
        for source in ("file", "variable", "flag"):
            yield Case(harness, f"harness.{harness}.{option}", *values, source)
    for key, values in BINDING.items():
        sources = ["file", "variable", *(["repository"] if not KEYS[key].user_only else [])]
        for source in sources:
            yield Case("claude", key, *values, source)


def test_every_setting_is_here_or_does_not_concern_a_launch() -> None:
    """A new one must be put on one of the lists."""
    assert sorted([*BINDING, *NOT_OF_A_LAUNCH]) == sorted(KEYS)
    known = {
        (name, option)
        for name in BUILT_IN
        for option in declared(Registry().get(name)).options or ()
        if option != "program"
    }
    assert known == set(OPTIONS)


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{case.key}-{case.source}")
def test_a_setting_is_launched_as_it_was_at_hand_over(wk: Wk, case: Case) -> None:
    _program(wk, case.harness)
    key, first, flags = case.key, dict[str, str](), list[str]()
    if case.source == "file":
        assert wk("config", "set", key, case.first).code == 0
    elif case.source == "repository":
        section, _, name = key.partition(".")
        _ = (wk.cwd / ".watchkeeper.toml").write_text(f'[{section}]\n{name} = "{case.first}"\n', encoding="utf-8")
    elif case.source == "variable":
        first = {"WATCHKEEPER_" + key.replace(".", "_").upper(): case.first}
    else:
        flags = ["--option", f"{key.rpartition('.')[2]}={case.first}"]
    words = ["--", "cat"] if case.harness == "command" else ["do it"]
    answer = wk("add", "--shared", "--harness", case.harness, "--json", *flags, *words, also={**PLAIN, **first})
    assert answer.code == 0, answer
    handed = json.loads(answer.out)
    # Everything else says something else now: the file, the repository, and the daemon's own variables.
    assert wk("config", "set", key, case.later).code == 0
    (wk.cwd / ".watchkeeper.toml").unlink(missing_ok=True)
    later = {"WATCHKEEPER_" + key.replace(".", "_").upper(): case.later}
    launched: list[tuple[object, ...]] = []
    for changed in ({}, later):
        spec = _launched(wk, {**wk.environ, **PLAIN, **changed}, handed["id"])
        _is_what_was_allowed(spec, handed["profile"])
        launched.append(_launch_of(spec))
        if changed:
            continue
        again = wk("retry", handed["id"], "--json", also={**PLAIN, **later})
        assert again.code == 0, again
    assert launched[0] == launched[1]
    other = wk("add", "--shared", "--harness", case.harness, "--json", *words, also=PLAIN)
    if case.source == "file":  # so that this test is about something
        assert _launch_of(_launched(wk, {**wk.environ, **PLAIN}, json.loads(other.out)["id"])) != launched[0]


def _program(wk: Wk, harness: str) -> None:
    if harness in {"command", "demo"}:
        return
    folder = wk.home.parent / "bin"
    folder.mkdir()
    _ = (folder / harness).write_text("#!/bin/sh\necho 1.0\n", encoding="utf-8")
    (folder / harness).chmod(0o755)
    wk.environ["PATH"] = f"{folder}:/usr/bin:/bin"


def _launched(wk: Wk, environ: dict[str, str], task_id: str) -> dict[str, Any]:
    """What the shim of a task's next run would get from a daemon with this environment."""
    prepared = prepare_next(wk, environ)
    assert prepared.run.task_id == task_id
    return prepared.spec


def _launch_of(spec: dict[str, Any]) -> tuple[object, ...]:
    names = ("argv", "prompt_by", "grace_s", "log_limit_bytes", "deadline_s", "silence_s", "leftovers")
    ours = ("WATCHKEEPER_RUN", "WATCHKEEPER_EXECUTION")
    environment = {name: value for name, value in spec["environment"].items() if name not in ours}
    return (json.dumps(environment, sort_keys=True), *(json.dumps(spec[name]) for name in names))


def _is_what_was_allowed(spec: dict[str, Any], profile: dict[str, Any]) -> None:
    for name in ("argv", "prompt_by", "grace_s", "log_limit_bytes"):
        assert spec[name] == profile[name], name
    for name, value in profile["environment"].items():
        assert spec["environment"].get(name) == value, name
