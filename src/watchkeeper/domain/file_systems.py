"""Which file systems are reached over a network or through another system. Locks and syncs cannot be trusted there."""

NETWORK = frozenset({
    "9p", "acfs", "afs", "autofs", "beegfs", "ceph", "ceph-fuse", "cifs", "coda", "curlftpfs", "davfs", "davfs2", "fhgfs", "gcsfuse", "gfs",
    "gfs2", "glusterfs", "goofys", "gpfs", "gvfsd-fuse", "juicefs", "lustre", "moosefs", "mountpoint-s3", "ncpfs", "nfs", "nfs4", "ocfs2",
    "orangefs", "pvfs2", "rclone", "s3fs", "s3ql", "seaweedfs", "smb2", "smb3", "smbfs", "smbnetfs", "sshfs", "vboxsf", "vmhgfs-fuse",
})  # fmt: skip
"""Types as the mount table names them, with or without `fuse.` before them. 9p is also how WSL shows the drives of Windows."""

_ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))
"""How the mount table writes these characters."""


def is_network(kind: str) -> bool:
    """Whether a type of file system, such as `nfs4` or `fuse.sshfs`, is a network file system."""
    return kind.removeprefix("fuse.").removeprefix("fuseblk.") in NETWORK


def file_system_of(path: str, mountinfo: str) -> str:
    """The type of the file system that an absolute path without symlinks is on, from the text of `/proc/self/mountinfo`; "" if no mount holds it."""
    longest, found = 0, ""
    inside = f"{path}/".replace("//", "/")
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        words, kind = left.split(" "), right.partition(" ")[0]
        if len(words) < 5 or not kind:  # the mount point is the fifth word (proc(5))
            continue
        mount = _unescape(words[4]).rstrip("/") + "/"
        # Of two mounts at one place the later one covers the earlier one.
        if inside.startswith(mount) and len(mount) >= longest:
            longest, found = len(mount), kind
    return found


def _unescape(word: str) -> str:
    if "\\" in word:
        for code, character in _ESCAPES:
            word = word.replace(code, character)
    return word
