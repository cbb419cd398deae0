"""Histories of settings, hand-overs, edits, restarts and retries, each launch of which is compared with what was allowed.

The command line is called in this process, and the daemon's verbs are called one by one, with settings that were loaded when it last "started". What is
launched is real: a shim, and a stand-in for the agent program that records the arguments, the variables and the prompt that it received.
"""

import json
import os
import random
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.cli import Wk
from support.waiting import wait_until

from watchkeeper.app.claim import Claimant, claim
from watchkeeper.compose import Watchkeeper
from watchkeeper.domain.model import RunState, TaskState
from watchkeeper.workspaces.apart import ApartWorkspace

if TYPE_CHECKING:
    from collections.abc import Callable

STAND_IN = """#!/bin/sh
here=${0%/*}
[ "$1" = --version ] && { cat "$here/version"; exit 0; }
{ for word; do printf 'argument %s\\n' "$word"; done; env | sed 's/^/variable /'; } > "$here/record.new"
cat > "$here/prompt"
mv "$here/record.new" "$here/record"
exit 3
"""

SETTINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "claude": {
        "harness.claude.permission_mode": ("acceptEdits", "plan", "dontAsk"),
        "harness.claude.allowed_tools": ("Bash", "Read,Grep", "Bash,WebFetch,WebSearch"),
        "harness.claude.tools": ("Read", "Read,Bash"),
        "harness.claude.max_turns": ("5", "50"),
        "harness.claude.max_budget_usd": ("0.5", "20"),
        "harness.claude.max_retries": ("0", "3"),
        "harness.claude.request_timeout_s": ("30", "600"),
        "harness.claude.isolation": ("strict", "project", "user"),
    },
    "codex": {
        "harness.codex.sandbox": ("read-only", "workspace-write", "danger-full-access"),
        "harness.codex.network_access": ("true", "false"),
        "harness.codex.isolation": ("strict", "project", "user"),
        "harness.codex.config": ('model_reasoning_effort = "high"', 'model_verbosity = "low"'),
    },
}
"""Settings of each harness, with values that can be had in any combination."""

COMMON = {
    "run.model": ("m-1", "m-2"),
    "run.deadline": ("90", "2h"),
    "run.leftovers": ("kill", "wait"),
    "stop.grace": ("1s", "7s"),
    "logs.limit": ("1M", "9M"),
}

REPOSITORY = ("run.model",)
"""What a repository's file may set."""


