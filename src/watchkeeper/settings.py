"""Settings: a flag wins over the environment, that over the repository's file, that over the user's file, that over the default.

Every value knows where it came from. Unknown keys and wrong types are refused by file and key. A repository's file can be written by every agent that works
there, agents included, so it may set only what is harmless: what agents may do and spend, which programs run and what they see is the user's alone.

Named tuples where the project has dataclasses elsewhere: the class of a frozen dataclass takes most of a millisecond to make, and every command would wait.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, cast

from watchkeeper.domain.duration import LONGEST_S, parse_duration
from watchkeeper.domain.notice_settings import (
    KINDS,
    SECRET,
    masked_address,
    read_kinds,
    read_quiet,
    read_services,
    read_webhook,
)
from watchkeeper.domain.store_url import masked, mistyped, read_store
from watchkeeper.errors import SettingsError, describe_os_error

REPOSITORY_FILE = ".watchkeeper.toml"
PREFIX = "WATCHKEEPER_"
MAX_FILE_BYTES = 1024 * 1024

ACCOUNT = "account"
"""Every harness has it: the account that its tasks work under."""

_WHAT = "`wk config show` lists every setting as it stands; docs/settings.md says what each may be."
Wrong = list[SettingsError] | None
# Texts, not compiled: every command imports this module, and few read such a setting. `re` keeps what it compiled.
_HARNESS_KEY = r"harness\.([a-z][a-z0-9-]*)\.([a-z][a-z0-9_]*)"
_SIZE = r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)"
_SIZES = {"": 1, "B": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


class SettingValue(NamedTuple):
    """One setting as it stands, and where it came from."""

    key: str
    value: object
    origin: str
    """`default`, `flag`, `environment NAME`, `user FILE` or `repository FILE`."""


class Key(NamedTuple):
    """One setting that there is."""

    name: str
    read: Callable[[object], object]
    """From what was written to the value. Raises ValueError with what it must be."""
    default: object
    default_says: str
    kind: str
    detail: str
    user_only: bool = True


def duration(written: object) -> float:
    """Seconds from a number or from a text such as `90s`, `15m`, `1h30m` or `1d`. Raises ValueError."""
    seconds = _number(written)
    if seconds is None and isinstance(written, str):
        seconds = parse_duration(written.strip())
    if seconds is None or not 0 <= seconds <= LONGEST_S:
        raise ValueError("a duration such as 90s, 15m, 1h30m or 1d")
    return seconds


def size(written: object) -> int:
    """Bytes from `65536`, `64K`, `64M` or `1G`. Raises ValueError."""
    count = _number(written)
    found = re.fullmatch(_SIZE, written.strip()) if isinstance(written, str) else None
    if found is not None and found[2] in _SIZES:
        count = float(found[1]) * _SIZES[found[2]]
    if count is None or not 64 * 1024 <= count <= 2**50:
        raise ValueError("a size of at least 64K, such as 64M or 1G")
    return int(count)


def _number(written: object) -> float | None:
    if isinstance(written, bool) or not isinstance(written, int | float) or not -(2.0**60) < written < 2.0**60:
        return None
    return float(written)


def _positive(written: object) -> float:
    seconds = duration(written)
    if seconds == 0:
        raise ValueError("a duration above zero, such as 5s")
    return seconds


def _deadline(written: object) -> float | None:
    return None if written == "none" else _positive(written)


def _word(written: object) -> str:
    if not isinstance(written, str) or not written or not written.isprintable():
        raise ValueError("a word")
    return written


def _line(written: object) -> str:
    if not isinstance(written, str) or not written.strip() or "\0" in written:
        raise ValueError("a command line")
    return written


def _path(written: object) -> str:
    if not isinstance(written, str) or not written.startswith(("/", "~/")):
        raise ValueError("the whole path of a file, or one that begins with ~/")
    return written


def _names(written: object) -> tuple[str, ...]:
    parts = written.replace(",", " ").split() if isinstance(written, str) else written
    if isinstance(parts, list) and all(
        isinstance(part, str) and re.fullmatch(r"[A-Za-z_]\w*", part) for part in cast("list[object]", parts)
    ):
        return tuple(dict.fromkeys(cast("list[str]", parts)))
    raise ValueError("a list of names of variables")


def _commands(written: object) -> tuple[str, ...]:
    parts: object = [written] if isinstance(written, str) else written
    if isinstance(parts, list):
        lines = [part for part in cast("list[object]", parts) if part != ""]
        if all(isinstance(line, str) and line.strip() and "\0" not in line for line in lines):
            return tuple(dict.fromkeys(cast("list[str]", lines)))
    raise ValueError("a command line, or a list of command lines")


def _option(written: object) -> str:
    if isinstance(written, bool):
        return "true" if written else "false"
    if isinstance(written, str | int | float):
        return str(written)
    raise ValueError("a string")


def _count(low: int, high: int) -> Callable[[object], int]:
    def read(written: object) -> int:
        if isinstance(written, str) and re.fullmatch(r"\d{1,9}", written.strip()):
            written = int(written)
        if isinstance(written, bool) or not isinstance(written, int) or not low <= written <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return written

    return read


def _choice(*words: str) -> Callable[[object], str]:
    def read(written: object) -> str:
        if written not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return cast("str", written)

    return read


def _key(name: str, read: Callable[[object], object], default: object, kind: str, detail: str, *, anyone: bool = False,
         default_says: str = "") -> Key:  # fmt: skip
    value = None if default is None else read(default)
    shown = default_says or str(default)
    return Key(name=name, read=read, default=value, default_says=shown, kind=kind, detail=detail, user_only=not anyone)


_KEYS = (
    _key("run.harness", _word, None, "word", "Which agent program runs a task that names none.", anyone=True,
         default_says="the only one installed"),
    _key("run.model", _word, None, "word", "The model, as the agent program calls it.", anyone=True,
         default_says="the program's own"),
    _key("run.deadline", _deadline, None, "duration or `none`", "After how long a run is ended.",
         default_says="none"),
    _key("run.silence", _deadline, None, "duration or `none`", "After how long without any output a run is ended.",
         default_says="none"),
    _key("run.retries", _count(0, 20), 2, "0 to 20", "How often a run that failed for a passing reason is tried again."),
    _key("run.on_lost", _choice("hold", "retry", "fail"), "hold", "`hold`, `retry`, `fail`",
         "What becomes of a task whose run may have worked and is lost."),
    _key("run.leftovers", _choice("kill", "wait"), "kill", "`kill`, `wait`",
         "What becomes of processes that outlive the agent."),
    _key("run.worktree", _choice("never", "auto", "always"), "never", "`never`, `auto`, `always`",
         "Whether a task in a git repository gets a worktree of its own; `auto`: if its checkout is busy.", anyone=True),
    _key("run.check", _commands, [], "list of command lines", "What decides after the agent whether the work of a task that names no check is acceptable.",
         default_says="none"),
    _key("check.deadline", _positive, "10m", "duration", "How long a check, a set-up or a teardown may take."),
    _key("worktree.setup", _commands, [], "list of command lines", "What prepares a new worktree before the agent starts, one after the other.",
         default_says="none"),
    _key("worktree.teardown", _commands, [], "list of command lines", "What clears up before a worktree is removed, one after the other.",
         default_says="none"),
    _key("queue.limit", _count(1, 1000), 4, "1 to 1000", "How many agents run at once on this machine; `wk queue limit` sets limits for parts of the queue."),
    _key("queue.retry_base", _positive, "15s", "duration", "How long to wait before the first retry; it doubles."),
    _key("queue.retry_cap", _positive, "10m", "duration", "The longest wait before a retry."),
    _key("queue.relaunch_base", _positive, "1s", "duration", "How long to wait after a launch that never happened; it doubles."),
    _key("queue.probe_base", _positive, "30s", "duration", "How long to wait before a service that failed is tried by one task; it doubles."),
    _key("queue.probe_cap", _positive, "15m", "duration", "The longest wait between such tries."),
    _key("queue.outage_patience", _positive, "24h", "duration", "After how long `wk status` says that a service which fails needs you."),
    _key("daemon.start_grace", _positive, "5s", "duration", "How long an agent's supervisor may take to start."),
    _key("daemon.poll", _positive, "2s", "duration", "How often the daemon looks by itself, beside being woken."),
    _key("daemon.look_limit", _positive, "30s", "duration", "How long a look into an agent's directory may take."),
    _key("daemon.worktree_limit", _positive, "10m", "duration", "How long the making of a task's worktree may take."),
    _key("daemon.answered_grace", duration, 60.0, "duration", "How long a program may continue after its final answer, unless leftovers are waited for.",
         default_says="60s"),
    _key("daemon.stalled_after", _positive, 600.0, "duration", "After how long without anything new in its output a run is said to make no progress.",
         default_says="10m"),
    _key("logs.limit", size, "64M", "size", "How much of each log is kept; the middle of a longer one is dropped."),
    _key("stop.grace", duration, 10.0, "duration", "How long an agent may take to end after it was asked to.",
         default_says="10s"),
    _key("review.tool", _word, None, "command", "What `wk review` calls with two directories, before and after a run.",
         default_says="the tool of `git difftool`"),
    _key("prune.keep_days", _count(0, 36500), 30, "days", "How long the executions of ended tasks are kept."),
    _key("prune.keep_tasks_days", _count(0, 36500), 36500, "days", "How long ended tasks are kept.", default_says="forever"),
    _key("prune.keep_history_days", _count(1, 36500), 90, "days", "How long the history of removed tasks is kept."),
    _key("prune.keep_salvage_days", _count(1, 36500), 30, "days", "How long removed worktrees can be brought back with `wk undo`."),
    _key("worktree.salvage", size, "256M", "size", "How much of what git does not keep is salvaged of a worktree before it is removed."),
    _key("notify.command", _line, None, "command line", "What is run for each notice, by `sh`; it gets the notice as JSON on standard input.",
         default_says="none"),
    _key("notify.webhook", read_webhook, None, "web address", "Where each notice is posted as JSON.", default_says="none"),
    _key("notify.webhook_key", _path, None, "file", "The file with the key that signs what is posted.", default_says="none"),
    _key("notify.desktop", _choice("no", "yes"), "no", "`no`, `yes`", "Whether notices are shown on this machine's desktop."),
    _key("notify.services", read_services, [], "list of addresses", "Services that get each notice, as the library Apprise names them.",
         default_says="none"),
    _key("notify.on", read_kinds, list(KINDS), "list of `needs_you`, `failed`, `done`", "What notices are sent about.",
         default_says=" ".join(KINDS)),
    _key("notify.quiet", read_quiet, None, "local times or `none`", "Hours without notices, such as 22:00-07:00; what happens then is sent afterwards.",
         default_says="none"),
    _key("store.url", read_store, None, "URL", "The database: a PostgreSQL URL, or `sqlite` in the state directory.",
         default_says="sqlite"),
    _key("environment.names", _names, [], "list of names", "Variables that agents get beside the standard ones.",
         default_says="none"),
)  # fmt: skip

KEYS: dict[str, Key] = {key.name: key for key in _KEYS}
"""Every setting but those of harnesses, `harness.NAME.OPTION`."""


class Settings(NamedTuple):
    """All settings as they stand. Durations are seconds, sizes bytes."""

    run_harness: str | None
    run_model: str | None
    run_deadline_s: float | None
    run_silence_s: float | None
    run_retries: int
    run_on_lost: str
    run_leftovers: str
    run_worktree: str
    run_check: tuple[str, ...]
    check_deadline_s: float
    worktree_setup: tuple[str, ...]
    worktree_teardown: tuple[str, ...]
    queue_limit: int
    queue_retry_base_s: float
    queue_retry_cap_s: float
    queue_relaunch_base_s: float
    queue_probe_base_s: float
    queue_probe_cap_s: float
    queue_outage_patience_s: float
    daemon_start_grace_s: float
    daemon_poll_s: float
    daemon_look_limit_s: float
    daemon_worktree_limit_s: float
    daemon_answered_grace_s: float
    daemon_stalled_after_s: float
    logs_limit_bytes: int
    stop_grace_s: float
    review_tool: str | None
    prune_keep_days: int
    prune_keep_tasks_days: int
    prune_keep_history_days: int
    prune_keep_salvage_days: int
    worktree_salvage_bytes: int
    notify_command: str | None
    notify_webhook: str | None
    notify_webhook_key: str | None
    notify_desktop: str
    notify_services: tuple[str, ...]
    notify_on: tuple[str, ...]
    notify_quiet: str | None
    store_url: str | None
    environment_names: tuple[str, ...]
    values: tuple[SettingValue, ...]
    """Each of them with its origin, and the options of harnesses."""

    def harness_options(self, name: str, known: Iterable[str] | None = None) -> dict[str, str]:
        """The options of one harness, `program` included. The account is ours to heed, not the harness's.

        Args:
            name: the harness.
            known: the options that it declares; None: it checks them itself.

        Raises:
            SettingsError: an option is not one of them.
        """
        start = f"harness.{name}."
        found = {each.key.removeprefix(start): each for each in self.values if each.key.startswith(start)}
        _ = found.pop(ACCOUNT, None)
        if known is not None and (strange := next((each for each in found if each not in known), None)):
            raise unknown(f"{start}{strange}", found[strange].origin, [start + each for each in known])
        return {option: str(each.value) for option, each in found.items()}

    def harness_account(self, name: str) -> str | None:
        """The name of the account that tasks of a harness work under if they name none; None: the user's own."""
        return next((str(v.value) for v in self.values if v.key == f"harness.{name}.{ACCOUNT}"), None)


