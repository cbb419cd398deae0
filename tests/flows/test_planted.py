"""Programs that an agent planted in its tree and in the configuration of its repository are run by none of our commands.

The list of commands is taken from the command line itself: one that is new has to be named here, with how it is given or why it needs no play.
"""

import json
import subprocess
from collections.abc import Iterator

import click
import pytest
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.cli.main import wk
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit

HOOKS = (
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout", "post-commit", "post-index-change",
    "post-merge", "post-rewrite", "pre-applypatch", "pre-auto-gc", "pre-commit", "pre-merge-commit", "pre-push", "pre-rebase",
    "prepare-commit-msg", "push-to-checkout", "reference-transaction",
)  # fmt: skip
OF_GIT = (
    "status", "diff", "diff-tree", "diff-index", "reset", "read-tree", "worktree", "update-ref", "rev-parse", "rev-list", "ls-files",
    "ls-tree", "cat-file", "config", "fast-import", "for-each-ref", "merge", "rebase", "push", "fetch", "commit", "gc",
)  # fmt: skip

CONFIG = """
[core]
    fsmonitor = {trap} fsmonitor
    hooksPath = {hooks}
    pager = {trap} pager
    editor = {trap} editor
    sshCommand = {trap} ssh
    askPass = {trap}
    gitProxy = {trap}
    alternateRefsCommand = {trap} alternates
[diff]
    external = {trap} external
    tool = evil
[diff "evil"]
    command = {trap} diff
    textconv = {trap} textconv
[filter "evil"]
    clean = {trap} clean
    smudge = {trap} smudge
    process = {trap} process
    required = true
[merge]
    tool = evil
[merge "evil"]
    driver = {trap} merge %O %A %B
[difftool "evil"]
    cmd = {trap} difftool
[mergetool "evil"]
    cmd = {trap} mergetool
[pager]
    diff = {trap} pager-diff
    log = {trap} pager-log
[gpg]
    program = {trap} gpg
[gpg "ssh"]
    program = {trap} gpg-ssh
[commit]
    gpgSign = true
[credential]
    helper = !{trap} credential
[uploadpack]
    packObjectsHook = {trap} pack
[sequence]
    editor = {trap} sequence
[interactive]
    diffFilter = {trap} interactive
[remote "origin"]
    url = ext::{trap} remote
    uploadpack = {trap} uploadpack
    receivepack = {trap} receivepack
[hook "evil"]
    command = {trap} configured-hook
    event = reference-transaction
    event = post-checkout
[include]
    path = {more}
[includeIf "gitdir:**"]
    path = {more}
"""
MORE = """
[core]
    fsmonitor = {trap} included-fsmonitor
[diff]
    external = {trap} included-external
[filter "more"]
    clean = {trap} included-clean
    smudge = {trap} included-smudge
    process = {trap} included-process
"""
ATTRIBUTES = "* diff=evil filter=evil merge=evil\n*.more filter=more\n"

NO_GIT = {
    "account add": "it makes a directory and starts the program's own login",
    "account check": "it asks a program whether it is signed in",
    "account login": "it starts the program's own login",
    "account ls": "it reads the database",
    "account rm": "it writes the database",
    "account show": "it reads the database",
    "backup": "it copies the database",
    "notify ls": "it reads the database",
    "notify test": "it runs what the settings of the user name",
    "restore": "it replaces the database",
    "store check": "it reads the database",
    "store copy": "it copies the database",
    "store repair": "it writes the database",
    "store upgrade": "it writes the database",
    "config set": "it writes the settings",
    "config unset": "it writes the settings",
    "daemon install": "it writes a unit of the user's service manager",
    "daemon uninstall": "it removes that unit",
    "daemon run": "the daemon that the play starts",
    "demo": "it works in a directory of its own",
    "bundle verify": "it reads an archive",
}
"""Commands that are not played, and why nothing in a repository concerns them."""

