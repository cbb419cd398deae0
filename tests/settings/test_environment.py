"""What of the caller's environment an agent gets."""

import pytest

from watchkeeper.environment import capture
from watchkeeper.errors import BadTask

CALLER = {
    "PATH": "/bin",
    "HOME": "/h",
    "LC_TIME": "C",
    "https_proxy": "http://p",
    "SECRET": "s",
    "AWS_SECRET_ACCESS_KEY": "s",
    "SSH_AUTH_SOCK": "/s",
    "ANTHROPIC_API_KEY": "a",
    "CLAUDE_CONFIG_DIR": "/c",
    "OPENAI_API_KEY": "o",
    "WATCHKEEPER_HOME": "/w",
    "WATCHKEEPER_RUN": "r",
}
STANDARD = {name: CALLER[name] for name in ("PATH", "HOME", "LC_TIME", "https_proxy")}


def test_the_allow_list() -> None:
    """Programs are found and proxies passed; secrets stay behind."""
    assert capture(CALLER, (), "command") == STANDARD
    assert capture(CALLER, (), "demo") == STANDARD


def test_each_harness_gets_its_own_credentials() -> None:
    """One program's key is not another's."""
    claude = capture(CALLER, (), "claude")
    assert claude == {**STANDARD, "ANTHROPIC_API_KEY": "a", "CLAUDE_CONFIG_DIR": "/c"}
    assert capture(CALLER, (), "codex") == {**STANDARD, "OPENAI_API_KEY": "o"}


def test_what_is_asked_for_by_name() -> None:
    """A name that was asked for is passed on."""
    assert capture(CALLER, ("SECRET", "SECRET"), "demo") == {**STANDARD, "SECRET": "s"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("MISSING", "is not set"),
        ("WATCHKEEPER_HOME", "own and is not passed on"),
        ("A=B", "only the name"),
        ("", "cannot be the name"),
        ("LC_*", "cannot be the name"),
    ],
)
def test_what_is_refused(name: str, says: str) -> None:
    """A name that is not set, ours, or none is refused with what to do."""
    with pytest.raises(BadTask, match=says) as refusal:
        capture(CALLER, (name,), "demo")
    assert refusal.value.hint
