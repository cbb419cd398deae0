"""Codex, run without a terminal: the prompt on standard input, JSON events on standard output.

The sign-in is that of the account's home: for the user's own, HOME and CODEX_HOME of the caller pass through; nothing is copied. What may leak into a
run from the user's and the project's configuration is decided by flags, see `ISOLATION`. `docs/harnesses/codex.md` says what was tried and how each
failure looks.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from watchkeeper.domain.model import TaskSpec
from watchkeeper.domain.profile import RightsLevel
from watchkeeper.errors import BadTask
from watchkeeper.harnesses.codex_config import holds_secret, lines
from watchkeeper.harnesses.codex_reader import CodexReader
from watchkeeper.harnesses.codex_route import codex_route
from watchkeeper.harnesses.program import Programs
from watchkeeper.harnesses.prompt_text import check_prompt
from watchkeeper.ports.harness import CommandPlan, LaunchRequest, Levels, Program, ResumePlan, Rights, Route

_ALWAYS = ("features.unbounded_connection_retries=false", "check_for_update_on_startup=false")
"""It would wait for the network forever, which a run without an end is."""

_NO_USER = ("--ignore-user-config", "--ignore-rules")
_NO_EXTENSIONS = ("features.plugins=false", "features.apps=false", "features.hooks=false")
_NO_INSTRUCTIONS = ("project_doc_max_bytes=0", "skills.include_instructions=false")

ISOLATION: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "strict": (_NO_USER, (*_NO_EXTENSIONS, *_NO_INSTRUCTIONS)),
    "project": (_NO_USER, _NO_EXTENSIONS),
    "user": ((), ()),
}
"""Flags and configuration that decide what a run takes from outside. A project's own configuration counts only where the user's says that it is trusted."""

_TAKES: Mapping[str, str] = {
    "strict": "nothing of the project's configuration, of yours only the AGENTS.md",
    "project": "the project's instructions, of your configuration only AGENTS.md and skills",
    "user": "your configuration, with hooks and MCP servers, and the project's where you trust it",
}

SANDBOXES: Mapping[str, tuple[str, str]] = {
    "workspace-write": (
        "may edit files there and in temporary directories, and run commands that can read all that you can; never asks",
        "Codex's own: writes only there and in temporary directories, not in .git",
    ),
    "read-only": (
        "may run commands that can read all that you can, and change nothing; never asks",
        "Codex's own: writes nothing",
    ),
    "danger-full-access": (
        "may edit files and run any command, as you; never asks, so it can reach all that you can",
        "none",
    ),
}
"""The program's own words for what its agent may do, with ours for the rights and for the sandbox. The first is the default."""

_BRIEF: Mapping[str, tuple[str, str]] = {
    "workspace-write": ("sandbox: writes only here", "edits here, runs commands"),
    "read-only": ("sandbox: writes nothing", "only reads"),
    "danger-full-access": ("no sandbox", "edits, runs any command"),
}
"""The same in a few words."""

LEVELS = Levels(
    decided_by=("sandbox",),
    options={
        RightsLevel.READ: {"sandbox": "read-only"},
        RightsLevel.EDIT: {},
        RightsLevel.FULL: {"sandbox": "danger-full-access"},
    },
    defaults={"sandbox": "workspace-write"},
)

_OPTIONS = {
    "program": "the program's name or path",
    "isolation": "strict, project or user: what a run reads of your and the project's configuration",
    "sandbox": "read-only, workspace-write or danger-full-access",
    "network_access": "true or false: whether commands in the sandbox workspace-write reach the network",
    "config": "settings of Codex, one `key = value` a line",
}
_YES_NO = ("false", "true")
_CONFIG = re.compile(r"""[\w."'-]+\s*=\s*\S.*""")
_OURS = re.compile(r"sandbox|approval|permission|default_permission|features\.unbounded|hooks|projects\.")
"""Beginnings of keys of which the rights that were said depend."""

