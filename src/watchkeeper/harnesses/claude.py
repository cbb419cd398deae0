"""Claude Code, run without a terminal: the prompt on standard input, JSON events on standard output.

The sign-in is that of the account's home: for the user's own, HOME and CLAUDE_CONFIG_DIR of the caller pass through; nothing is copied. What may leak
into a run from the user's and the project's configuration is decided by flags, see `ISOLATION`. `docs/harnesses/claude.md` says what was tried and how
each failure looks.
"""

import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from watchkeeper.domain.model import TaskSpec
from watchkeeper.domain.profile import RightsLevel
from watchkeeper.errors import BadTask
from watchkeeper.harnesses.claude_reader import ClaudeReader
from watchkeeper.harnesses.claude_route import ENVIRONMENT, claude_route
from watchkeeper.harnesses.program import Programs
from watchkeeper.harnesses.prompt_text import check_prompt
from watchkeeper.ports.harness import CommandPlan, LaunchRequest, Levels, Program, ResumePlan, Rights, Route

NO_HOOKS = '{"disableAllHooks":true}'
"""The program itself runs no hook or command that instructions bring along; without a terminal it would not ask first."""

ISOLATION: Mapping[str, tuple[str, ...]] = {
    "strict": ("--strict-mcp-config", "--setting-sources", ""),
    "project": ("--strict-mcp-config", "--setting-sources", "", "--add-dir", ".", "--settings", NO_HOOKS),
    "user": ("--setting-sources", "user,project,local"),
}
"""What a run takes from outside: nothing; the project's instructions; all of the user's and the project's configuration, with MCP servers and hooks.

A project's settings can set every variable of the program, so also the address that a sign-in is sent to, and no list of variables that are pinned would
ever be whole. So no settings are read. The instructions come by the directory as an additional one, see `INSTRUCTIONS`.
"""

INSTRUCTIONS = "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD"
"""The variable by which the program reads the instructions of additional directories, and no settings with them."""

_TAKES: Mapping[str, str] = {
    "strict": "nothing of your or the project's configuration",
    "project": "the project's instructions and none of its settings, nothing of your configuration",
    "user": "your and the project's configuration, with hooks and MCP servers",
}

PERMISSION_MODES = ("acceptEdits", "plan", "dontAsk", "bypassPermissions")
"""Modes that make sense without a person to ask."""

ALLOWED_TOOLS = "Bash,WebFetch,WebSearch"
"""Beside editing in the directory, which the mode `acceptEdits` allows."""

PLAN_TOOLS = "WebFetch,WebSearch"
"""What is allowed in the mode `plan` by default. With Bash allowed, that mode writes files by way of the shell."""

READ_TOOLS = "Read,Glob,Grep,WebFetch,WebSearch"
"""The only tools that there are for an agent that may only read. A closed list: a tool that a later version adds is not on it."""

LEVELS = Levels(
    decided_by=("permission_mode", "allowed_tools", "tools"),
    options={
        RightsLevel.READ: {"permission_mode": "dontAsk", "allowed_tools": READ_TOOLS, "tools": READ_TOOLS},
        RightsLevel.EDIT: {},
        RightsLevel.FULL: {"permission_mode": "bypassPermissions"},
    },
    defaults={"permission_mode": "acceptEdits", "allowed_tools": ALLOWED_TOOLS},
)

MAX_RETRIES = "7"
"""The program's own tries at an overloaded service; with its back-off about a minute. Its own tries keep the conversation, ours start anew."""

_OPTIONS = {
    "program": "the program's name or path",
    "isolation": "strict, project or user: what a run reads of your and the project's configuration",
    "permission_mode": "acceptEdits, plan, dontAsk or bypassPermissions",
    "allowed_tools": "tools that may be used without asking, such as Bash,WebFetch",
    "tools": "the only tools that there are, such as Read,Grep",
    "max_turns": "turns after which the run ends",
    "max_budget_usd": "dollars after which the run ends",
    "max_retries": "the program's own tries at a failing service",
    "request_timeout_s": "seconds after which the program gives one request up",
}

_HINT = "`npm install -g @anthropic-ai/claude-code` installs it; `claude` then signs you in."


