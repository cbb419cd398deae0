"""What an agent gets of its caller: variables of the environment by an allow-list, and what was asked for by name; umask, niceness and limits.

An agent needs to find programs, its own sign-in and the way through a proxy; it does not need every secret that a shell
holds. Our own variables (`WATCHKEEPER_…`) are never passed on.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from watchkeeper.domain.inheritance import UNLIMITED, Inheritance
from watchkeeper.errors import BadTask
from watchkeeper.ports.harness import Harness, declared

OURS = "WATCHKEEPER_"

_LIMIT = "RLIMIT_"
_OTHER_NAMES = frozenset({"RLIMIT_OFILE"})
"""Names for a limit that has another one already."""
_OOM = Path("/proc/self/oom_score_adj")

STANDARD = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "VIRTUAL_ENV", "JAVA_HOME", "GOPATH", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT",
)  # fmt: skip
"""Names, or beginnings followed by `*`, that every agent gets. Not among them: SSH_AUTH_SOCK, DISPLAY, DBUS and
XDG_RUNTIME_DIR, which are doors to what the user is signed in to; and TERM, because there is no terminal."""

_NEEDED: tuple[str, ...] = (
    "GH_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN", "NPM_TOKEN", "NODE_AUTH_TOKEN", "DATABASE_URL", "REDIS_URL",
    "PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGSERVICE", "PGPASSFILE", "MYSQL_*", "DOCKER_HOST", "DOCKER_CONTEXT", "KUBECONFIG",
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL",
    "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "AZURE_CLIENT_*", "AZURE_TENANT_ID", "ARM_*", "TF_VAR_*", "VAULT_ADDR",
    "PYTHONPATH", "NODE_PATH", "NODE_OPTIONS", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CONDA_PREFIX", "GEM_HOME", "BUNDLE_PATH", "M2_HOME",
    "ANDROID_HOME", "ANDROID_SDK_ROOT", "CUDA_HOME", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE", "UV_*", "NPM_CONFIG_*",
    "npm_config_registry", "GOPROXY", "GOPRIVATE", "GOFLAGS", "RUSTFLAGS", "CARGO_REGISTRIES_*", "CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS",
    "LDFLAGS", "MAKEFLAGS", "JAVA_OPTS", "JAVA_TOOL_OPTIONS", "MAVEN_OPTS", "GRADLE_OPTS", "RAILS_ENV", "NODE_ENV",
    "GIT_SSH_COMMAND", "GIT_AUTHOR_*", "GIT_COMMITTER_*",
)  # fmt: skip
"""Variables that builds, tests and tools of a project commonly need, the ones first whose lack is hardest to guess."""

_NEEDED_ENDS = ("_TOKEN", "_URL", "_DSN")
_NEVER_NEEDED = (
    "ACTIONS_*", "BUILDKITE_*", "CI_*", "CODESPACE*", "GITHUB_*", "RUNNER_*", "VSCODE_*", "GITPOD_*", "JUPYTER*", "npm_*",
    "NIX_*", "OTEL_*", "HOMEBREW_*", "DBUS_*", "XDG_*", "GNOME_*", "KDE_*", "TERM_*", "ITERM_*", "WT_*", "BUN_*",
    "ANTHROPIC_*", "CLAUDE_*", "OPENAI_*", "CODEX_*", "GEMINI_*", "GOOGLE_*", OURS + "*",
)  # fmt: skip
"""Variables with such an end that a terminal, an editor, a build service or an agent program has for itself."""


def allowed(name: str, harness: Harness) -> bool:
    """Whether this variable reaches the program of a harness without being asked for: a standard one, or one that the harness declares."""
    known = declared(harness)
    if name.startswith(OURS) or name in known.nesting:
        return False
    return is_one_of(name, (*STANDARD, *known.environment))


def asked(environ: Mapping[str, str], configured: Iterable[str], named: Sequence[str]) -> tuple[str, ...]:
    """The names that are asked for beside the allow-list: those of the settings that are set, and those that were named for this task.

    Raises:
        BadTask: a name was given twice for this task: one of them was meant to be another. The settings may name it too.
    """
    doubled = next((name for number, name in enumerate(named) if name in named[:number]), None)
    if doubled is not None:
        msg = f"The variable '{_shown(doubled)}' is named twice."
        raise BadTask(msg, hint="Name it once; was another one meant?")
    return tuple(dict.fromkeys((*(name for name in configured if name in environ), *named)))


def capture(environ: Mapping[str, str], names: Iterable[str], harness: Harness) -> dict[str, str]:
    """What an agent of `harness` gets of the caller's environment.

    Args:
        environ: the caller's environment.
        names: names that were asked for beside the allow-list.
        harness: the harness.

    Raises:
        BadTask: a name that was asked for is not set, cannot be a name, or is reserved.
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


