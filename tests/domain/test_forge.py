"""The forge that a remote's address names, and the command that opens a request there."""

import pytest

from watchkeeper.domain.forge import Forge, forge_of, request_command, shown


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("https://github.com/ada/shop.git", "github.com", "ada/shop"),
        ("https://ada:secret@GitHub.com/ada/shop", "github.com", "ada/shop"),
        ("git@github.com:ada/shop.git", "github.com", "ada/shop"),
        ("ssh://git@gitlab.example.org:2222/group/sub/shop.git", "gitlab.example.org", "group/sub/shop"),
    ],
)
def test_an_address_names_a_forge(url: str, host: str, path: str) -> None:
    assert forge_of(url) == Forge(host=host, path=path)


@pytest.mark.parametrize(
    "url", ["/srv/shop.git", "../shop.git", "file:///srv/ada/shop.git", "ext::sh -c evil", "host:shop", ""]
)
def test_a_path_names_none(url: str) -> None:
    assert forge_of(url) is None


def test_each_forge_has_its_own_command() -> None:
    words = {"branch": "wk/t1", "into": "main", "title": "-x; rm", "body": "b"}
    github = request_command(Forge(host="github.com", path="ada/shop"), **words)
    assert github[:5] == ("gh", "pr", "create", "--repo", "ada/shop")
    assert github[github.index("--title") + 1] == "-x; rm"
    own = request_command(Forge(host="git.example.org", path="ada/shop"), **words)
    assert own[4] == "git.example.org/ada/shop"
    gitlab = request_command(Forge(host="gitlab.com", path="ada/shop"), **words)
    assert gitlab[:3] == ("glab", "mr", "create")
    assert gitlab[gitlab.index("--target-branch") + 1] == "main"


def test_an_address_is_shown_without_its_secret() -> None:
    assert shown("https://ada:secret@example.org/a/b") == "https://example.org/a/b"
