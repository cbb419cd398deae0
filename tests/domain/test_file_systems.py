"""Which file system a path is on, and whether it is a network file system."""

import pytest

from watchkeeper.domain.file_systems import NETWORK, file_system_of, is_network

MOUNTS = r"""
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:5 / /home rw - nfs4 server:/home rw
24 23 8:2 / /home/local rw - btrfs /dev/sdb rw
25 22 0:6 / /mnt/my\040share rw shared:1 - cifs //server/share rw
26 22 0:7 / /mnt/c rw - 9p drvfs rw
27 22 0:8 / /mnt/ssh rw - fuse.sshfs host: rw
28 22 0:9 / /mnt/ntfs rw - fuseblk /dev/sdc rw
29 22 0:10 / /over rw - nfs x rw
30 22 0:11 / /over rw - tmpfs x rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [("/var/x", "ext4", False), ("/home/me/x", "nfs4", True), ("/home/local/x", "btrfs", False), ("/homes", "ext4", False),
     ("/mnt/my share/x", "cifs", True), ("/mnt/c/Users", "9p", True), ("/mnt/ssh", "fuse.sshfs", True),
     ("/mnt/ntfs/x", "fuseblk", False), ("/over/x", "tmpfs", False)],
)  # fmt: skip
def test_the_mount_table_tells_the_file_system_of_a_path(path: str, kind: str, network: bool) -> None:
    assert file_system_of(path, MOUNTS) == kind
    assert is_network(kind) is network


def test_a_path_without_a_mount_has_no_file_system() -> None:
    assert file_system_of("/x", "nonsense\n1 2 3 - nfs\n") == ""
    assert not is_network("")


def test_each_network_file_system_is_known_with_and_without_fuse() -> None:
    assert all(is_network(kind) and is_network(f"fuse.{kind}") for kind in NETWORK)
    assert not any(is_network(kind) for kind in ("ext4", "fuse", "fuseblk", "fuse.ntfs-3g", "overlay", "tmpfs"))
