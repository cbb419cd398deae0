"""What a shim takes from its spec: every key, every default, and each refusal in its own words."""

import os
from pathlib import Path
from typing import Any

import pytest

from watchkeeper.shim.spec import BadSpec, Spec, load, load_token, seconds

LEAST: dict[str, Any] = {
    "format": 1, "run": "r1", "execution": "x1", "argv": ["/bin/true"], "cwd": "/w", "environment": {}, "prompt_by": "none", "leftovers": "kill",
    "socket": "/s",
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "run": "r1", "execution": b"x1", "argv": [b"/bin/true"], "cwd": b"/w", "environment": {}, "prompt_by": "none", "input": False, "deadline_s": None,
    "silence_s": None, "grace_s": 10.0, "leftovers": "kill", "leftovers_grace_s": 5.0, "log_limit": 67108864, "socket": b"/s", "wake": None,
    "nofile": None, "umask": 0o022, "nice": None, "oom_score_adj": None, "limits": {}, "cwd_boot": None, "cwd_device": None, "cwd_inode": None,
    "cwd_generation": None, "head_file": None, "head": None,
}  # fmt: skip
FULL: dict[str, Any] = {
    "format": 1, "run": "r2", "execution": "x2", "argv": ["a", None, "ö\udcff"], "cwd": "/w 2", "environment": {"A": "1=2", "B": ""},
    "prompt_by": "file", "input": True, "deadline_s": 1, "silence_s": 2.5, "grace_s": 3, "leftovers": "wait", "leftovers_grace_s": 4,
    "log_limit_bytes": 5, "socket": "/s2", "wake": "/wake", "nofile": 6, "umask": 7, "nice": -8, "oom_score_adj": 9,
    "limits": {"core": [0, -1], "cpu": [10, 11]}, "cwd_boot": "b", "cwd_device": 12, "cwd_inode": 13, "cwd_generation": 14, "head_file": "/h",
    "head": "ref",
}  # fmt: skip
TAKEN: dict[str, Any] = {
    "run": "r2", "execution": b"x2", "argv": [b"a", None, b"\xc3\xb6\xff"], "cwd": b"/w 2", "environment": {b"A": b"1=2", b"B": b""},
    "prompt_by": "file", "input": True, "deadline_s": 1.0, "silence_s": 2.5, "grace_s": 3.0, "leftovers": "wait", "leftovers_grace_s": 4.0,
    "log_limit": 5, "socket": b"/s2", "wake": b"/wake", "nofile": 6, "umask": 7, "nice": -8, "oom_score_adj": 9,
    "limits": {"core": (0, -1), "cpu": (10, 11)}, "cwd_boot": "b", "cwd_device": 12, "cwd_inode": 13, "cwd_generation": 14, "head_file": b"/h",
    "head": b"ref",
}  # fmt: skip
NOT_TEXT = "is not a text that the system can take"


@pytest.mark.parametrize(("written", "taken"), [(LEAST, DEFAULTS), (FULL, TAKEN)])
def test_every_key_is_taken_as_it_is_written(written: dict[str, Any], taken: dict[str, Any]) -> None:
    assert vars(Spec(written)) == taken


