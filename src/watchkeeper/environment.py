"""Which variables of the caller's environment an agent gets: an allow-list, and what was asked for by name.

An agent needs to find programs, its own sign-in and the way through a proxy; it does not need every secret that a shell
holds. Our own variables (`WATCHKEEPER_…`) are never passed on.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from watchkeeper.errors import BadTask

OURS = "WATCHKEEPER_"

STANDARD = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "VIRTUAL_ENV", "JAVA_HOME", "GOPATH", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT",
)  # fmt: skip
"""Names, or beginnings followed by `*`, that every agent gets. Not among them: SSH_AUTH_SOCK, DISPLAY, DBUS and
XDG_RUNTIME_DIR, which are doors to what the user is signed in to; and TERM, because there is no terminal."""

BY_HARNESS: Mapping[str, tuple[str, ...]] = {
    "claude": (
        "ANTHROPIC_*", "CLAUDE_*", "DISABLE_TELEMETRY", "AWS_REGION", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK",
        "CLOUD_ML_REGION", "API_TIMEOUT_MS",
    ),
    "codex": ("OPENAI_*", "CODEX_*"),
    "demo": ("DEMO_HOME",),
    "gemini": ("GEMINI_*", "GOOGLE_*"),
    "opencode": ("OPENCODE_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"),
    "pi": ("PI_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"),
}  # fmt: skip
"""What an agent program needs for its own sign-in. A harness that is not here gets the standard names only."""

NESTING: Mapping[str, tuple[str, ...]] = {
    "claude": ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID"),
    "codex": (
        "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_SESSION_ID", "CODEX_THREAD_ID", "CODEX_TOOL_CALL_ID", "CODEX_CI",
        "CODEX_VERSION",
    ),
}  # fmt: skip
"""Variables that tell a program that it runs inside another one of its kind. They are never passed on, because it does not."""


def allowed(name: str, harness: str) -> bool:
    """Whether the allow-list lets this variable through to that harness."""
    if name.startswith(OURS) or any(name in names for names in NESTING.values()):
        return False
    return any(
        name.startswith(entry[:-1]) if entry.endswith("*") else name == entry
        for entry in (*STANDARD, *BY_HARNESS.get(harness, ()))
    )


def asked(environ: Mapping[str, str], configured: Iterable[str], named: Sequence[str]) -> tuple[str, ...]:
    """The names that are asked for beside the allow-list: those of the settings that are set, and those that were named for this task.

    Raises:
        BadTask: a name was given twice for this task: one of them was meant to be another. That the settings name it too is no mistake.
    """
    doubled = next((name for number, name in enumerate(named) if name in named[:number]), None)
    if doubled is not None:
        msg = f"The variable '{_shown(doubled)}' is named twice."
        raise BadTask(msg, hint="Name it once; was another one meant?")
    return tuple(dict.fromkeys((*(name for name in configured if name in environ), *named)))


def capture(environ: Mapping[str, str], names: Iterable[str], harness: str) -> dict[str, str]:
    """What an agent of `harness` gets of the caller's environment.

    Args:
        environ: the caller's environment.
        names: names that were asked for beside the allow-list.
        harness: the harness's name.

    Raises:
        BadTask: a name that was asked for is not set, cannot be a name, or is one of ours.
    """
    wanted = dict.fromkeys(names)
    for name in wanted:
        if re.fullmatch(r"[A-Za-z_]\w*", name) is None:
            raise _bad_name(name)
        if name.startswith(OURS):
            msg = f"'{name}' is Watchkeeper's own and is not passed on."
            raise BadTask(msg, hint="Leave it out.")
        if name not in environ:
            msg = f"The variable '{name}' was asked for and is not set."
            raise BadTask(msg, hint=f"Set it first (`export {name}=…`), or leave it out.")
    return {name: value for name, value in environ.items() if name in wanted or allowed(name, harness)}


def _bad_name(name: str) -> BadTask:
    """What is wrong with it, without a value that came with it."""
    if "=" in name:
        msg = f"'{_shown(name)}' came with a value, and only the name of a variable is taken."
        return BadTask(msg, hint="Others can read command lines: set the variable (`export NAME=…`) and name it.")
    msg = f"'{_shown(name)}' cannot be the name of a variable."
    return BadTask(msg, hint="Give names only; the values are taken from your environment.")


def _shown(name: str) -> str:
    return name.partition("=")[0][:80]