LATER = ("daemon restart", "daemon stop")
"""Given at the end."""


def _commands() -> list[str]:
    """Every command that there is, by its words."""
    context = click.Context(wk)

    def below(command: click.Command | None, words: tuple[str, ...]) -> Iterator[str]:
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                yield from below(command.get_command(context, name), (*words, name))
        else:
            yield " ".join(words)

    return list(below(wk, ()))


class Planted:
    """A repository whose agent has planted everything, and two tasks that worked in it."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.sprung = rig.root / "sprung"
        trap = rig.root / "trap"
        trap.write_text(f'#!/bin/sh\necho "$0 $*" >> "{self.sprung}"\nexit 1\n', encoding="utf-8")
        trap.chmod(0o755)
        hooks, common, self.plant = rig.root / "hooks", rig.repo / ".git", rig.root / "plant"
        more = rig.root / "more"
        more.write_text(MORE.format(trap=trap), encoding="utf-8")
        aliases = "[alias]\n" + "".join(f"    {name} = !{trap} alias-{name}\n" for name in OF_GIT)
        config = rig.root / "config"
        forge = rig.root / "forge.git"
        _ = subprocess.run(["git", "init", "-q", "--bare", str(forge)], check=True, env=rig.environment)
        known = f'[user]\n    name = Ada\n    email = ada@example.org\n[remote "origin"]\n    url = {forge}\n'
        config.write_text(CONFIG.format(trap=trap, hooks=hooks, more=more) + aliases + known, encoding="utf-8")
        attributes = rig.root / "attributes"
        attributes.write_text(ATTRIBUTES, encoding="utf-8")
        lines = [f"mkdir -p '{hooks}' '{common}/info'"]
        for name in HOOKS:
            lines += [f"cp '{trap}' '{hooks}/{name}'", f"cp '{trap}' '{common}/hooks/{name}'"]
        lines += [f"cat '{config}' >> '{common}/config'", f"cp '{attributes}' .gitattributes"]
        self.attributes = [f"cp '{attributes}' '{common}/info/attributes'"]
        self.plant.write_text("\n".join(lines) + "\n", encoding="utf-8")
        rig.start_daemon()
        # The agents do not use git after the planting: whatever springs the trap then is ours.
        self.first = self._agent("--worktree")
        self.second = self._agent("--worktree")
        self.here = self._agent("--here")

    def _agent(self, where: str) -> str:
        script = f"write new.more text\nappend README more\nrun sh {self.plant}\nsay done"
        task_id = str(json.loads(self.rig.wk("run", "--json", "--harness", "demo", where, script).stdout)["id"])
        assert self.rig.wait_resting(task_id).state is TaskState.DONE, self.rig.task(task_id).reason
        return task_id

    def plant_attributes(self) -> None:
        """From now on the repository says of every file that it is filtered, also in worktrees that are made later."""
        for line in self.attributes:
            _ = subprocess.run(["sh", "-c", line], check=True, cwd=self.rig.repo)

    def plays(self) -> list[tuple[str, tuple[str, ...]]]:
        """Every command as it is given, in an order in which each has something to do."""
        one, two, here = self.first, self.second, self.here
        run = ("--harness", "demo", "say hello")
        return [
            ("run", ("--here", *run)),
            ("run", ("--worktree", *run)),
            ("run", ("--here", "--shared", *run)),
            ("add", ("--worktree", "--not-before", "+9h", *run)),
            ("add", ("--here", "--not-before", "+9h", *run)),
            ("edit", ("@1", "--priority", "3")),
            *((name, ()) for name in ("ls", "status", "events", "report", "timeline", "cost", "doctor", "version")),
            *((name, (each,)) for name in ("show", "why", "logs", "wait", "explain", "env") for each in (one, here)),
            *(("diff", (each, *how)) for each in (one, here) for how in ((), ("--stat",), ("--json",))),
            ("review", (one,)),
            ("bundle write", (one, "--output", str(self.rig.root / "bundle.zip"))),
            ("queue show", ()),
            ("queue pause", ()),
            ("queue resume", ()),
            ("queue limit", ("3",)),
            ("rename", (one, "Renamed")),
            ("pin", (one,)),
            ("unpin", (one,)),
            ("cancel", ("@1",)),
            ("apply", (one, "--reverse")),  # the agent of the checkout wrote the same
            ("apply", (one, "--dry-run")),
            ("apply", (one, "--3way")),
            ("apply", (one, "--reverse")),
            ("merge", (one, "--commit", "--message", "All of it")),
            ("pr", (one, "--print")),
            ("pr", (one,)),
            ("send", (here, "say more")),
            ("resume", (here,)),
            ("thread", (here,)),
            ("retry", (one,)),
            ("stop", (one,)),
            ("kill", (one,)),
            ("worktree ls", ()),
            ("worktree show", (two,)),
            ("worktree clean", ("--all", "--dry-run")),
            ("worktree clean", (two,)),
            ("worktree clean", (two, "--discard")),
            ("undo", ("--list",)),
            ("undo", (two,)),
            ("rm", (two, "--dry-run", "--discard")),
            ("rm", (two, "--discard")),
            ("undo", ()),
            ("prune", ("--older-than", "1s")),
            ("config show", ()),
            ("completion", ("bash",)),
            ("daemon status", ()),
            ("daemon start", ()),
            *((name, ()) for name in LATER),
        ]


def test_every_command_is_played_or_excused(rig: Rig) -> None:
    """So a new command cannot be forgotten."""
    plays = {name for name, _ in Planted.plays(_named(rig))}
    assert plays | NO_GIT.keys() == set(_commands())
    assert plays & NO_GIT.keys() == set()


def _named(rig: Rig) -> Planted:
    """As far as the list of commands needs it."""
    planted = Planted.__new__(Planted)
    planted.rig, planted.first, planted.second, planted.here = rig, "a", "b", "c"
    return planted


@pytest.mark.timeout(300)
def test_what_an_agent_planted_is_run_by_no_command(rig: Rig) -> None:
    planted = Planted(rig)
    wait_until(lambda: not rig.survivors(), within_s=20, what="the agents are gone")
    assert not planted.sprung.exists(), planted.sprung.read_text(encoding="utf-8")
    rig.wk("config", "set", "review.tool", "true")
    done: dict[str, int] = {}
    for number, (name, arguments) in enumerate(planted.plays()):
        if name == "retry":
            planted.plant_attributes()
        newest = rig.tasks()[-1].id
        given = [newest if each == "@1" else each for each in arguments]
        answer = rig.wk(*name.split(), *given, check=False)
        assert answer.returncode not in {Exit.USAGE, Exit.INTERNAL}, f"{name} {given}: {answer.stderr.decode()}"
        done[f"{number} {name}"] = answer.returncode
        assert not planted.sprung.exists(), f"{name} {given}: {planted.sprung.read_text(encoding='utf-8')}"
    for task in rig.tasks():
        if task.state is TaskState.RUNNING:
            _ = rig.wait_resting(task.id)
    assert not planted.sprung.exists(), planted.sprung.read_text(encoding="utf-8")
    failed = {name: code for name, code in done.items() if code != 0}
    # Refused are: a removal without `--discard`, a merge of files that need the planted filter, a push to an address that runs a program, and changes that
    # do not fit because the filter is not run. Everything else did what it does.
    assert {name.split(" ", 1)[1] for name in failed} <= {"worktree clean", "merge", "pr", "apply", "resume"}, failed
    assert {"worktree clean", "merge", "pr"} <= {name.split(" ", 1)[1] for name in failed}, failed
    _ = subprocess.run(["git", "status"], check=False, cwd=rig.repo, capture_output=True, env=rig.environment)
    assert planted.sprung.exists(), "the traps themselves must work"
