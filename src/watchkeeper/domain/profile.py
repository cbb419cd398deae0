"""The launch profile: everything that a launch is allowed and configured with.

It is compiled once, when a task is handed over, from the settings as they are then. It is stored with the authorisation, and a launch uses it and nothing
else. So a later change of a setting, or of the repository, changes nothing about a task that was already allowed. The sentences that people read are made
here from the same value that the launch uses.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from watchkeeper.domain.inheritance import Inheritance, unusual
from watchkeeper.domain.route import DEFAULT_HOSTS

WIDTH = 80
"""Columns of the line that is shown before a run."""

_COMMAND = "command"
"""The harness whose program is the task's own."""

_SHORT = 16
"""Hexadecimal digits of a fingerprint: enough to tell the profiles of one database apart."""


class RightsLevel(StrEnum):
    """How much an agent may do, in the same words for every harness."""

    READ = "read"
    EDIT = "edit"
    FULL = "full"
    CUSTOM = "custom"
    """Options of the harness were chosen one by one, and they match none of the levels."""


CHOICES = (RightsLevel.READ, RightsLevel.EDIT, RightsLevel.FULL)
"""The levels that a person can name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchProfile:
    """What one launch is allowed and configured with."""

    harness: str
    program: str
    """The program's absolute path; for a plain command as far as it could be found, else empty."""
    version: str | None
    """What the program said at hand-over; None: it did not say."""
    machine: str = ""
    """The id of the machine where the program was found; empty where only one can be meant."""
    account: str
    """The account's id, `HARNESS:NAME`."""
    home: str = ""
    """The configuration home of the account; empty for the user's own, which the environment names."""
    model: str | None = None
    """The model; None: the program's own choice."""
    rights: RightsLevel = RightsLevel.CUSTOM
    options: tuple[tuple[str, str], ...] = ()
    """Every option of the harness, as the settings and the command line gave it."""
    isolation: str = ""
    """How much of the user's and the project's configuration counts; empty where the harness does not say."""
    permits: str = ""
    """What the agent may do, in full."""
    reads: str = ""
    """Which configuration and instructions the program takes from outside."""
    network: str = ""
    sandbox: str = ""
    brief: tuple[str, str, str] = ("", "", "")
    """The same for the line before a run: sandbox, network, rights."""
    host: str = ""
    """Where the program's requests go; empty: nowhere, or not known."""
    host_source: str = ""
    """Why there."""
    argv: tuple[str | None, ...] = ()
    """The command line; None is the place of the prompt."""
    prompt_by: str = "stdin"
    prompt_prefix: str = ""
    """What stands before the task's text, where the program would take its beginning for something else."""
    environment: tuple[tuple[str, str | None], ...] = ()
    """Variables that are set, or (None) removed, on top of what was captured from the caller."""
    grace_s: float = 10.0
    """Seconds between TERM and KILL."""
    log_limit_bytes: int = 64 * 1024 * 1024
    """Bytes kept of each log."""
    inherits: Inheritance | None = None
    """Umask, niceness and limits of the caller. None: an older version accepted the task and did not ask for them."""

    @property
    def fingerprint(self) -> str:
        """The same for equal profiles and, for all practical purposes, different for different ones."""
        fields = asdict(self)
        if self.inherits is None:
            del fields["inherits"]  # profiles of older versions keep their fingerprints
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_SHORT]

    @property
    def scope(self) -> tuple[str, ...]:
        """What a person cares about when the line before a run is repeated: all but the program's version, limits, what it inherits, and the command itself."""
        return (
            self.harness,
            self.account,
            self.home,
            self.rights,
            self.isolation,
            "" if self.harness == _COMMAND else as_written_now(self.permits),  # it names the command
            self.reads,
            self.network,
            self.sandbox,
            self.host,
        )

    def applied(self, captured: Mapping[str, str]) -> dict[str, str]:
        """The environment of the agent, from what was captured of the caller's."""
        environment = dict(captured)
        for name, value in self.environment:
            if value is None:
                _ = environment.pop(name, None)
            else:
                environment[name] = value
        return environment


def expected_by_default(profile: LaunchProfile) -> str:
    """What counts as done where the task does not say: an answer of an agent that only reads, a trace of any other, the success of a command."""
    if profile.harness == _COMMAND:
        return "any"
    return "answer" if profile.rights is RightsLevel.READ else "work"