class Claude:
    """Runs Claude Code."""

    name = "claude"
    isolations = tuple(ISOLATION)
    levels = LEVELS
    options = _OPTIONS
    environment = ENVIRONMENT
    nesting = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID")
    home_variable = "CLAUDE_CONFIG_DIR"
    key_variables = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")

    def __init__(self, programs: Programs | None = None, *, is_root: bool | None = None) -> None:
        """Find the program with `programs`. `is_root`: whether agents run as root; None: as this process."""
        self._programs = programs or Programs()
        self._is_root = os.geteuid() == 0 if is_root is None else is_root

    def find(self, environment: Mapping[str, str], options: Mapping[str, str]) -> Program:
        """Find it on the caller's PATH, or where the option `program` says."""
        _check_options(options)
        return self._programs.find("claude", environment, configured=options.get("program", ""), hint=_HINT)

    def rights(self, spec: TaskSpec, options: Mapping[str, str]) -> Rights:
        """There is no person to ask, so the agent is refused what is not allowed beforehand. "There" is the directory, which the text names before."""
        mode, tools = _mode(options), _allowed(options)
        runs_all = _has_shell(tools) and (not options.get("tools") or _has_shell(options["tools"]))
        match mode:
            case "bypassPermissions":
                detail, brief = "may do whatever you may; never asks", "does whatever you may"
            case "dontAsk" if options.get("tools") == READ_TOOLS == tools:
                detail, brief = "may read files and the web, and change nothing; never asks", "only reads"
            case "plan" if _only_reads(tools):
                detail, brief = f"may read there and plan; may use {tools}; never asks", "reads and plans"
            case _:
                edits = "may edit files there and " if mode == "acceptEdits" else "may "
                what = "run any command and read the web, as you" if tools == ALLOWED_TOOLS else f"use {tools}, as you"
                detail = f"{edits}{what}; never asks{', so it can reach all that you can' if runs_all else ''}"
                runs = "runs any command" if runs_all else f"uses {tools}"
                brief = f"edits here, {runs}" if mode == "acceptEdits" else runs
        return Rights(
            detail=detail,
            network="yours",
            sandbox="none",
            reads=_TAKES[_isolation(spec, options)],
            brief=("no sandbox", "your network", brief),
        )

    def check(self, spec: TaskSpec) -> None:
        """Refuse a prompt that the program does not take: an empty one, one with a NUL, and one that is not text.

        Raises:
            BadTask: it is one of these.
        """
        check_prompt(spec.prompt, "Claude Code")

    def plan(self, request: LaunchRequest) -> CommandPlan:
        """The command line and the environment.

        Raises:
            BadTask: an option is not known or has a value that it cannot have.
        """
        options = request.options
        _check_options(options)
        argv = [request.program.path, "-p", "--output-format", "stream-json", "--verbose"]
        if _mode(options) == "bypassPermissions" and self._is_root and request.environment.get("IS_SANDBOX") != "1":
            raise BadTask(
                "Claude Code refuses to run as root with the mode bypassPermissions.",
                hint="Choose --rights edit; or, in a container made for it, set IS_SANDBOX=1 and pass --env IS_SANDBOX.",
            )
        argv += ["--permission-mode", _mode(options)]
        # Each list takes every word up to the next option, so one comma-separated word, and never the last one.
        if options.get("tools"):
            argv += ["--tools", options["tools"]]
        argv += ["--allowedTools", _allowed(options)]
        for option, flag in (("max_turns", "--max-turns"), ("max_budget_usd", "--max-budget-usd")):
            if option in options:
                argv += [flag, options[option]]
        if request.spec.model is not None:
            argv += ["--model", request.spec.model]
        argv += [*request.route.arguments, *ISOLATION[_isolation(request.spec, options)]]
        return CommandPlan(
            argv=tuple(argv),
            environment=_environment(request),
            prompt_by="stdin",
            prompt=_delivered(request.spec.prompt),
        )

    def resume(self, argv: Sequence[str | None], session: str, text: str) -> ResumePlan:
        """Behind `-p`, before the options whose lists take every word that follows."""
        return ResumePlan(argv=(*argv[:2], "--resume", session, *argv[2:]), prompt=_delivered(text))

    def route(self, spec: TaskSpec, environment: Mapping[str, str], options: Mapping[str, str]) -> Route:
        """Where requests go, and the gateway of the user's settings where the program does not read those itself. Reads configuration files.

        Raises:
            BadTask: the settings cannot be read, or hold what cannot be taken over.
        """
        return claude_route(spec, environment, _isolation(spec, options))

    def reader(self, spec: TaskSpec) -> ClaudeReader:
        """A reader of its JSON events."""
        del spec
        return ClaudeReader()

    def takeover(self, spec: TaskSpec, session: str) -> str | None:
        """To be typed in the task's directory: the program finds a conversation only from there."""
        del spec
        return f"claude --resume {shlex.quote(session)}"

    def sign_in_files(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Where it keeps a subscription's sign-in; where there is none, its configuration, which holds a key that its login made."""
        home, own = environment.get("CLAUDE_CONFIG_DIR", ""), environment.get("HOME", "")
        credentials = Path(home or f"{own}/.claude") / ".credentials.json"
        return (str(credentials),) if credentials.exists() else (str(Path(home or own) / ".claude.json"),)

    def sign_in_question(self, program: Program) -> tuple[str, ...]:
        """It answers without the network, so it does not know of a sign-in that was revoked."""
        return (program.path, "auth", "status")

    def login(self, program: Program, *, terminal: bool) -> tuple[str, ...] | None:
        """In the browser, and on the terminal for the code that the browser shows. A key goes into a variable."""
        return (program.path, "auth", "login") if terminal else None


def _delivered(prompt: str) -> str:
    """The prompt as the program passes it on to the model.

    A slash at its beginning makes it a command of the program, which then answers by itself. Behind a blank it is text, and the model gets both.
    """
    return f" {prompt}" if prompt.startswith("/") else prompt


def _isolation(spec: TaskSpec, options: Mapping[str, str]) -> str:
    """The task's own word wins over the settings'."""
    return spec.isolation or options.get("isolation", "project")


def _mode(options: Mapping[str, str]) -> str:
    return options.get("permission_mode", "acceptEdits")


def _allowed(options: Mapping[str, str]) -> str:
    return options.get("allowed_tools", PLAN_TOOLS if _mode(options) == "plan" else ALLOWED_TOOLS)


def _words(tools: str) -> list[str]:
    """The tools of a list; the program takes commas and blanks between them, except within the parentheses of a rule."""
    return [each for each in re.split(r"[,\s]+(?![^()]*\))", tools) if each]


def _has_shell(tools: str) -> bool:
    """Whether any command may be run with these."""
    return not {"Bash", "Bash()", "Bash(*)", "Bash(:*)"}.isdisjoint(_words(tools))


def _only_reads(tools: str) -> bool:
    return set(_words(tools)) <= set(_words(READ_TOOLS))


def _environment(request: LaunchRequest) -> dict[str, str]:
    """The caller's, with bounds on the program's own patience unless the caller set them."""
    environment = {name: value for name, value in request.environment.items() if name not in Claude.nesting}
    environment |= dict(request.route.environment)
    environment["DISABLE_AUTOUPDATER"] = "1"
    if _isolation(request.spec, request.options) == "project":
        environment[INSTRUCTIONS] = "1"
    environment.setdefault("CLAUDE_CODE_MAX_RETRIES", MAX_RETRIES)
    if "max_retries" in request.options:
        environment["CLAUDE_CODE_MAX_RETRIES"] = request.options["max_retries"]
    if "request_timeout_s" in request.options:
        environment["API_TIMEOUT_MS"] = str(int(float(request.options["request_timeout_s"]) * 1000))
    return environment


def _check_options(options: Mapping[str, str]) -> None:
    if strange := sorted(set(options) - set(_OPTIONS)):
        msg = f"The claude harness has no option '{strange[0]}'."
        raise BadTask(msg, hint=f"It has: {', '.join(sorted(_OPTIONS))}.")
    for option, known in (("isolation", tuple(ISOLATION)), ("permission_mode", PERMISSION_MODES)):
        if options.get(option, known[0]) not in known:
            msg = f"The option {option} of the claude harness is '{options[option]}'."
            raise BadTask(msg, hint=f"It is one of: {', '.join(known)}.")
    for option, kind in (
        ("max_turns", int),
        ("max_retries", int),
        ("max_budget_usd", float),
        ("request_timeout_s", float),
    ):
        try:
            number = kind(options.get(option, "1"))
            good = math.isfinite(number) and number >= (0 if option == "max_retries" else 1e-9)
        except (ValueError, OverflowError):
            good = False
        if not good:
            msg = f"The option {option} of the claude harness is '{options[option]}'."
            raise BadTask(msg, hint="It is a number above zero.")