@dataclass
class History:
    """One history of one harness."""

    wk: Wk
    harness: str
    draw: random.Random
    root: Path
    daemon: Watchkeeper | None = None
    steps: list[str] = field(default_factory=list[str])
    launches: int = 0
    wrong: list[str] = field(default_factory=list[str])
    variables: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def bin(self) -> Path:
        """Where the stand-in is."""
        return self.root / "bin"

    def begin(self) -> None:
        """Install the stand-in, and start the first daemon."""
        self.bin.mkdir()
        program = self.bin / self.harness
        _ = program.write_text(STAND_IN, encoding="utf-8")
        program.chmod(0o755)
        _ = (self.bin / "version").write_text("1.0.0\n", encoding="utf-8")
        self.wk.environ["PATH"] = f"{self.bin}:/usr/bin:/bin"
        self.restart()

    def play(self, length: int) -> None:
        """Do so many things, of any kind, and launch at the end whatever still waits."""
        self.begin()
        self.hand_over()
        kinds: list[Callable[[], None]] = [
            self.set_in_file, self.set_in_file, self.set_in_variable, self.set_in_repository, self.restart, self.hand_over, self.edit, self.launch,
            self.retry, self.upgrade,
        ]  # fmt: skip
        for _ in range(length):
            self.draw.choice(kinds)()
        self.restart()
        for _ in range(3):
            self.launch()

    # --- what changes ---

    def _setting(self) -> tuple[str, str]:
        known = {**SETTINGS[self.harness], **COMMON}
        name = self.draw.choice(sorted(known))
        return name, self.draw.choice(known[name])

    def set_in_file(self) -> None:
        """The user's file."""
        name, value = self._setting()
        self._note(f"config set {name} {value!r}")
        self._ok("config", "set", name, value)

    def set_in_variable(self) -> None:
        """A variable of the person's shell; the daemon has it too after its next start."""
        name, value = self._setting()
        self._note(f"variable {name}={value!r}")
        self.variables = {"WATCHKEEPER_" + name.replace(".", "_").upper(): value}

    def set_in_repository(self) -> None:
        """The repository's file."""
        name = self.draw.choice(REPOSITORY)
        value = self.draw.choice(COMMON[name])
        self._note(f"repository {name}={value!r}")
        section, _, key = name.partition(".")
        _ = (self.wk.cwd / ".watchkeeper.toml").write_text(f'[{section}]\n{key} = "{value}"\n', encoding="utf-8")

    def upgrade(self) -> None:
        """The program is replaced by another version."""
        version = f"{self.draw.randint(1, 9)}.{self.draw.randint(0, 99)}.0"
        self._note(f"upgrade to {version}")
        _ = (self.bin / "version").write_text(version + "\n", encoding="utf-8")
        program = self.bin / self.harness
        times = program.stat()
        os.utime(program, ns=(times.st_atime_ns, times.st_mtime_ns + 10**9))

    def restart(self) -> None:
        """A daemon with the settings of now. The process that looks into directories stays: it reads none of the settings that change, and starts slowly."""
        self._note("restart")
        kept = self._end_daemon()
        self.daemon = Watchkeeper.open(self.root, {**self.wk.environ, **self.variables}, writes=True, is_daemon=True)
        if kept is not None:
            self.daemon.workspace = kept

    def close(self) -> None:
        """End the daemon, and the process that looks into directories."""
        workspace = self._end_daemon()
        if isinstance(workspace, ApartWorkspace):
            workspace.close()

    def _end_daemon(self) -> Any:
        """End the daemon; returns its workspace, None if it had not made one."""
        made: dict[str, Any] = {} if self.daemon is None else vars(self.daemon)
        if self.daemon is not None and "store" in made:
            self.daemon.store.close()
        self.daemon = None
        return made.get("workspace")

    # --- what a person asks for ---

    def _rights(self) -> list[str]:
        options: list[str] = []
        if self.draw.random() < 0.5:
            levels = ["read", "edit", *(["full"] if self.harness == "codex" else [])]
            options += ["--rights", self.draw.choice(levels)]
        if self.draw.random() < 0.4:
            one = {"claude": "max_turns=7", "codex": "network_access=true"}[self.harness]
            options += ["--option", one]
        if self.draw.random() < 0.2:
            options += ["--model", "m-3"]
        return options

    def hand_over(self) -> None:
        """A task, by flags, variables and files as they are now."""
        words = ["add", "--shared", "--harness", self.harness, "--json", *self._rights()]
        if self.draw.random() < 0.3:
            words += ["--isolation", self.draw.choice(["strict", "project"])]
        self._note(shlex.join(words))
        answer = self.wk(*words, "Do it.", also=self.variables)
        if answer.code:  # rights that cannot be had with the isolation that is set
            assert "cannot be promised" in answer.err + answer.out, answer
            return
        handed = json.loads(answer.out.splitlines()[-1])
        self._compare(handed["id"], handed["profile"], "hand-over")

    def edit(self) -> None:
        """Other rights for a task that waits."""
        waiting = self._tasks(TaskState.QUEUED)
        options = self._rights()
        if not waiting or not options:
            return
        self._note(f"edit {waiting[0]} {shlex.join(options)}")
        answer = self.wk("edit", waiting[0], "--json", *options, also=self.variables)
        assert not answer.code or "cannot be promised" in answer.err + answer.out, answer

    def retry(self) -> None:
        """A failed task once more."""
        failed = self._tasks(TaskState.FAILED)
        if not failed:
            return
        before = self._profile(failed[0])
        self._note(f"retry {failed[0]}")
        self._ok("retry", failed[0], "--json", also=self.variables)
        after = self._profile(failed[0])
        for name in before:
            if name not in {"program_version", "fingerprint", "line", "environment"} and before[name] != after[name]:
                self.wrong.append(f"a retry changed {name}: {before[name]} → {after[name]}")

    # --- what is launched ---

    def launch(self) -> None:
        """Claim the next task and run it to its end, with the daemon's settings of its start."""
        daemon = self.daemon
        assert daemon is not None
        at = daemon.clock.now()
        node = daemon.state.node()
        machine = daemon.store.transact("begin", lambda tx: tx.machines.begin_incarnation(node, "boot", at))
        claimed = claim(
            daemon.store, daemon.clock, daemon.ids, Claimant(machine=machine, limit=9), daemon.ids.operation()
        )
        if claimed is None:
            return
        allowed = self._profile(claimed.task_id)
        self._note(f"launch {claimed.task_id}")
        daemon.launcher.launch(claimed.run_id)
        (self.bin / "record").unlink(missing_ok=True)
        run = wait_until(lambda: self._ended(daemon, claimed.run_id), within_s=60, what=f"run {claimed.run_id} ended")
        spec = json.loads((daemon.state.executions / run.execution_id / "spec.json").read_text(encoding="utf-8"))
        _ = daemon.settler.settle(run.id)
        for shim in daemon.runtime._shims:  # pyright: ignore[reportAttributeAccessIssue] - the process runtime's
            _ = shim.wait(timeout=60)
        self.launches += 1
        self._judge(claimed.task_id, allowed, spec)

    def _ended(self, daemon: Watchkeeper, run_id: str) -> Any:
        _ = daemon.performer.perform_due()
        _ = daemon.observer.observe(run_id)
        run = daemon.store.read(lambda tx: tx.runs.get(run_id))
        return run if run.state is RunState.ENDED else None

    def _judge(self, task_id: str, allowed: dict[str, Any], spec: dict[str, Any]) -> None:
        """What spec.json launches, what the program received, and what `show` says are equal."""
        got = (self.bin / "record").read_text(encoding="utf-8").splitlines()
        arguments = [line.removeprefix("argument ") for line in got if line.startswith("argument ")]
        pairs = [line.removeprefix("variable ") for line in got if line.startswith("variable ")]
        variables = {name: value for name, _, value in (each.partition("=") for each in pairs)}
        self._compare(task_id, allowed, "launch")
        self._equal("argv", spec["argv"], allowed["argv"])
        self._equal("arguments", arguments, "\n".join(allowed["argv"][1:]).split("\n"))
        for name, value in allowed["environment"].items():
            self._equal(f"variable {name}", variables.get(name), value)
            self._equal(f"spec's {name}", spec["environment"].get(name), value)
        self._equal("grace", spec["grace_s"], allowed["grace_s"])
        self._equal("log limit", spec["log_limit_bytes"], allowed["log_limit_bytes"])
        self._equal("the prompt", (self.bin / "prompt").read_text(encoding="utf-8"), "Do it.")
        shown = self._show(task_id)["deadline_s"]
        self._equal("deadline", spec.get("deadline_s"), shown)

    # --- helpers ---

    def _compare(self, task_id: str, profile: dict[str, Any], when: str) -> None:
        shown = self._show(task_id)["authorisation"]
        self._equal(f"what show says at {when}", shown["profile"], profile)
        self._equal(f"the line at {when}", shown["detail"], profile["line"])

    def _equal(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            self.wrong.append(f"{what}: {found!r} is not {wanted!r}")

    def _profile(self, task_id: str) -> dict[str, Any]:
        return self._show(task_id)["authorisation"]["profile"]

    def _show(self, task_id: str) -> dict[str, Any]:
        return self._ok("show", task_id, "--json").json

    def _tasks(self, state: TaskState) -> list[str]:
        parts = self.daemon
        assert parts is not None
        return [task.id for task in parts.store.read(lambda tx: tx.tasks.in_states([state], 10))]

    def _ok(self, *words: str, also: dict[str, str] | None = None) -> Any:
        answer = self.wk(*words, also=also)
        assert answer.code == 0, (words, answer)
        return answer

    def _note(self, step: str) -> None:
        self.steps.append(step)