_ATTRIBUTES = {
    name: name.replace(".", "_") + ("_s" if "duration" in key.kind else "_bytes" if key.kind == "size" else "")
    for name, key in KEYS.items()
}


def load(
    cwd: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    *,
    repository: bool = True,
    passed_over: Wrong = None,
) -> Settings:
    """Read all settings as they hold in `cwd`.

    Args:
        cwd: where the caller stands.
        environ: the caller's environment; its HOME and XDG_CONFIG_HOME say where the user's file is.
        flags: key → what was given on the command line.
        repository: whether the repository's file counts.
        passed_over: what is wrong is put there and not heeded, instead of being raised; all but what says which database it is.

    Raises:
        SettingsError: a file cannot be read, a key is unknown or not allowed there, a value is wrong.
    """
    found = {name: SettingValue(key=name, value=key.default, origin="default") for name, key in KEYS.items()}
    user = user_file(environ)
    if user is not None:
        _merge(found, _written(user, passed_over), f"user {user}", passed_over)
    project = repository_file(cwd) if repository else None
    if project is not None and project != user:
        _merge(found, _written(project), f"repository {project}")
    for variable, key, text in _from_environment(environ):
        _merge(found, {key: text}, f"environment {variable}", passed_over)
    _merge(found, flags or {}, "flag")
    fields = {attribute: found[name].value for name, attribute in _ATTRIBUTES.items()}
    return Settings(**fields, values=tuple(found[name] for name in sorted(found)))  # pyright: ignore[reportArgumentType] # each reader returns what its field holds