def left_out(environ: Mapping[str, str], names: Iterable[str], harness: Harness) -> tuple[str, ...]:
    """Variables of the caller that work in a project commonly needs and that an agent of `harness` does not get, the most telling first.

    Names only; what is empty counts as not set. The demo agent needs none. SSH_AUTH_SOCK comes last: most desktops set it.

    Args:
        environ: the caller's environment.
        names: names that were asked for beside the allow-list, as for `capture`.
        harness: the harness.
    """
    if harness.name == "demo":
        return ()
    passed = set(names)
    lacking = sorted(
        name for name, value in environ.items() if value and name not in passed and not allowed(name, harness)
    )
    first = [name for entry in _NEEDED for name in lacking if is_one_of(name, (entry,))]
    alike = [name for name in lacking if name.endswith(_NEEDED_ENDS) and not is_one_of(name, _NEVER_NEEDED)]
    last = [name for name in lacking if name == "SSH_AUTH_SOCK"]
    return tuple(dict.fromkeys((*first, *alike, *last)))


def is_one_of(name: str, entries: Iterable[str]) -> bool:
    """Whether it is one of these names, or begins as one of those that end with `*` do."""
    return any(name.startswith(entry[:-1]) if entry.endswith("*") else name == entry for entry in entries)


def _bad_name(name: str) -> BadTask:
    """What is wrong with it, without a value that came with it."""
    if "=" in name:
        msg = f"'{_shown(name)}' came with a value, and only the name of a variable is taken."
        return BadTask(msg, hint="Others can read command lines: set the variable (`export NAME=…`) and name it.")
    msg = f"'{_shown(name)}' cannot be the name of a variable."
    return BadTask(msg, hint="Give names only; the values are taken from your environment.")


def _shown(name: str) -> str:
    return name.partition("=")[0][:80]


def inherited(umask: int | None = None) -> Inheritance:
    """What this process has inherited, for an agent to have it too. `umask`: the caller's, where ours is another one by now."""
    import resource  # noqa: PLC0415 - only a hand-over and a daemon need it

    unlimited = resource.RLIM_INFINITY
    limits: list[tuple[str, int, int]] = []
    for name, number in limit_numbers().items():
        soft, hard = (UNLIMITED if each == unlimited else each for each in resource.getrlimit(number))
        limits.append((name, soft, hard))
    return Inheritance(
        umask=_umask() if umask is None else umask,
        nice=os.getpriority(os.PRIO_PROCESS, 0),
        oom_score_adj=oom_score_adj(),
        limits=tuple(limits),
    )


def limit_numbers() -> dict[str, int]:
    """The number of each limit that this system has, by its lower-case name."""
    import resource  # noqa: PLC0415 - only a hand-over and a daemon need it

    names = sorted(name for name in dir(resource) if name.startswith(_LIMIT) and name not in _OTHER_NAMES)
    return {name.removeprefix(_LIMIT).lower(): int(getattr(resource, name)) for name in names}


def _umask() -> int:
    """Our umask, read without changing it for other threads; where the system does not tell, by changing it for an instant."""
    with contextlib.suppress(OSError):
        told = re.search(r"^Umask:\s*([0-7]+)$", Path("/proc/self/status").read_text(encoding="utf-8"), re.MULTILINE)
        if told is not None:
            return int(told[1], 8)
    was = os.umask(0o077)
    _ = os.umask(was)
    return was


def oom_score_adj() -> int | None:
    """How much this process weighs for the out-of-memory killer; None where the system does not say."""
    try:
        return int(_OOM.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None  # not Linux
