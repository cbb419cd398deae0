"""Which file systems cannot be trusted with locks and syncs (networks; FUSE file systems that stand for one)."""

from pathlib import Path

from watchkeeper.errors import DatabaseUnusable

NETWORK_FILESYSTEMS = frozenset(
    {
        "9p",
        "acfs",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "fhgfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "pvfs2",
        "smb2",
        "smb3",
        "smbfs",
        "vboxsf",
    }
)
"""Types in /proc/self/mountinfo. 9p is also how WSL shows the drives of Windows."""

NETWORK_FUSE = frozenset(
    {
        "sshfs",
        "glusterfs",
        "s3fs",
        "rclone",
        "gcsfuse",
        "goofys",
        "davfs",
        "davfs2",
        "curlftpfs",
        "ceph",
        "ceph-fuse",
        "juicefs",
        "mountpoint-s3",
        "gvfsd-fuse",
        "seaweedfs",
        "vmhgfs-fuse",
    }
)
"""Subtypes of FUSE: `fuse.sshfs` and the like."""

MOUNTINFO = Path("/proc/self/mountinfo")


def refuse_network_filesystem(path: Path, mountinfo: Path = MOUNTINFO) -> None:
    """Refuse a path on a network file system. Where the system does not tell (no /proc), nothing is refused.

    Raises:
        DatabaseUnusable: it is on one.
    """
    kind = filesystem_of(path, mountinfo)
    if kind is None:
        return
    family, _, subtype = kind.partition(".")
    if family in NETWORK_FILESYSTEMS or (family in {"fuse", "fuseblk"} and subtype in NETWORK_FUSE):
        raise DatabaseUnusable(
            f"'{path}' is on a network file system ({kind}), where locks cannot be trusted.",
            hint="Set WATCHKEEPER_HOME to a directory on a local disk.",
        )


def filesystem_of(path: Path, mountinfo: Path = MOUNTINFO) -> str | None:
    """The type of the file system that `path` is on or would be made on, as the mount table names it."""
    try:
        table = mountinfo.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    inside = f"{path.resolve()}/".replace("//", "/")
    best: tuple[int, str] | None = None
    for line in table.splitlines():
        left, _, right = line.partition(" - ")
        words, kind = left.split(" "), right.partition(" ")[0]
        if len(words) < 5 or not kind:  # the mount point is the fifth word (proc(5))
            continue
        mount = _unescape(words[4]).rstrip("/") + "/"
        # Of two mounts at one place the later one is seen.
        if inside.startswith(mount) and (best is None or len(mount) >= best[0]):
            best = (len(mount), kind)
    return None if best is None else best[1]


def _unescape(word: str) -> str:
    """The table writes space, tab, newline and backslash as octal numbers."""
    if "\\" not in word:
        return word
    for code, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        word = word.replace(code, plain)
    return word
