"""Push a task's branch and ask for its merge on a forge.

    refuse what would be left out ─▶ TX pushing ─▶ git push (no force) ─▶ TX pushed ─▶ the forge's own program, or the command to type

Both steps are on record before and after they are done. Pushing the same commit again changes nothing, and a forge refuses a second request for a branch, so
typing it again after a crash is harmless.
"""

from collections.abc import Callable
from dataclasses import dataclass

from watchkeeper.app.merge import Merger
from watchkeeper.domain.forge import forge_of, request_command, shown
from watchkeeper.domain.merge import SHORT
from watchkeeper.ports.pushing import Pusher
from watchkeeper.ports.store import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestOrder:
    """Which task's branch, and what the request says."""

    task_id: str
    by: str
    into: str | None = None
    """The branch that is to get the commits; None: the one that the task's branch started at."""
    remote: str | None = None
    title: str | None = None
    """None: the task's."""
    only_print: bool = False
    """Push nothing and run nothing; only say which commands would."""
    message: str | None = None
    """Commit first what is not committed, with this message; None: refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """What came of it."""

    task_id: str
    branch: str
    into: str
    commit: str
    remote: str
    url: str
    """The remote's address, without a secret."""
    pushed: bool
    command: tuple[str, ...]
    """The command that opens the request; empty: the remote is not on a forge that is known."""
    answer: str | None
    """What the forge's program printed; None: it was not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """Pushes branches and asks for their merges."""

    merger: Merger
    pusher: Pusher
    on_step: Callable[[str], None] = lambda _: None

    def request(self, order: PullRequestOrder) -> PullRequest:
        """Push and ask.

        Raises:
            NoSuchTask: there is no such task.
            Refused: with the reason.
        """
        task, tree, target, source = self.merger.ready(order.task_id, order.into, order.message)
        remote = self.pusher.remote(tree, order.remote, target.branch)
        url, forge = shown(remote.url), forge_of(remote.url)
        title = (order.title or task.spec.title).strip() or f"Task {task.id}"
        body = f"The work of task {task.id}, commit {source[:SHORT]}."
        command = (
            ()
            if forge is None
            else request_command(forge, branch=tree.branch, into=target.branch, title=title, body=body)
        )
        answer: str | None = None
        if not order.only_print:
            facts: dict[str, object] = {
                "by": order.by,
                "branch": tree.branch,
                "commit": source,
                "remote": remote.name,
                "url": url,
            }
            self._note_push(task.id, facts, done=False)
            self.on_step(f"Pushes {tree.branch} to {url}.")
            self.pusher.push(tree, remote, source)
            self._note_push(task.id, facts, done=True)
            if command and self.pusher.program(command[0]) is not None:
                self._note_request(task.id, facts | {"program": command[0]}, done=False)
                self.on_step(f"Runs {command[0]}, which opens the request.")
                answer = self.pusher.ask_forge(command)
                self._note_request(task.id, facts | {"program": command[0], "answer": answer[:500]}, done=True)
        return PullRequest(
            task_id=task.id,
            branch=tree.branch,
            into=target.branch,
            commit=source,
            remote=remote.name,
            url=url,
            pushed=not order.only_print,
            command=command,
            answer=answer,
        )

    def _note_push(self, task_id: str, facts: dict[str, object], *, done: bool) -> None:
        def work(tx: Tx) -> None:
            at = self.merger.clock.now()
            _ = tx.journal.append("task.pushed" if done else "task.pushing", at, task_id=task_id, data=facts)

        self.merger.store.transact("pr_pushed" if done else "pr_pushing", work)

    def _note_request(self, task_id: str, facts: dict[str, object], *, done: bool) -> None:
        def work(tx: Tx) -> None:
            at = self.merger.clock.now()
            _ = tx.journal.append(
                "task.request_opened" if done else "task.request_asked", at, task_id=task_id, data=facts
            )

        self.merger.store.transact("pr_opened" if done else "pr_asked", work)
