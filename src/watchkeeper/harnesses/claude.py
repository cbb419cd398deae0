"""Claude Code, run without a terminal: the prompt on standard input, JSON events on standard output.

The sign-in is that of the account's home: for the user's own, HOME and CLAUDE_CONFIG_DIR of the caller pass through; nothing is copied. What may leak
into a run from the user's and the project's configuration is decided by flags, see `ISOLATION`. `docs/harnesses/claude.md` says what was tried and how
each failure looks.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path

from watchkeeper.domain.model import TaskSpec
from watchkeeper.errors import BadTask
from watchkeeper.harnesses.claude_reader import ClaudeReader
from watchkeeper.harnesses.claude_route import claude_route
from watchkeeper.harnesses.program import Programs
from watchkeeper.ports.harness import CommandPlan, Order, Program, Rights, Route

NO_HOOKS = '{"disableAllHooks":true}'
"""Nothing that instructions may carry with them is run by the program itself, which without a terminal asks nobody first."""

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
"""Modes that make sense where nobody can be asked."""

ALLOWED_TOOLS = "Bash,WebFetch,WebSearch"
"""Beside editing in the directory, which the mode `acceptEdits` allows."""

MAX_RETRIES = "7"
"""The program's own tries at an overloaded service; with its back-off about a minute. Its own tries keep the conversation, ours start anew."""

_OPTIONS = {
    "program",
    "isolation",
    "permission_mode",
    "allowed_tools",
    "max_turns",
    "max_budget_usd",
    "max_retries",
    "request_timeout_s",
}

NESTING = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID")
"""What tells the program that it runs inside another one of its kind; left out, because it does not."""

_HINT = "`npm install -g @anthropic-ai/claude-code` installs it; `claude` then signs you in."


class Claude:
    """Runs Claude Code."""

    name = "claude"
    isolations = tuple(ISOLATION)
    home_variable = "CLAUDE_CONFIG_DIR"
    key_variables = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")

    def __init__(self, programs: Programs | None = None) -> None:
        """Find the program with `programs`."""
        self._programs = programs or Programs()

    def find(self, environment: Mapping[str, str], options: Mapping[str, str]) -> Program:
        """Find it on the caller's PATH, or where the option `program` says."""
        _check_options(options)
        return self._programs.find("claude", environment, configured=options.get("program", ""), hint=_HINT)

    def rights(self, spec: TaskSpec, options: Mapping[str, str]) -> Rights:
        """Nobody can be asked, so what is not allowed beforehand is refused to the agent. "There" is the directory, which is always said before."""
        mode = options.get("permission_mode", "acceptEdits")
        tools = options.get("allowed_tools", ALLOWED_TOOLS)
        match mode:
            case "bypassPermissions":
                says = "may do whatever you may; asks nobody"
            case "plan":
                says = "may read there and plan; asks nobody"
            case _:
                edits = "may edit files there and " if mode == "acceptEdits" else "may "
                runs_all = "Bash" in [each.strip() for each in tools.split(",")]
                what = "run any command and read the web, as you" if tools == ALLOWED_TOOLS else f"use {tools}, as you"
                says = f"{edits}{what}; asks nobody{', so it can reach all that you can' if runs_all else ''}"
        return Rights(says=f"{says}; takes {_TAKES[_isolation(spec, options)]}", network="yours", sandbox="none")

    def check(self, spec: TaskSpec) -> None:
        """Refuse an empty prompt, which the program does not take.

        Raises:
            BadTask: there is none.
        """
        if not spec.prompt.strip():
            msg = "Claude Code needs a prompt."
            raise BadTask(msg, hint='Say what is to be done: `wk run "…"`.')

    def plan(self, order: Order) -> CommandPlan:
        """The command line and the environment.

        Raises:
            BadTask: an option is not known or has a value that it cannot have.
        """
        options = order.options
        _check_options(options)
        argv = [order.program.path, "-p", "--output-format", "stream-json", "--verbose"]
        argv += ["--permission-mode", options.get("permission_mode", "acceptEdits")]
        # The list takes every word up to the next option, so one comma-separated word, and never the last one.
        argv += ["--allowedTools", options.get("allowed_tools", ALLOWED_TOOLS)]
        for option, flag in (("max_turns", "--max-turns"), ("max_budget_usd", "--max-budget-usd")):
            if option in options:
                argv += [flag, options[option]]
        if order.spec.model is not None:
            argv += ["--model", order.spec.model]
        argv += [*order.route.arguments, *ISOLATION[_isolation(order.spec, options)]]
        return CommandPlan(argv=tuple(argv), environment=_environment(order), prompt_by="stdin")

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


def _isolation(spec: TaskSpec, options: Mapping[str, str]) -> str:
    """The task's own word wins over the settings'."""
    return spec.isolation or options.get("isolation", "project")


def _environment(order: Order) -> dict[str, str]:
    """The caller's, with bounds on the program's own patience unless the caller set them."""
    environment = {name: value for name, value in order.environment.items() if name not in NESTING}
    environment |= dict(order.route.environment)
    environment["DISABLE_AUTOUPDATER"] = "1"
    if _isolation(order.spec, order.options) == "project":
        environment[INSTRUCTIONS] = "1"
    environment.setdefault("CLAUDE_CODE_MAX_RETRIES", MAX_RETRIES)
    if "max_retries" in order.options:
        environment["CLAUDE_CODE_MAX_RETRIES"] = order.options["max_retries"]
    if "request_timeout_s" in order.options:
        environment["API_TIMEOUT_MS"] = str(int(float(order.options["request_timeout_s"]) * 1000))
    return environment


def _check_options(options: Mapping[str, str]) -> None:
    if strange := sorted(set(options) - _OPTIONS):
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
            good = kind(options.get(option, "1")) >= (0 if option == "max_retries" else 1e-9)
        except ValueError:
            good = False
        if not good:
            msg = f"The option {option} of the claude harness is '{options[option]}'."
            raise BadTask(msg, hint="It is a number above zero.")