def user_file(environ: Mapping[str, str]) -> Path | None:
    """Where the user's file is or would be; None without a home."""
    configured, home = environ.get("XDG_CONFIG_HOME", ""), environ.get("HOME", "")
    if configured.startswith("/"):  # the standard says: a relative one is to be ignored
        return Path(configured) / "watchkeeper" / "config.toml"
    return Path(home) / ".config" / "watchkeeper" / "config.toml" if home.startswith("/") else None


def repository_file(cwd: Path) -> Path | None:
    """The nearest repository file from `cwd` up to the top of its checkout; outside git only `cwd` itself counts."""
    passed: list[Path] = []
    for directory in (cwd, *cwd.parents):
        passed.append(directory)
        git = directory / ".git"
        if (
            git.is_file() or (git / "HEAD").exists()
        ):  # an empty directory of that name is what some sandboxes leave behind
            break
    else:
        passed = [cwd]
    return next((file for directory in passed if (file := directory / REPOSITORY_FILE).is_file()), None)


def _written(file: Path, passed_over: Wrong = None) -> dict[str, object]:
    """What a file sets, as key → what was written; nothing if there is no file, or if it is passed over."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise SettingsError(f"The settings in {file} cannot be read: {describe_os_error(error)}.") from error
    if len(raw) > MAX_FILE_BYTES:
        raise SettingsError(
            f"The settings in {file} are larger than {MAX_FILE_BYTES} bytes.", hint="Is it the right file?"
        )
    import tomllib  # noqa: PLC0415 - most calls find no file

    try:
        return _flat(cast("dict[str, object]", tomllib.loads(raw.decode())), "", file)
    except (ValueError, RecursionError) as error:
        problem = SettingsError(f"The settings in {file} are not valid TOML: {error}.", hint="Fix the file.")
        if passed_over is None or b"store" in raw:  # it may name the database, and another must not be taken for it
            raise problem from error
    passed_over.append(problem)
    return {}


def _flat(table: Mapping[str, object], above: str, file: Path) -> dict[str, object]:
    flat: dict[str, object] = {}
    depth = above.count(".")
    for name, value in table.items():
        path = f"{above}{name}"
        deeper = depth == 0 or (depth == 1 and above == "harness.")
        if isinstance(value, dict) and deeper:
            flat |= _flat(cast("dict[str, object]", value), f"{path}.", file)
        else:
            flat[path] = value
    return flat


def _from_environment(environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Variables that set something, as variable, key, text. Others of our prefix are not settings and stay unread."""
    sections = {name.partition(".")[0] for name in KEYS} | {"harness"}
    rows: list[tuple[str, str, str]] = []
    for variable in sorted(environ):
        section, _, rest = variable.removeprefix(PREFIX).lower().partition("_")
        if not variable.startswith(PREFIX) or section not in sections or not rest:
            continue
        if section == "harness":
            rest = rest.replace("_", ".", 1)
        rows.append((variable, f"{section}.{rest}", environ[variable]))
    return rows


