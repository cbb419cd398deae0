"""Working directories as JSON values."""

from watchkeeper.domain.working_directory import WorkingDirectory


def plain(place: WorkingDirectory) -> dict[str, object]:
    """One look at a working directory."""
    return {
        "path": place.path,
        "device": place.device,
        "inode": place.inode,
        "checkout": place.top,
        "branch": place.branch,
        "head": place.head,
        "unknown": place.unknown or None,
    }
