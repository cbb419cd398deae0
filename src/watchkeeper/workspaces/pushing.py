"""Pushing from a repository of our own that borrows the objects of the task's: the user's settings count, and none of the repository's.

An agent can write the configuration of the repository: which program git takes for ssh, which asks for a password, which hook runs before a push. So git is run
where none of it is read. The user's credential helper and ssh run, as they are needed for pushing.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.domain.forge import shown
from watchkeeper.domain.plain_text import clean
from watchkeeper.domain.worktree import Worktree
from watchkeeper.errors import Refused
from watchkeeper.ports.pushing import Remote
from watchkeeper.workspaces.alternates import alternate
from watchkeeper.workspaces.git_program import GitUnknown
from watchkeeper.workspaces.quiet import QuietGit
from watchkeeper.workspaces.replay import why

_PUSH_S = 600.0
_HEADS = "refs/heads/"
_PROTOCOLS = "file:git:http:https:ssh"


class GitPusher:
    """The port's `Pusher`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """`environ`: the caller's."""
        self._environ = {name: value for name, value in environ.items() if not _leads_elsewhere(name)}
        self._git = QuietGit(environ)

    def remote(self, tree: Worktree, named: str | None, target: str) -> Remote:
        """The remote to push to. Raises Refused."""
        try:
            code, raw, _ = self._git.of_repository(
                tree, "config", "-z", "--local", "--get-regexp", r"^(remote\..*\.(url|pushurl)|branch\..*\.remote)$"
            )
        except (GitUnknown, OSError) as error:
            raise Refused(
                f"The remotes of the repository cannot be read: {why(error)}", hint="Nothing was pushed."
            ) from error
        values: dict[str, str] = {}
        for entry in os.fsdecode(raw).split("\0") if code == 0 else ():
            key, _, value = entry.partition("\n")
            _ = values.setdefault(key, value)  # the first address of a remote counts
        urls = {
            key.removeprefix("remote.").removesuffix(".url"): value
            for key, value in values.items()
            if key.endswith(".url")
        }
        urls |= {
            key.removeprefix("remote.").removesuffix(".pushurl"): value
            for key, value in values.items()
            if key.endswith(".pushurl")
        }
        chosen = named or values.get(f"branch.{target}.remote") or ("origin" if "origin" in urls else None)
        chosen = chosen or (next(iter(urls)) if len(urls) == 1 else None)
        if not urls:
            raise Refused(
                "The repository has no remote, so there is nowhere to push to.",
                hint="`git remote add origin URL` names one.",
            )
        if chosen is None or chosen not in urls:
            raise Refused(
                f"There is no remote '{clean(chosen or 'origin')}'.",
                hint=f"--remote names one of: {clean(', '.join(sorted(urls)))}.",
            )
        url = urls[chosen]
        if url.startswith("-") or "::" in url.partition("/")[0]:
            raise Refused(
                f"The address of the remote {clean(chosen)} runs a program, so nothing is pushed there.",
                hint="`git remote set-url` changes it.",
            )
        return Remote(chosen, url)

    def push(self, tree: Worktree, remote: Remote, commit: str) -> None:
        """Push the commit as the task's branch. Raises Refused."""
        ref = _HEADS + tree.branch
        with tempfile.TemporaryDirectory(prefix="watchkeeper-push-") as directory:
            ours = Path(directory, "repository")
            (ours / "objects" / "info").mkdir(parents=True)
            (ours / "refs").mkdir()
            (ours / "HEAD").write_text("ref: refs/heads/none\n", encoding="utf-8")
            is_sha256 = len(commit) == 64
            extension = "[extensions]\n\tobjectFormat = sha256\n" if is_sha256 else ""
            (ours / "config").write_text(
                f"[core]\n\trepositoryFormatVersion = {int(is_sha256)}\n\tbare = true\n{extension}", encoding="utf-8"
            )
            (ours / "objects" / "info" / "alternates").write_bytes(alternate(f"{tree.repository}/objects"))
            # A path is relative to the checkout, where git takes it so.
            url = (
                remote.url
                if "://" in remote.url or ":" in remote.url.partition("/")[0]
                else str(Path(tree.source, remote.url))
            )
            crashpoint("pr.push.before")
            self._run(
                [
                    "git",
                    "push",
                    "--no-verify",
                    "--no-follow-tags",
                    "--no-signed",
                    "--recurse-submodules=no",
                    "--",
                    url,
                    f"{commit}:{ref}",
                ],
                {"GIT_DIR": str(ours), "GIT_ALLOW_PROTOCOL": _PROTOCOLS},
                directory,
                f"{tree.branch} could not be pushed to {clean(shown(remote.url))}",
            )
            crashpoint("pr.push.after")
        try:
            tracking = f"refs/remotes/{remote.name}/{tree.branch}"
            _ = self._git.of_repository(
                tree, "update-ref", tracking, commit
            )  # what it says is repeated by the next `git fetch`
        except (GitUnknown, OSError) as error:
            raise Refused(
                f"{tree.branch} is pushed, and that could not be noted: {why(error)}", hint="`git fetch` notes it."
            ) from error

    def program(self, name: str) -> str | None:
        """Where a program is."""
        return shutil.which(name, path=self._environ.get("PATH", os.defpath))

    def ask_forge(self, command: Sequence[str]) -> str:
        """Run a forge's own program in an empty directory, so that it reads no configuration of the repository. Raises Refused."""
        with tempfile.TemporaryDirectory(prefix="watchkeeper-push-") as directory:
            crashpoint("pr.request.before")
            said = self._run(command, {}, directory, f"{command[0]} did not open the request")
            crashpoint("pr.request.after")
            return said

    def _run(self, command: Sequence[str], variables: Mapping[str, str], directory: str, what: str) -> str:
        program = self.program(command[0])
        if program is None:
            raise Refused(f"{what}: {command[0]} is not installed.", hint="Install it, then type it again.")
        try:
            done = subprocess.run(
                [program, *command[1:]],
                check=False,
                cwd=directory,
                env={**self._environ, **variables},
                capture_output=True,
                timeout=_PUSH_S,
            )
        except (OSError, ValueError) as error:
            raise Refused(f"{what}: {why(error)}", hint="Type it again.") from error
        except subprocess.TimeoutExpired as error:
            raise Refused(f"{what}: it took longer than {_PUSH_S:g} s.", hint="Type it again.") from error
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            wanted = [line for line in lines if "rejected" in line or line.startswith(("fatal:", "error:"))]
            detail = clean((wanted or lines or [f"exit code {done.returncode}"])[0]).strip()[:300].rstrip(".")
            raise Refused(f"{what}: {detail}.", hint="Nothing was pushed by force; look at it, then type it again.")
        return done.stdout.decode("utf-8", "replace").strip()


def _leads_elsewhere(name: str) -> bool:
    """Whether a variable would make git work in another repository."""
    return name in {
        "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR",
        "GIT_NAMESPACE", "GIT_PREFIX",
    }  # fmt: skip
