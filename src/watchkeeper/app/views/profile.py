"""Launch profiles as JSON values."""

from collections.abc import Sequence

from watchkeeper.domain.inheritance import UNLIMITED, Inheritance
from watchkeeper.domain.profile import LaunchProfile, line


def plain(profile: LaunchProfile) -> dict[str, object]:
    """A launch profile in full. Nothing in it is secret: what would be is refused at hand-over."""
    return {
        "fingerprint": profile.fingerprint,
        "line": line(profile),
        "harness": profile.harness,
        "program": profile.program or None,
        "program_version": profile.version,
        "machine": profile.machine or None,
        "account": profile.account,
        "home": profile.home or None,
        "model": profile.model,
        "rights": profile.rights.value,
        "permits": profile.permits,
        "reads": profile.reads,
        "network": profile.network,
        "sandbox": profile.sandbox,
        "isolation": profile.isolation or None,
        "host": profile.host or None,
        "host_source": profile.host_source or None,
        "options": dict(profile.options),
        "argv": list(profile.argv),
        "prompt_by": profile.prompt_by,
        "prompt_prefix": profile.prompt_prefix,
        "environment": dict(profile.environment),
        "grace_s": profile.grace_s,
        "log_limit_bytes": profile.log_limit_bytes,
        "inherits": None if profile.inherits is None else _inherits(profile.inherits),
    }


def agreed(detail: str, profile: LaunchProfile | None, not_passed: Sequence[str]) -> dict[str, object]:
    """What a person agreed on: the line that was shown, the profile (None: an older version kept none), and variables that the agent does not get."""
    return {
        "rights": detail,
        "program": None if profile is None else profile.program,
        "program_version": None if profile is None else profile.version,
        "host": (profile.host or None) if profile is not None else None,
        "host_source": (profile.host_source or None) if profile is not None else None,
        "profile": None if profile is None else plain(profile),
        "not_passed": list(not_passed),
    }


def _inherits(inherits: Inheritance) -> dict[str, object]:
    """Umask, niceness and limits; null means no limit."""
    limits = {
        name: [None if each == UNLIMITED else each for each in (soft, hard)] for name, soft, hard in inherits.limits
    }
    return {
        "umask": f"{inherits.umask:03o}",
        "nice": inherits.nice,
        "oom_score_adj": inherits.oom_score_adj,
        "limits": limits,
    }
