"""The state directory, the directory for sockets, captured environments."""

import os
import socket
import stat
from pathlib import Path

import pytest
from runtimes.stage import Script

from watchkeeper.domain.file_systems import file_system_of
from watchkeeper.errors import Refused, StateDirectoryUnusable
from watchkeeper.runtimes import sockets, state_directory
from watchkeeper.runtimes.environments import FileEnvironments
from watchkeeper.runtimes.inbox import DatagramInbox
from watchkeeper.runtimes.state_directory import StateDirectory, locate, refuse_network

MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:40 / /home rw,relatime shared:5 - nfs4 server:/home rw,vers=4.2
31 30 254:1 / /home/me/local\\040disk rw,relatime - xfs /dev/vdb rw
32 27 0:41 / /mnt/c rw,noatime - 9p drvfs rw
33 27 0:42 / /mnt/ssh rw - fuse.sshfs me@host:/ rw
34 27 0:43 / /mnt/portal rw - fuse.portal portal rw
35 27 0:44 / /covered rw - nfs server:/x rw
36 27 254:2 / /covered rw - ext4 /dev/vdc rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/home", "nfs4"),
        ("/home/me", "nfs4"),
        ("/homestead", "ext4"),
        ("/home/me/local disk/x", "xfs"),
        ("/mnt/c/Users", "9p"),
        ("/mnt/ssh", "fuse.sshfs"),
        ("/covered/x", "ext4"),
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str) -> None:
    """The deepest mount counts, of two at one place the later, and a name is not a prefix."""
    assert file_system_of(path, MOUNTS) == kind


@pytest.mark.parametrize("path", ["/home/me/x", "/mnt/c/x", "/mnt/ssh/x"])
def test_network_file_systems_are_refused(path: str) -> None:
    """In one sentence that names it, with a way out."""
    with pytest.raises(StateDirectoryUnusable, match="network file system") as caught:
        refuse_network(Path(path), MOUNTS)
    assert "WATCHKEEPER_HOME" in caught.value.hint
    for local in ("/var", "/home/me/local disk", "/mnt/portal", "/covered"):
        refuse_network(Path(local), MOUNTS)


