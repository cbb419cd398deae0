"""What to run, as the daemon wrote it."""

from . import records

FORMAT = 1


class BadSpec(Exception):  # noqa: N818 - an answer
    """The spec cannot be used."""


class Spec:
    """A checked `spec.json`; see `docs/execution-directory.md` for the meaning of each key."""

    def __init__(self, record: dict[str, object]) -> None:
        """Check a record. Raises BadSpec."""
        try:
            if record["format"] != FORMAT:
                raise BadSpec(f"its format is {record['format']!r}, this shim knows {FORMAT}")
            self.run = _text(record, "run")
            self.execution = _text(record, "execution")
            self.argv = _argv(record["argv"])
            self.cwd = _text(record, "cwd")
            self.environment = _environment(record["environment"])
            self.prompt_by = _one_of(record, "prompt_by", "stdin", "argument", "file", "none")
            self.input = record.get("input", False) is True
            self.deadline_s = _seconds(record.get("deadline_s"))
            self.grace_s = _seconds(record.get("grace_s", 10.0)) or 0.0
            self.leftovers = _one_of(record, "leftovers", "kill", "wait")
            self.leftovers_grace_s = _seconds(record.get("leftovers_grace_s", 5.0)) or 0.0
            self.log_limit = _whole(record.get("log_limit_bytes", 64 * 1024 * 1024))
            self.socket = _text(record, "socket")
            self.wake = _text(record, "wake") if record.get("wake") is not None else None
            self.nofile = _whole(record["nofile"]) if record.get("nofile") is not None else None
            self.umask = _whole(record.get("umask", 0o022))
        except KeyError as missing:
            raise BadSpec(f"it lacks {missing}") from None


def load(directory: int) -> Spec:
    """Read the spec. Raises BadSpec."""
    try:
        record = records.read(directory, "spec.json")
    except (OSError, ValueError) as problem:
        raise BadSpec(str(problem)) from problem
    if record is None:
        raise BadSpec("it is missing")
    return Spec(record)


def _text(record: dict[str, object], key: str) -> str:
    value = record[key]
    if not isinstance(value, str) or "\0" in value:
        raise BadSpec(f"{key} is not a text")
    return value


def _one_of(record: dict[str, object], key: str, *words: str) -> str:
    value = record[key]
    if not isinstance(value, str) or value not in words:
        raise BadSpec(f"{key} is {value!r}")
    return value


def _argv(value: object) -> list[str | None]:
    if not isinstance(value, list) or not value or not isinstance(value[0], str):
        raise BadSpec("argv is not a command line")
    argv: list[str | None] = []
    for word in value:
        if not (word is None or isinstance(word, str)) or "\0" in (word or ""):
            raise BadSpec("argv holds something that is no argument")
        argv.append(word)
    return argv


def _environment(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise BadSpec("environment is not an object")
    found: dict[str, str] = {}
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str) or "\0" in name + text or "=" in name or not name:
            raise BadSpec("environment holds something that is no variable")
        found[name] = text
    return found


def _seconds(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise BadSpec(f"{value!r} is no duration")
    return float(value)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadSpec(f"{value!r} is no whole number")
    return value