def as_written_now(sentence: str) -> str:
    """A stored sentence in the words of this version, so that a comparison with a new one shows differences of rights only."""
    return sentence.replace("asks nobody", "never asks")


def environment_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[tuple[str, str | None], ...]:
    """What turns one environment into another, in the form that a profile keeps."""
    changed: dict[str, str | None] = {name: value for name, value in after.items() if before.get(name) != value}
    changed |= dict.fromkeys(before.keys() - after.keys())
    return tuple(sorted(changed.items()))


def line(profile: LaunchProfile, tasks: int = 1) -> str:
    """The line before a run: sandbox and network first, at most `WIDTH` columns. `tasks`: for how many tasks it is said.

    What does not fit is left out from the least important on: the account, the version, the rest of the rights.
    """
    end = "." if tasks == 1 else f" (×{tasks})."
    sandbox, network, rights = profile.brief
    start = f"{_capital(sandbox)}, {network}: {profile.harness}"
    if profile.harness == _COMMAND:
        start = start.removesuffix(f" {_COMMAND}")  # the program's own name follows
    account = profile.account.partition(":")[2]
    who = {"own": "", "key": ", your key"}.get(account, f", account {account}")
    version = f" {profile.version}" if profile.version else ""
    for candidate in (
        f"{start}{version} {rights}{who}{end}",
        f"{start} {rights}{who}{end}",
        f"{start} {rights}{end}",
    ):
        if len(candidate) <= WIDTH:
            return candidate
    return f"{start} {rights}"[: WIDTH - len(end)].rstrip() + f"…{end[:-1]}"


def requests(profile: LaunchProfile) -> str:
    """Where requests go, where that is not the vendor of the program; else empty."""
    if not profile.host or profile.host in DEFAULT_HOSTS:
        return ""
    return f"Requests go to {host(profile)}."


def host(profile: LaunchProfile) -> str:
    """The host of the requests, with why."""
    by = profile.host_source
    return f"{profile.host} ({by})" if by == "the default" else f"{profile.host}, by {by}"


def table(profile: LaunchProfile, directory: str) -> list[tuple[str, str]]:
    """The same in full, as labels and texts."""
    version = f" {profile.version}" if profile.version else ""
    path = f" ({profile.program})" if profile.program else ""
    rows = [
        ("sandbox", profile.sandbox),
        ("network", profile.network),
        ("rights", f"{profile.rights.value}: {profile.permits}"),
        ("directory", directory),
        ("reads", profile.reads),
        ("requests", f"go to {host(profile)}" if profile.host else ""),
        ("program", f"{profile.harness}{version}{path}"),
        ("account", _account(profile)),
        ("model", profile.model or ""),
        ("options", ", ".join(f"{name}={_one_line(value)}" for name, value in profile.options)),
        ("inherits", unusual(profile.inherits) if profile.inherits is not None else ""),
    ]
    return [(label, text) for label, text in rows if text]


WORDS = {
    "rights": "its rights",
    "permits": "what it may do",
    "host": "where requests go",
    "host_source": "why they go there",
    "argv": "the command line",
    "prompt_by": "how the prompt reaches it",
    "prompt_prefix": "what stands before the prompt",
    "environment": "variables",
    "grace_s": "the grace of a stop",
    "log_limit_bytes": "the limit of its logs",
    "reads": "the configuration that it reads",
    "options": "its options",
    "program": "its program",
    "sandbox": "its sandbox",
    "network": "its network",
    "isolation": "its isolation",
    "inherits": "its umask, niceness and limits",
}
"""What a person calls the parts of a profile; those that are not here by their own names."""


def differences(was: LaunchProfile, now: LaunchProfile) -> tuple[str, ...]:
    """The names of the fields in which two profiles differ; empty if they are equal."""
    left, right = asdict(was), asdict(now)
    return tuple(name for name in left if left[name] != right[name])


def words(names: Iterable[str], besides: Collection[str] = ()) -> tuple[str, ...]:
    """What a person calls these fields, without those in `besides`."""
    return tuple(WORDS.get(name, name) for name in names if name not in besides)


def _account(profile: LaunchProfile) -> str:
    name = profile.account.partition(":")[2]
    if profile.harness == _COMMAND and name == "own":
        return ""  # a command line signs in nowhere that we know of
    words = {"own": "your own sign-in", "key": "a key of your environment"}
    return words.get(name, f"{profile.account}{f', home {profile.home}' if profile.home else ''}")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _one_line(value: str) -> str:
    return " ".join(value.split())