@pytest.mark.parametrize(
    ("changed", "taken"),
    [
        ({"grace_s": None, "leftovers_grace_s": None}, {"grace_s": 0.0, "leftovers_grace_s": 0.0}),
        ({"input": 1}, {"input": False}),
        ({"prompt_by": "stdin"}, {"prompt_by": "stdin"}),
        ({"prompt_by": "argument"}, {"prompt_by": "argument"}),
        ({"umask": 0, "nofile": 0, "log_limit_bytes": 0}, {"umask": 0, "nofile": 0, "log_limit": 0}),
    ],
)
def test_what_is_within_the_bounds_is_taken(changed: dict[str, Any], taken: dict[str, Any]) -> None:
    assert vars(Spec(LEAST | changed)) == DEFAULTS | taken


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ({"format": 2}, "its format is 2, this shim knows 1"),
        ({"run": 1}, "run is not a text"),
        ({"execution": 1}, f"execution {NOT_TEXT}"),
        ({"execution": "a\0b"}, f"execution {NOT_TEXT}"),
        ({"execution": "\ud800"}, f"execution {NOT_TEXT}"),
        ({"argv": []}, "argv is not a command line"),
        ({"argv": [None, "a"]}, "argv is not a command line"),
        ({"argv": [""]}, "argv is not a command line"),
        ({"argv": "true"}, "argv is not a command line"),
        ({"argv": ["a", 5]}, f"a word of argv {NOT_TEXT}"),
        ({"cwd": "w"}, "cwd is not an absolute path"),
        ({"cwd": None}, f"cwd {NOT_TEXT}"),
        ({"environment": []}, "environment is not an object"),
        ({"environment": {"": "a"}}, "environment holds an entry that is not a variable"),
        ({"environment": {"A=B": "a"}}, "environment holds an entry that is not a variable"),
        ({"environment": {"A\0": "a"}}, f"the name of a variable {NOT_TEXT}"),
        ({"environment": {"A": 1}}, f"the variable A {NOT_TEXT}"),
        ({"prompt_by": "post"}, "prompt_by is 'post'"),
        ({"prompt_by": []}, "prompt_by is []"),
        ({"leftovers": "keep"}, "leftovers is 'keep'"),
        *[({key: value}, f"{key} is not a duration")
          for key in ("deadline_s", "silence_s", "grace_s", "leftovers_grace_s") for value in (-1, "1", True, float("inf"), float("nan"))],
        *[({key: value}, f"{key} is not a whole number") for key in ("log_limit_bytes", "nofile", "umask") for value in (-1, "1", True, 1.5)],
        *[({key: value}, f"{key} is not a whole number")
          for key in ("nice", "oom_score_adj", "cwd_device", "cwd_inode", "cwd_generation") for value in ("1", True, 1.5)],
        ({"umask": None}, "umask is not a whole number"),
        ({"socket": "s"}, "socket is not an absolute path"),
        ({"wake": "s"}, "wake is not an absolute path"),
        ({"head_file": "s"}, "head_file is not an absolute path"),
        ({"head": 5}, f"head {NOT_TEXT}"),
        ({"limits": []}, "limits is not an object"),
        *[({"limits": {"core": pair}}, "the limit core is not a pair of whole numbers")
          for pair in ([1], [1, 2, 3], [1, -2], [1, "2"], [True, 1], [1.5, 2], 5, None)],
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(changed: dict[str, Any], detail: str) -> None:
    with pytest.raises(BadSpec) as caught:
        _ = Spec(LEAST | changed)
    assert str(caught.value) == detail


@pytest.mark.parametrize("key", LEAST)
def test_a_key_that_lacks_is_named(key: str) -> None:
    with pytest.raises(BadSpec) as caught:
        _ = Spec({name: value for name, value in LEAST.items() if name != key})
    assert str(caught.value) == f"it lacks '{key}'"


def test_a_duration_is_bounded() -> None:
    assert seconds(0, "it") == 0.0
    assert seconds(1e300, "it") == 1e12
    assert seconds(None, "it") is None


@pytest.fixture
def directory(tmp_path: Path):
    """A descriptor of an execution directory."""
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def test_a_file_that_is_no_spec_is_refused(tmp_path: Path, directory: int) -> None:
    with pytest.raises(BadSpec, match="No such file"):
        _ = load(directory)
    for text, detail in (("[]", "it is not an object"), ("{", "."), ("[" * 100_000, ".")):
        (tmp_path / "spec.json").write_text(text)
        with pytest.raises(BadSpec, match=detail):
            _ = load(directory)


def test_a_token_has_no_blanks_at_its_ends_and_is_there(tmp_path: Path, directory: int) -> None:
    with pytest.raises(BadSpec, match="No such file"):
        _ = load_token(directory)
    (tmp_path / "token").write_text(" \n")
    with pytest.raises(BadSpec) as caught:
        _ = load_token(directory)
    assert str(caught.value) == "there is no token"
    (tmp_path / "token").write_text(" secret\n")
    assert load_token(directory) == b"secret"
