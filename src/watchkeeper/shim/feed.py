"""Standard input that stays open: a queue of messages that go into a pipe as it has room.

A message with an id that is known is not written twice; another one under its id is refused.
"""

import os
import select

# Not `hashlib`, which loads OpenSSL: several megabytes for a shim that often lives for days. Not later, when the Python that we were
# started from may be gone.
from _blake2 import blake2b

from . import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .control import Client

Reply = dict[str, object]

_MOST_WAITING = 16 * 1024 * 1024
_DONE: Reply = {"ok": True}
_OTHER: Reply = {"ok": False, "error": "another message was accepted under this id: nothing was written"}
_LOST: Reply = {"ok": False, "error": "the agent's input was closed before all of it was written"}


class Message:
    """Bytes on their way, and who wants to know when they are in the pipe."""

    def __init__(self, message_id: str | None, data: bytes) -> None:
        """The prompt has no id."""
        self.id = message_id
        self.left = memoryview(data)
        self.asked: list[Client] = []


class Feed:
    """The agent's input pipe, seen from our end."""

    def __init__(self, directory: int, fd: int, first: bytes, poll: "select.poll") -> None:
        """`first` is the prompt, if it goes this way."""
        self._directory = directory
        self._fd = fd
        self._poll = poll
        self._watched = False
        self._waiting: list[Message] = [Message(None, first)] if first else []
        self._known: dict[str, str] = {}
        """Ids that were accepted, in order, each with the digest of its message."""
        self._closing = False

    def owns(self, fd: int) -> bool:
        """Whether a descriptor is the pipe's."""
        return fd == self._fd

    def add(self, client: "Client", message_id: str, data: bytes) -> Reply | None:
        """Queue a message; returns what to answer, or None if the answer comes when it is in the pipe."""
        digest = _digest(data)
        if message_id in self._known:
            return self._answer_again(client, message_id) if self._known[message_id] == digest else _OTHER
        if self._fd < 0 or self._closing:
            return {"ok": False, "error": "the agent's input is closed"}
        if sum(len(message.left) for message in self._waiting) + len(data) > _MOST_WAITING:
            return {"ok": False, "error": "the agent does not read what it is given: too much is waiting already"}
        try:
            # Before the first byte: an id that is not on record was never written.
            known = {**self._known, message_id: digest}
            records.write(self._directory, "input.json", {"ids": list(known), "digests": known})
        except OSError as problem:
            return {"ok": False, "error": f"the message cannot be recorded: {problem.strerror}"}
        self._known = known
        if data:
            self._waiting.append(Message(message_id, data))
        self.write()
        if message_id not in self._known:
            return _LOST
        return self._answer_again(client, message_id)

    def _answer_again(self, client: "Client", message_id: str) -> Reply | None:
        for message in self._waiting:
            if message.id == message_id:
                message.asked.append(client)
                return None
        return _DONE

    def write(self) -> None:
        """Write what fits, and wait for room only while there is something left."""
        try:
            while self._waiting and self._fd >= 0:
                message = self._waiting[0]
                message.left = message.left[os.write(self._fd, message.left) :]
                if not message.left:
                    del self._waiting[0]
                    for client in message.asked:
                        client.reply(_DONE)
        except BlockingIOError:
            pass
        except OSError:
            self.shut()
            return
        if self._closing and not self._waiting:
            self.shut()
        self._watch(wanted=bool(self._waiting))

    def _watch(self, *, wanted: bool) -> None:
        if wanted is not self._watched:
            if wanted:
                self._poll.register(self._fd, select.POLLOUT)
            else:
                self._poll.unregister(self._fd)
            self._watched = wanted

    def close(self) -> None:
        """No more is to come: the pipe is closed when all is written."""
        self._closing = True
        self.write()

    def shut(self) -> None:
        """Close the pipe now; what has not been written never will be."""
        # Unregistered before it is closed: the number may be another's in a moment.
        self._watch(wanted=False)
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        lost, self._waiting = self._waiting, []
        for message in lost:
            if message.id is not None:
                _ = self._known.pop(message.id, None)
            for client in message.asked:
                client.reply(_LOST)


def _digest(data: bytes) -> str:
    """What tells one message from another."""
    digest: str = blake2b(data, digest_size=16).hexdigest()
    return digest
