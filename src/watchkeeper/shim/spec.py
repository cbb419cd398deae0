"""What to run, as the daemon wrote it."""

from . import json_text, records

FORMAT = 1


class BadSpec(Exception):  # noqa: N818 - an answer
    """The spec cannot be used."""


class Spec:
    """A checked `spec.json`; see `docs/execution-directory.md` for the meaning of each key. Texts for the kernel are bytes."""

    def __init__(self, record: dict[str, object]) -> None:
        """Check a record. Raises BadSpec."""
        try:
            if record["format"] != FORMAT:
                raise BadSpec(f"its format is {record['format']!r}, this shim knows {FORMAT}")
            self.run = _text(record, "run")
            self.execution = _bytes(record["execution"], "execution")
            self.argv = _argv(record["argv"])
            self.cwd = _absolute(record, "cwd")
            self.environment = _environment(record["environment"])
            self.prompt_by = _one_of(record, "prompt_by", "stdin", "argument", "file", "none")
            self.input = record.get("input", False) is True
            self.deadline_s = seconds(record.get("deadline_s"), "deadline_s")
            self.silence_s = seconds(record.get("silence_s"), "silence_s")
            self.grace_s = seconds(record.get("grace_s", 10.0), "grace_s") or 0.0
            self.leftovers = _one_of(record, "leftovers", "kill", "wait")
            self.leftovers_grace_s = seconds(record.get("leftovers_grace_s", 5.0), "leftovers_grace_s") or 0.0
            self.log_limit = _whole(record.get("log_limit_bytes", 64 * 1024 * 1024), "log_limit_bytes")
            self.socket = _absolute(record, "socket")
            self.wake = _absolute(record, "wake") if record.get("wake") is not None else None
            self.nofile = _whole(record["nofile"], "nofile") if record.get("nofile") is not None else None
            self.umask = _whole(record.get("umask", 0o022), "umask")
            self.nice = _signed(record.get("nice"), "nice")
            self.oom_score_adj = _signed(record.get("oom_score_adj"), "oom_score_adj")
            self.limits = _limits(record.get("limits", {}))
            self.cwd_boot = record.get("cwd_boot")
            self.cwd_device = _signed(record.get("cwd_device"), "cwd_device")
            self.cwd_inode = _signed(record.get("cwd_inode"), "cwd_inode")
            self.cwd_generation = _signed(record.get("cwd_generation"), "cwd_generation")
            self.head_file = _absolute(record, "head_file") if record.get("head_file") is not None else None
            self.head = _bytes(record["head"], "head") if record.get("head") is not None else None
        except KeyError as missing:
            raise BadSpec(f"it lacks {missing}") from None


def load(directory: int) -> Spec:
    """Read the spec. Raises BadSpec."""
    try:
        record = json_text.decode(records.unsealed(records.read_bytes(directory, "spec.json")))
    except (OSError, ValueError, RecursionError) as problem:
        raise BadSpec(str(problem)) from problem
    if not json_text.is_object(record):
        raise BadSpec("it is not an object")
    return Spec(record)


def load_token(directory: int) -> bytes:
    """Read the token. Raises BadSpec."""
    try:
        token = records.read_bytes(directory, "token").strip()
    except OSError as problem:
        raise BadSpec(str(problem)) from problem
    if not token:
        raise BadSpec("there is no token")
    return token


def _text(record: dict[str, object], key: str) -> str:
    value = record[key]
    if not isinstance(value, str):
        raise BadSpec(f"{key} is not a text")
    return value


def _bytes(value: object, what: str) -> bytes:
    """Text that was bytes once: what was not UTF-8 then stands in it as lone surrogates."""
    try:
        data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else b"\0"
    except UnicodeEncodeError:
        data = b"\0"
    if b"\0" in data:
        raise BadSpec(f"{what} is not a text that the system can take")
    return data


def _absolute(record: dict[str, object], key: str) -> bytes:
    path = _bytes(record[key], key)
    if not path.startswith(b"/"):
        raise BadSpec(f"{key} is not an absolute path")
    return path


def _one_of(record: dict[str, object], key: str, *words: str) -> str:
    value = record[key]
    if not isinstance(value, str) or value not in words:
        raise BadSpec(f"{key} is {value!r}")
    return value


def _argv(value: object) -> list[bytes | None]:
    if not json_text.is_list(value) or not value or not value[0]:
        raise BadSpec("argv is not a command line")
    return [None if word is None else _bytes(word, "a word of argv") for word in value]


def _environment(value: object) -> dict[bytes, bytes]:
    if not json_text.is_object(value):
        raise BadSpec("environment is not an object")
    found: dict[bytes, bytes] = {}
    for name, text in value.items():
        key = _bytes(name, "the name of a variable")
        if not key or b"=" in key:
            raise BadSpec("environment holds an entry that is not a variable")
        found[key] = _bytes(text, f"the variable {name}")
    return found


def seconds(value: object, what: str) -> float | None:
    """A duration of zero or more, or None. Raises BadSpec for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise BadSpec(f"{what} is not a duration")
    return min(float(value), 1e12)


def _whole(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadSpec(f"{what} is not a whole number")
    return value


def _signed(value: object, what: str) -> "int | None":
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadSpec(f"{what} is not a whole number")
    return value


def _limits(value: object) -> "dict[str, tuple[int, int]]":
    """Limits by name, each with the soft and the hard one; -1 means no limit."""
    if not json_text.is_object(value):
        raise BadSpec("limits is not an object")
    found: dict[str, tuple[int, int]] = {}
    for name, pair in value.items():
        numbers = pair if json_text.is_list(pair) else []
        whole = [each for each in numbers if isinstance(each, int) and not isinstance(each, bool) and each >= -1]
        if len(numbers) != 2 or len(whole) != 2:
            raise BadSpec(f"the limit {name} is not a pair of whole numbers")
        found[name] = (whole[0], whole[1])
    return found