_STARTS = re.compile(r"mcp_servers|notify|features(?:$|\.(?:hooks|plugins|apps))")
"""Beginnings of keys by which Codex itself starts programs, which its sandbox does not hold."""

_BYTE_ORDER_MARK = "\ufeff"
_HINT = "`npm install -g @openai/codex` installs it; `codex login` then signs you in."


class Codex:
    """Runs Codex."""

    name = "codex"
    isolations = tuple(ISOLATION)
    levels = LEVELS
    options = _OPTIONS
    environment = ("OPENAI_*", "CODEX_*")
    nesting = (
        "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_SESSION_ID", "CODEX_THREAD_ID", "CODEX_TOOL_CALL_ID", "CODEX_CI",
        "CODEX_VERSION",
    )  # fmt: skip
    home_variable = "CODEX_HOME"
    key_variables = ("CODEX_API_KEY", "CODEX_ACCESS_TOKEN")

    def __init__(self, programs: Programs | None = None) -> None:
        """Find the program with `programs`."""
        self._programs = programs or Programs()

    def find(self, environment: Mapping[str, str], options: Mapping[str, str]) -> Program:
        """Find it on the caller's PATH, or where the option `program` says: the native program or the wrapper that npm installs."""
        _check_options(options)
        return self._programs.find("codex", environment, configured=options.get("program", ""), hint=_HINT)

    def rights(self, spec: TaskSpec, options: Mapping[str, str]) -> Rights:
        """There is no person to ask, so what the sandbox refuses stays refused. "There" is the directory, which the text names before."""
        name = _sandbox(options)
        isolation = _isolation(spec, options)
        detail, sandbox = SANDBOXES[name]
        if isolation == "user" and sandbox != "none":
            sandbox += ", wider where your configuration says so"
        if sandbox != "none" and (started := _starts(options)):
            sandbox += f"; it does not hold what your option config starts ({started[0]})"
        network = _network(name, options)
        short, rights = _BRIEF[name]
        return Rights(
            detail=detail,
            network=network,
            sandbox=sandbox,
            reads=_TAKES[isolation],
            brief=(short, "your network" if network == "yours" else "no network", rights),
        )

    def check(self, spec: TaskSpec) -> None:
        """Refuse a prompt that the program does not take: an empty one, one with a NUL, and one that is not text.

        Raises:
            BadTask: it is one of these.
        """
        check_prompt(spec.prompt, "Codex")

    def plan(self, request: LaunchRequest) -> CommandPlan:
        """The command line and the environment.

        Raises:
            BadTask: an option is not known or has a value that it cannot have.
        """
        options = request.options
        _check_options(options)
        if _sandbox(options) == "read-only" and (started := _starts(options)):
            raise BadTask(
                f"The option config of the codex harness sets '{started[0]}', whose programs the sandbox read-only does not hold.",
                hint="Leave that setting out, or choose --rights edit.",
            )
        flags, configuration = ISOLATION[_isolation(request.spec, options)]
        argv = [request.program.path, "exec", "--json", "--skip-git-repo-check", "--sandbox", _sandbox(options), *flags]
        if request.spec.model is not None:
            argv += ["--model", request.spec.model]
        if "network_access" in options:
            configuration = (*configuration, f"sandbox_workspace_write.network_access={options['network_access']}")
        for each in (*_ALWAYS, *configuration):
            argv += ["-c", each]
        argv += request.route.arguments  # before the option `config`, which wins
        for each in lines(options):
            argv += ["-c", each]
        environment = {name: value for name, value in request.environment.items() if name not in self.nesting}
        environment |= dict(request.route.environment)
        prompt = _delivered(request.spec.prompt)
        return CommandPlan(argv=(*argv, "-"), environment=environment, prompt_by="stdin", prompt=prompt)

    def resume(self, argv: Sequence[str | None], session: str, text: str) -> ResumePlan:
        """The options of `exec` stay before its subcommand, which takes the id and then the place of the prompt."""
        return ResumePlan(argv=(*argv[:-1], "resume", session, *argv[-1:]), prompt=_delivered(text))

    def route(self, spec: TaskSpec, environment: Mapping[str, str], options: Mapping[str, str]) -> Route:
        """Where requests go, and the provider of the user's configuration where the program does not read that itself. Reads configuration files.

        Raises:
            BadTask: the configuration cannot be read, or holds what cannot be taken over.
        """
        return codex_route(spec, environment, options, _isolation(spec, options))

    def reader(self, spec: TaskSpec) -> CodexReader:
        """A reader of its JSON events."""
        return CodexReader(spec.model)

    def takeover(self, spec: TaskSpec, session: str) -> str | None:
        """To be typed in the task's directory, so that the program works there."""
        del spec
        return f"codex resume {shlex.quote(session)}"

    def sign_in_files(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Where it keeps a subscription's sign-in or a key, unless its configuration names the system's key ring."""
        home = environment.get("CODEX_HOME") or f"{environment.get('HOME', '')}/.codex"
        return (str(Path(home) / "auth.json"),)

    def sign_in_question(self, program: Program) -> tuple[str, ...]:
        """It answers without the network, so it does not know of a sign-in that was revoked."""
        return (program.path, "login", "status")

    def login(self, program: Program, *, terminal: bool) -> tuple[str, ...]:
        """In the browser, or with a key from standard input."""
        return (program.path, "login") if terminal else (program.path, "login", "--with-api-key")


def _delivered(prompt: str) -> str:
    """The prompt as the program passes it on to the model: it takes one byte order mark away, so one more is given."""
    return f"{_BYTE_ORDER_MARK}{prompt}" if prompt.startswith(_BYTE_ORDER_MARK) else prompt


def _isolation(spec: TaskSpec, options: Mapping[str, str]) -> str:
    """The task's own word wins over the settings'."""
    return spec.isolation or options.get("isolation", "project")


def _starts(options: Mapping[str, str]) -> list[str]:
    """The keys of the option `config` by which Codex starts programs of its own accord."""
    keys = [line.partition("=")[0].strip().replace('"', "").replace("'", "") for line in lines(options)]
    return [key for key in keys if _STARTS.match(key)]


def _sandbox(options: Mapping[str, str]) -> str:
    return options.get("sandbox", next(iter(SANDBOXES)))


def _network(sandbox: str, options: Mapping[str, str]) -> str:
    if sandbox == "danger-full-access" or (sandbox == "workspace-write" and options.get("network_access") == "true"):
        return "yours"
    return "none for its commands; the service may search the web"


def _check_options(options: Mapping[str, str]) -> None:
    if strange := sorted(set(options) - set(_OPTIONS)):
        msg = f"The codex harness has no option '{strange[0]}'."
        raise BadTask(msg, hint=f"It has: {', '.join(sorted(_OPTIONS))}.")
    choices = (("isolation", tuple(ISOLATION)), ("sandbox", tuple(SANDBOXES)), ("network_access", _YES_NO))
    for option, known in choices:
        if options.get(option, known[0]) not in known:
            msg = f"The option {option} of the codex harness is '{options[option]}'."
            raise BadTask(msg, hint=f"It is one of: {', '.join(known)}.")
    for line in lines(options):
        key = line.partition("=")[0].strip()
        if _CONFIG.fullmatch(line) is None:
            msg = f"The option config of the codex harness has a line that is not a setting: '{key[:60]}'."
            raise BadTask(msg, hint='Each line is one setting of Codex, such as model_provider = "mine".')
        if holds_secret(line):
            msg = f"The option config of the codex harness holds a secret under '{key[:60]}', which everybody on this machine could read."
            raise BadTask(msg, hint="Name a variable that holds it: model_providers.NAME.env_key or .env_http_headers.")
        if _OURS.match(key.replace('"', "").replace("'", "")):
            msg = f"The option config of the codex harness may not set '{key[:60]}': what an agent may do is said before it starts."
            raise BadTask(msg, hint="Use the options sandbox, network_access and isolation.")
