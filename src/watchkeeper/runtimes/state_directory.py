"""The state directory: where everything is kept, and whether that is a place where it can be kept.

It must be ours alone, on a local file system, and take files. Network file systems are refused: neither SQLite's locks nor ours can be trusted there.
"""

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from watchkeeper.domain.file_systems import file_system_of, is_network
from watchkeeper.errors import StateDirectoryUnusable, describe_os_error
from watchkeeper.runtimes import atomic

LEAST_FREE_BYTES = 16 * 1024 * 1024
"""With less room than this nothing is begun."""

_NODE_LENGTH = 32
HOME = "WATCHKEEPER_HOME"
"""The variable that says where the state directory is."""

_HOME_HINT = "Set WATCHKEEPER_HOME to a directory of yours on a local disk."


# A named tuple, as in `settings`: every command waits for the class.
class StateDirectory(NamedTuple):
    """The paths in a state directory that was checked."""

    path: Path

    @property
    def database(self) -> Path:
        """The SQLite database."""
        return self.path / "wk.db"

    @property
    def write_lock(self) -> Path:
        """The lock file that writers queue at."""
        return self.path / "write.lock"

    @property
    def executions(self) -> Path:
        """The execution directories."""
        return self.path / "executions"

    @property
    def environments(self) -> Path:
        """The captured environments."""
        return self.path / "environments"

    @property
    def shims(self) -> Path:
        """The installed shim programs."""
        return self.path / "shims"

    @property
    def daemon_log(self) -> Path:
        """What the daemon says."""
        return self.path / "daemon.log"

    @property
    def node_file(self) -> Path:
        """The file with the node's id."""
        return self.path / "node"

    @classmethod
    def open(cls, path: Path, *, create: bool) -> Self:
        """Check a state directory; with `create` make what is missing and close it to others, without it change nothing.

        Raises:
            StateDirectoryUnusable: what is wrong with it, in a sentence, and what to do.
        """
        path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would hide that it is a symlink
        _refuse_unspeakable(path)
        try:
            refuse_network(_existing(path))
            if create:
                atomic.make_directory(path)
            _check_owner(path, create=create)
            if create:
                _check_writable(path)
                for name in ("executions", "environments", "shims"):
                    (path / name).mkdir(mode=atomic.DIRECTORY_MODE, exist_ok=True)
                atomic.sync_directory(path.resolve())
        except OSError as error:
            msg = f"The state directory {path} cannot be used: {describe_os_error(error)}."
            raise StateDirectoryUnusable(msg, hint=_HOME_HINT) from error
        return cls(path=path)

    @property
    def damage_file(self) -> Path:
        """Where the daemon says that the database as a whole is damaged: it may be that nothing can be written into it."""
        return self.path / "database.damaged"

    def report_damage(self, detail: str) -> None:
        """Say what is wrong with the database; empty: nothing is any more. Raises OSError."""
        if detail:
            with atomic.directory(self.path.resolve()) as fd:
                atomic.replace(fd, self.damage_file.name, f"{detail}\n".encode("utf-8", "replace"), point="damage")
        else:
            self.damage_file.unlink(missing_ok=True)

    def damage(self) -> str:
        """What the daemon last said of that; empty: nothing. Raises OSError."""
        try:
            with atomic.directory(self.path.resolve()) as fd:
                return atomic.read_limited(fd, self.damage_file.name, 4096).decode("utf-8", "replace").strip()
        except FileNotFoundError:
            return ""

    def require_room(self) -> None:
        """Refuse to begin something new where there is next to no room left; what ends something is never refused. Raises StateDirectoryUnusable, OSError."""
        room = os.statvfs(self.path)
        if room.f_bavail * room.f_frsize < LEAST_FREE_BYTES:
            msg = f"There is no room left where the state directory {self.path} is."
            raise StateDirectoryUnusable(msg, hint="Free some space, then type it again.")

    def keep_spare(self) -> bool:
        """Set room aside for what has to be written on a full disk; False if there is too little. Raises OSError."""
        from watchkeeper.runtimes import spare  # noqa: PLC0415 - most commands only read

        return spare.keep(self.path, least_free=LEAST_FREE_BYTES)

    def release_spare(self) -> bool:
        """Give that room back, to end something; True if there was some. Raises OSError."""
        from watchkeeper.runtimes import spare  # noqa: PLC0415 - as above

        return spare.release(self.path)

    def identity(self) -> str:
        """Which directory of this host it is, so that a copy of it can be distinguished. Raises OSError."""
        found = self.path.stat()
        return f"{found.st_dev:x}-{found.st_ino:x}"

    def known_node(self) -> str | None:
        """The id of this state directory if it has one yet. Raises as `node` does."""
        return self.node() if self.node_file.exists() else None

    def node(self) -> str:
        """The random id of this state directory, made once. Raises StateDirectoryUnusable, OSError."""
        with atomic.directory(self.path.resolve()) as fd:
            if not self.node_file.exists():
                atomic.publish(
                    fd, self.node_file.name, os.urandom(_NODE_LENGTH // 2).hex().encode() + b"\n", point="node"
                )
            node = atomic.read_limited(fd, self.node_file.name, 4096).decode("ascii", "replace").strip()
        if len(node) != _NODE_LENGTH or not set(node) <= set("0123456789abcdef"):
            msg = f"{self.node_file} is damaged: it does not hold the id of this state directory."
            raise StateDirectoryUnusable(msg, hint="Restore it from a backup, or delete it if no task is running.")
        return node


def locate(environment: Mapping[str, str]) -> Path:
    """Where the state directory is: $WATCHKEEPER_HOME, else $XDG_STATE_HOME/watchkeeper, else ~/.local/state/watchkeeper.

    Raises:
        StateDirectoryUnusable: none of the three can be told.
    """
    own = environment.get(HOME)
    if own:
        return Path(own).expanduser().absolute()
    state = environment.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return Path(state) / "watchkeeper"
    home = environment.get("HOME", "")
    if home.startswith("/"):
        return Path(home) / ".local" / "state" / "watchkeeper"
    msg = "There is no place for the state directory: neither WATCHKEEPER_HOME nor HOME is set."
    raise StateDirectoryUnusable(msg, hint=_HOME_HINT)


def is_usual(path: Path, environment: Mapping[str, str]) -> bool:
    """Whether a state directory is where it is when WATCHKEEPER_HOME says nothing."""
    with contextlib.suppress(StateDirectoryUnusable):
        return path == locate({name: value for name, value in environment.items() if name != HOME})
    return False


def refuse_network(path: Path, mountinfo: str | None = None) -> None:
    """Raise StateDirectoryUnusable if an existing path is on a network file system. Raises OSError."""
    if mountinfo is None:
        mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    kind = file_system_of(str(path.resolve()), mountinfo)
    if is_network(kind):
        msg = f"{path} is on a network file system ({kind}), where locks cannot be trusted."
        raise StateDirectoryUnusable(msg, hint=_HOME_HINT)


def _refuse_unspeakable(path: Path) -> None:
    try:
        _ = str(path).encode("utf-8")
    except UnicodeEncodeError:
        shown = str(path).encode("utf-8", "replace").decode()
        msg = f"The path of the state directory, '{shown}', is not UTF-8, and SQLite opens no other path."
        raise StateDirectoryUnusable(msg, hint="Set WATCHKEEPER_HOME to a path of plain letters.") from None


def _existing(path: Path) -> Path:
    """The path, or its nearest parent that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _check_owner(path: Path, *, create: bool) -> None:
    uid = os.geteuid()
    link = path.lstat()
    found = path.stat()
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in {uid, 0}:
        msg = f"The state directory {path} is a symlink that belongs to another user."
        raise StateDirectoryUnusable(msg, hint=_HOME_HINT)
    if not stat.S_ISDIR(found.st_mode):
        msg = f"The state directory {path} is not a directory."
        raise StateDirectoryUnusable(msg, hint=_HOME_HINT)
    if found.st_uid != uid:
        msg = f"The state directory {path} belongs to another user (uid {found.st_uid})."
        raise StateDirectoryUnusable(
            msg, hint="Run `wk` as that user, or set WATCHKEEPER_HOME to a directory of yours."
        )
    if create and stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(atomic.DIRECTORY_MODE)


def _check_writable(path: Path) -> None:
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        msg = f"The state directory {path} cannot be written to."
        raise StateDirectoryUnusable(
            msg, hint=f"`chmod u+rwx {path}`, or set WATCHKEEPER_HOME to a directory that can."
        )