def _merge(
    found: dict[str, SettingValue], written: Mapping[str, object], origin: str, passed_over: Wrong = None
) -> None:
    for name, value in written.items():
        try:
            found[name] = value_of(name, value, origin)
        except SettingsError as problem:
            if passed_over is None or name.startswith("store."):
                raise
            passed_over.append(problem)


def value_of(name: str, value: object, origin: str) -> SettingValue:
    """A setting as it was written somewhere. Raises SettingsError."""
    key = KEYS.get(name) or _harness_key(name)
    if key is None:
        raise unknown(name, origin)
    if origin.startswith("repository ") and key.user_only:
        raise SettingsError(
            f"'{name}' cannot be set by a repository ({origin}).",
            hint="Every agent in the repository can write that file; set it in your own file or by a flag.",
        )
    try:
        return SettingValue(key=name, value=key.read(value), origin=origin)
    except ValueError as error:
        raise SettingsError(f"'{name}' ({origin}) is {_shown(name, value)}; it must be {error}.", hint=_WHAT) from error


def _harness_key(name: str) -> Key | None:
    found = re.fullmatch(_HARNESS_KEY, name)
    return found and Key(
        name=name, read=_option, default=None, default_says="", kind="string", detail="An option of a harness."
    )


def unknown(name: str, origin: str, known: Iterable[str] = KEYS) -> SettingsError:
    """The refusal of a setting that is not there, with the one of `known` that comes close."""
    from watchkeeper.domain.suggestion import did_you_mean  # noqa: PLC0415 - only a mistake needs it

    meant = did_you_mean(name, list(known))
    return SettingsError(f"There is no setting '{name}' ({origin}).{meant}", hint="`wk config show` lists them all.")


def displayed(name: str, value: object) -> object:
    """A setting's value as it may be shown: without passwords, and without the tokens in addresses."""
    if name in SECRET:
        if isinstance(value, tuple | list):
            return [masked_address(str(each)) for each in cast("list[object]", value)]
        return value and masked_address(str(value))
    return masked(value)


def _shown(name: str, value: object) -> str:
    text = mistyped(value) if name == "store.url" or name in SECRET else repr(masked(value))
    return text if len(text) <= 60 else f"{text[:57]}…"
