"""The agent begins in the directory that was approved, and with what its caller had; or it does not begin, and that is said."""

import ctypes
import errno
import json
import os
import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shim.stage import Bench, sh

from watchkeeper.domain.inheritance import Inheritance
from watchkeeper.runtimes import spec_parts
from watchkeeper.workspaces.identity import identify


def approved(path: Path) -> dict[str, Any]:
    """What the daemon writes about a working directory."""
    place = identify(str(path))
    assert place is not None
    return {"cwd": str(path), **spec_parts.working_directory(place)}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout that is on its first branch."""
    path = tmp_path / "project"
    subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
    return path


def anew(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()
    (path / ".git").mkdir()
    (path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


def linked(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(path.parent)


def switched(path: Path) -> None:
    subprocess.run(["git", "-C", str(path), "checkout", "-q", "-b", "other"], check=True)


def headless(path: Path) -> None:
    (path / ".git" / "HEAD").unlink()


@pytest.mark.parametrize(
    ("act", "step"), [(anew, "directory"), (linked, "directory"), (switched, "branch"), (headless, "branch")]
)
def test_no_agent_begins_elsewhere(bench: Bench, project: Path, act: Callable[[Path], None], step: str) -> None:
    """Whatever was changed after the last look of the daemon, an instant or a week before."""
    execution = bench.execution(sh("touch began"), **approved(project))
    act(project)
    assert execution.run() == 0
    exited = execution.record("exit.json")
    assert (exited["reason"], exited["step"], exited["errno"]) == ("spawn_failed", step, errno.ESTALE)
    assert exited["path"] == str(project)
    assert not list(project.parent.rglob("began"))


def test_it_begins_in_the_directory_that_was_approved(bench: Bench, project: Path, tmp_path: Path) -> None:
    """Through a symbolic link too, and in one that may be entered and not read."""
    link = tmp_path / "link"
    link.symlink_to(project)
    for cwd in (project, link):
        execution = bench.execution(sh("pwd -P"), **approved(cwd))
        assert execution.run() == 0
        assert execution.output().strip() == os.path.realpath(project)


def test_a_missing_directory_is_told_as_before(bench: Bench, project: Path) -> None:
    execution = bench.execution(sh("true"), **approved(project))
    shutil.rmtree(project)
    assert execution.run() == 0
    exited = execution.record("exit.json")
    assert (exited["step"], exited["errno"], exited["path"]) == ("chdir", errno.ENOENT, str(project))


SHOW = """
import json, os, resource
names = [name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE"]
print(json.dumps({
    "umask": os.umask(0), "nice": os.getpriority(os.PRIO_PROCESS, 0), "oom": int(open("/proc/self/oom_score_adj").read()),
    "limits": {name[7:].lower(): resource.getrlimit(getattr(resource, name)) for name in names},
}))
"""
ODD = {"cpu": (50, 60), "fsize": (1 << 20, 1 << 21), "nofile": (40, 50), "core": (0, 0), "stack": (1 << 20, 1 << 22), "as": (1 << 31, 1 << 32)}  # fmt: skip


def odd(**changes: Any) -> dict[str, Any]:
    """What the daemon writes about a caller with odd values."""
    limits = tuple((name, soft, hard) for name, (soft, hard) in ODD.items())
    values = {"umask": 0o037, "nice": 7, "oom_score_adj": 300, "limits": limits, **changes}
    return spec_parts.inherited(Inheritance(**values))  # pyright: ignore[reportArgumentType] - what each is


def shown(bench: Bench, spec: dict[str, Any], **options: Any) -> tuple[dict[str, Any], str]:
    from shim.stage import python

    execution = bench.execution(python(SHOW), **spec)
    assert execution.start(**options).wait(timeout=30) == 0
    assert execution.record("exit.json")["status"] == 0, execution.output("stderr.log")
    return json.loads(execution.output()), execution.complaints()


def test_it_has_what_its_caller_had(bench: Bench) -> None:
    """Umask, niceness, weight and limits, whatever the shim has itself."""
    found, complaints = shown(bench, odd())
    assert (found["umask"], found["nice"], found["oom"]) == (0o037, 7, 300)
    assert {name: tuple(found["limits"][name]) for name in ODD} == ODD
    assert complaints == ""


def _may_little() -> None:
    """In the shim, before it begins: low hard limits, and no right to raise them or the priority (where root has that)."""
    os.setpriority(os.PRIO_PROCESS, 0, 5)
    resource.setrlimit(resource.RLIMIT_NOFILE, (90, 100))
    libc = ctypes.CDLL(None)
    for capability in (23, 24):  # CAP_SYS_NICE, CAP_SYS_RESOURCE
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def test_what_it_cannot_have_is_said_and_fails_nothing(bench: Bench) -> None:
    """A limit never goes above the hard one, and a refused priority does not keep it from working."""
    spec = odd(umask=0o077, nice=-3, oom_score_adj=-20, limits=(("nofile", 500, 1000), ("core", 0, 0)))
    found, complaints = shown(bench, spec, preexec_fn=_may_little)
    assert (found["umask"], found["nice"], found["limits"]["nofile"]) == (0o077, 5, [100, 100])
    assert found["limits"]["core"] == [0, 0]
    for words in ("nice -3", "oom_score_adj -20", "the limit nofile 500, only 100"):
        assert f"The agent did not get {words}" in complaints


def test_limits_that_would_bind_the_shim_bind_the_agent_alone(bench: Bench) -> None:
    """Nothing may be written and next to nothing opened: the agent begins all the same, and its end is recorded."""
    limits = (("fsize", 0, 0), ("nofile", 6, 6), ("nproc", 0, 0))
    execution = bench.execution(sh("exit 4"), **odd(limits=limits))
    assert execution.run() == 0
    assert os.waitstatus_to_exitcode(execution.record("exit.json")["status"]) == 4
    assert execution.record("gone.json")["proof"] == "proven"
