"""Which forge a remote repository is on, told by its address, and the command that asks for a merge there."""

import re
from dataclasses import dataclass

_SCP = re.compile(r"^(?:[^@/]+@)?([^:/@]+):(?!//)(.+)$")
_URL = re.compile(r"^(?:https?|ssh|git)://(?:[^@/]+@)?([^/:]+)(?::\d+)?/(.+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forge:
    """A repository on a forge."""

    host: str
    path: str
    """Owner and name, as the forge has them."""

    @property
    def program(self) -> str:
        """The forge's own program."""
        return "glab" if "gitlab" in self.host else "gh"

    @property
    def page(self) -> str:
        """The page on which a person asks for a merge of a branch, without the branch."""
        return f"https://{self.host}/{self.path}"


def forge_of(url: str) -> Forge | None:
    """The forge of a remote's address; None: it is a path, or cannot be read."""
    for form in (_URL, _SCP):
        if found := form.match(url):
            path = found[2].removesuffix("/").removesuffix(".git")
            return Forge(host=found[1].lower(), path=path) if path.count("/") >= 1 else None
    return None


def request_command(forge: Forge, *, branch: str, into: str, title: str, body: str) -> tuple[str, ...]:
    """The command line that opens a pull request, or a merge request on GitLab."""
    if forge.program == "glab":
        return (
            "glab", "mr", "create", "--repo", forge.page, "--source-branch", branch, "--target-branch", into,
            "--title", title, "--description", body, "--yes",
        )  # fmt: skip
    repository = forge.path if forge.host == "github.com" else f"{forge.host}/{forge.path}"
    return (
        "gh", "pr", "create", "--repo", repository, "--head", branch, "--base", into, "--title", title, "--body", body,
    )  # fmt: skip


def shown(url: str) -> str:
    """An address without the secret that it may hold."""
    return re.sub(r"^(\w+://)[^@/]*@", r"\1", url)
