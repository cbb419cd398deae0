"""The approval that a person gives by handing a task over, editing it, or running it again."""

from datetime import datetime

from watchkeeper.domain.model import Task
from watchkeeper.domain.profile import LaunchProfile, line
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.ports.store import Authorisation


def approval(
    approval_id: str,
    task: Task,
    profile: LaunchProfile | None,
    *,
    by: str,
    at: datetime,
    place: WorkingDirectory | None,
) -> Authorisation:
    """A person's one-shot approval of a launch profile for a task, with the line that was shown; None: an older version kept no profile."""
    return Authorisation(
        id=approval_id,
        task_id=task.id,
        kind="person",
        by=by,
        detail=line(profile) if profile is not None else "",
        at=at,
        profile=profile,
        directory=task.spec.handed_over_in,
        place=place,
    )
