"""Parts of `spec.json` that say what an agent inherits and where it works, as the shim reads them."""

from watchkeeper.domain.inheritance import Inheritance
from watchkeeper.domain.working_directory import WorkingDirectory


def inherited(inherits: Inheritance | None) -> dict[str, object]:
    """What the agent inherits, as its spec says it; nothing where it was not captured."""
    if inherits is None:
        return {}
    return {
        "umask": inherits.umask,
        "nice": inherits.nice,
        "oom_score_adj": inherits.oom_score_adj,
        "limits": {name: [soft, hard] for name, soft, hard in inherits.limits},
    }


def working_directory(place: WorkingDirectory | None) -> dict[str, object]:
    """Which directory the shim must enter, and what must be checked out there."""
    if place is None:
        return {}
    return {
        "cwd_boot": place.boot,
        "cwd_device": place.device,
        "cwd_inode": place.inode,
        "cwd_generation": place.generation,
        "head_file": place.head_file,
        "head": place.head_text,
    }
