"""Where requests go, in words."""

import pytest

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.route import DEFAULT_HOSTS, host_of, with_host


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://api.example.com/v1", "api.example.com"),
        ("http://127.0.0.1:8080/s/x", "127.0.0.1:8080"),
        ("http://[::1]:9/", "[::1]:9"),
        ("https://me:secret@Gateway.Example.org:443/", "gateway.example.org:443"),
        ("localhost:1234", ""),
        ("", ""),
        ("http://[bad", ""),
        ("http://x:port/", ""),
    ],
)
def test_the_host_of_an_address(url: str, host: str) -> None:
    """With its port where it names one, never with what stands before it."""
    assert host_of(url) == host


@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_failure_of_the_service_names_the_host(kind: FailureKind) -> None:
    """Other failures have nothing to do with it."""
    said = with_host(kind, "It did not work.", "gw.example.org")
    service = {FailureKind.NETWORK, FailureKind.OVERLOADED, FailureKind.SIGNED_OUT, FailureKind.BAD_REQUEST}
    assert said == ("It did not work (gw.example.org)." if kind in service else "It did not work.")


@pytest.mark.parametrize("host", ["", *sorted(DEFAULT_HOSTS)])
def test_the_vendors_own_host_needs_no_mention(host: str) -> None:
    """A host that is not known needs no mention either."""
    assert with_host(FailureKind.NETWORK, "It did not work.", host) == "It did not work."


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("unexpected status 401", "unexpected status 401 (gw)"),
        ("It waits …", "It waits … (gw)"),
        ("Trying again...", "Trying again... (gw)"),
        ("One line.\nAnother one.", "One line (gw).\nAnother one."),
        ("No answer from gw.", "No answer from gw."),
    ],
)
def test_the_host_stands_at_the_end_of_the_first_line(reason: str, said: str) -> None:
    """Once, before its full stop."""
    assert with_host(FailureKind.SIGNED_OUT, reason, "gw") == said
    assert with_host(FailureKind.SIGNED_OUT, said, "gw") == said


def test_blanks_around_a_reason_with_a_host() -> None:
    """Blank lines at the end go; blanks at the begin stay."""
    said = with_host(FailureKind.NETWORK, "  It failed.\nTwice.\n\n", "gw")
    assert said == "  It failed (gw).\nTwice."
    assert with_host(FailureKind.NETWORK, "It failed...", "gw") == "It failed... (gw)"