def test_a_state_directory_is_made_and_closed(tmp_path: Path) -> None:
    """With its folders, for no other user; opening it again changes nothing."""
    path = tmp_path / "a" / "b"
    opened = StateDirectory.open(path, create=True)
    assert opened.path == path
    for made in (path, opened.executions, opened.environments, opened.shims):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    path.chmod(0o755)
    StateDirectory.open(path, create=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    StateDirectory.open(path, create=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    names = {p.name for p in (opened.database, opened.write_lock, opened.daemon_log)}
    assert names == {"wk.db", "write.lock", "daemon.log"}


def test_looking_makes_nothing(tmp_path: Path) -> None:
    """A read that finds no state directory says so."""
    with pytest.raises(StateDirectoryUnusable, match="cannot be used"):
        StateDirectory.open(tmp_path / "none", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_node_has_one_id_for_ever(tmp_path: Path) -> None:
    """Made once; a damaged one is not replaced."""
    opened = StateDirectory.open(tmp_path / "s", create=True)
    node = opened.node()
    assert StateDirectory.open(tmp_path / "s", create=False).node() == node
    assert StateDirectory.open(tmp_path / "t", create=True).node() != node
    opened.node_file.write_text("half")
    with pytest.raises(StateDirectoryUnusable, match="damaged"):
        opened.node()


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    """A file, or a symlink that leads nowhere."""
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("file", "file/below", "dangling"):
        with pytest.raises(StateDirectoryUnusable):
            StateDirectory.open(tmp_path / name, create=True)


def test_our_own_symlink_is_fine(tmp_path: Path) -> None:
    """People move their state to a larger disk."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert StateDirectory.open(tmp_path / "link", create=True).node()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_another_users_directory_is_refused(tmp_path: Path) -> None:
    """Also for root, and also behind a symlink; it is neither closed nor written to."""
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    os.chown(theirs, 4711, 4711)
    with pytest.raises(StateDirectoryUnusable, match="4711"):
        StateDirectory.open(theirs, create=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    os.lchown(tmp_path / "link", 4711, 4711)
    with pytest.raises(StateDirectoryUnusable, match="symlink"):
        StateDirectory.open(tmp_path / "link", create=True)
    assert list(theirs.iterdir()) == []
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o755


def test_without_room_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But what is there can be read, and ended."""
    StateDirectory.open(tmp_path / "s", create=True).require_room()
    monkeypatch.setattr(state_directory, "LEAST_FREE_BYTES", 1 << 62)
    with pytest.raises(StateDirectoryUnusable, match="no room"):
        StateDirectory.open(tmp_path / "s", create=True).require_room()
    StateDirectory.open(tmp_path / "s", create=True)


def test_where_the_state_directory_is() -> None:
    """The first of three that is set."""
    everything = {"WATCHKEEPER_HOME": "/w", "XDG_STATE_HOME": "/x", "HOME": "/h"}
    assert locate(everything) == Path("/w")
    assert locate(everything | {"WATCHKEEPER_HOME": ""}) == Path("/x/watchkeeper")
    assert locate({"XDG_STATE_HOME": "relative", "HOME": "/h"}) == Path("/h/.local/state/watchkeeper")
    with pytest.raises(StateDirectoryUnusable):
        locate({})


@pytest.mark.parametrize("name", ["short", "long-name" * 25, "\udcff\n'\"?#% \u00fc"], ids=["short", "long", "odd"])
def test_a_socket_is_reached_whatever_the_path_of_the_state(tmp_path: Path, name: str) -> None:
    """Longer than the room of an address, not UTF-8, with a line break: what is sent comes to the inbox that is bound there."""
    state = tmp_path / name
    directory = sockets.socket_directory(state)
    directory.mkdir(mode=0o700, parents=True)
    address = directory / "wake.sock"
    inbox = DatagramInbox(address)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out, sockets.reach(address) as short:
            out.sendto(b"look", short)
        assert inbox.read() == ["look"] and inbox.is_reachable()
        assert address.parent == state / "sockets"
    finally:
        inbox.close()
    assert not address.exists()
    assert sockets.control_socket(Path("/d"), "x" * 200) != sockets.control_socket(Path("/d"), "x" * 201)


def test_nothing_is_sent_where_another_user_could_listen(tmp_path: Path) -> None:
    """A directory that others may write to, one that is a symlink, one of another user."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "ours").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    (tmp_path / "theirs").mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(tmp_path / "theirs", 4711, 4711)
    for name in ["open", "link", "missing"] + ["theirs"] * (os.geteuid() == 0):
        with pytest.raises(OSError, match=r"."), sockets.reach(tmp_path / name / "wake.sock"):
            pass


def test_an_inbox_minds_only_its_own_address(tmp_path: Path) -> None:
    """Another daemon has bound there since: the first notices, and takes nothing away when it closes."""
    first = DatagramInbox(tmp_path / "wake.sock")
    second = DatagramInbox(tmp_path / "wake.sock")
    assert (first.is_reachable(), second.is_reachable()) == (False, True)
    first.close()
    assert second.is_reachable()
    second.close()


def test_a_socket_directory_that_is_not_ours_alone_is_refused(tmp_path: Path) -> None:
    """Open to others, a file, a symlink, another user's: another user who can get in can listen in our place."""
    sockets.ensure_socket_directory(tmp_path / "ours")
    sockets.ensure_socket_directory(tmp_path / "ours")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == 0o700
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o750)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    (tmp_path / "theirs").mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(tmp_path / "theirs", 4711, 4711)
    names = ["open", "file", "link", "file/below"] + ["theirs"] * (os.geteuid() == 0)
    for name in names:
        with pytest.raises(StateDirectoryUnusable):
            sockets.ensure_socket_directory(tmp_path / name)


def test_environments_are_kept_for_their_owner_only(tmp_path: Path) -> None:
    """0600 in 0700, replaced whole, read back exactly, forgotten."""
    kept = FileEnvironments(tmp_path / "environments")
    assert (kept.ids(), kept.get("a")) == ([], None)
    kept.keep("a", {"KEY": "secret\n", "ODD": "\udcff"})
    assert kept.get("a") == {"KEY": "secret\n", "ODD": "\udcff"}
    assert stat.S_IMODE((tmp_path / "environments").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "environments" / "a.json").stat().st_mode) == 0o600
    kept.keep("a", {})
    kept.keep("b", {"X": "1"})
    assert (kept.get("a"), kept.ids()) == ({}, ["a", "b"])
    kept.forget("a")
    kept.forget("a")
    assert (kept.get("a"), kept.ids()) == (None, ["b"])


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"A": 1}'])
def test_a_damaged_environment_is_not_guessed(tmp_path: Path, content: bytes) -> None:
    """Half an environment would start an agent without its key."""
    kept = FileEnvironments(tmp_path)
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(OSError, match="damaged"):
        kept.get("a")


def test_environment_ids_cannot_point_elsewhere(tmp_path: Path) -> None:
    """Refused before anything is touched."""
    kept = FileEnvironments(tmp_path / "e")
    for name in ("", "../x", "a/b", ".", "a.json"):
        with pytest.raises(Refused):
            kept.keep(name, {})
        with pytest.raises(Refused):
            kept.forget(name)


def test_a_half_written_secret_can_be_forgotten(script: Script, tmp_path: Path) -> None:
    """A crash while keeping leaves the old one or the new one, and nothing that `forget` misses."""
    code = """
import sys
from pathlib import Path
from watchkeeper.runtimes.environments import FileEnvironments
FileEnvironments(Path(sys.argv[1])).keep("a", {"NEW": "1"})
"""
    for step in ("write.before", "write.after", "rename.before", "rename.after", "sync.after"):
        root = tmp_path / step
        kept = FileEnvironments(root)
        kept.keep("a", {"OLD": "1"})
        assert script(code, str(root), WATCHKEEPER_CRASH_AT=f"environments.keep.{step}").returncode == -9
        assert kept.get("a") == ({"NEW": "1"} if step in {"rename.after", "sync.after"} else {"OLD": "1"})
        assert kept.ids() == ["a"]
        kept.forget("a")
        assert list(root.iterdir()) == []
