"""Agents have what the shell had that handed their task over, and nothing of the user who started the daemon. With real processes."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.rig import Rig

from watchkeeper.domain.inheritance import Inheritance, unusual
from watchkeeper.environment import inherited

LOOK = "umask; nice; cat /proc/self/oom_score_adj; ulimit -S -t; ulimit -S -f; ulimit -S -n; ulimit -H -n; ulimit -S -c"


def odd() -> None:
    """What a caller may have: a closed umask, low priority, soft limits that would end a daemon."""
    os.umask(0o077)
    os.setpriority(os.PRIO_PROCESS, 0, 11)
    Path("/proc/self/oom_score_adj").write_text("700", encoding="ascii")
    for which, soft in ((resource.RLIMIT_CPU, 900), (resource.RLIMIT_FSIZE, 1 << 30), (resource.RLIMIT_NOFILE, 200)):
        resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def usual() -> None:
    """What most have."""
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
ODD = ["0077", "11", "700", "900", str((1 << 30) // 512), "200", str(HARD), "0"]


def call(rig: Rig, who: Callable[[], None], *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """One command of that caller; a daemon that it needs, it starts."""
    done = subprocess.run(
        [sys.executable, "-m", "watchkeeper", *arguments], env=rig.environment, cwd=rig.repo, preexec_fn=who,
        stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return done


def looked(rig: Rig, who: Callable[[], None]) -> list[str]:
    done = call(rig, who, "run", "--json", "--wait", "--", "sh", "-c", LOOK)
    task_id = json.loads(done.stdout.splitlines()[0])["id"]
    return rig.log(rig.runs(task_id)[-1]).decode().split()


def usual_answers() -> list[str]:
    done = subprocess.run(["sh", "-c", LOOK], preexec_fn=usual, capture_output=True, check=True)
    return done.stdout.decode().split()


@pytest.mark.parametrize("first", [odd, usual], ids=["an odd caller starts it", "a usual caller starts it"])
def test_an_agent_has_what_its_own_caller_had(rig: Rig, first: Callable[[], None]) -> None:
    """Whichever caller started the daemon, which itself has neither the limits nor the priority of an odd one."""
    _ = call(rig, first, "daemon", "start")
    daemon = json.loads((rig.state / "daemon.json").read_bytes())["pid"]
    try:
        assert looked(rig, odd) == ODD
        assert looked(rig, usual) == usual_answers()
        limits = {
            each.split("  ")[0]: each.split()[-3:-1] for each in Path(f"/proc/{daemon}/limits").read_text().splitlines()
        }
        assert limits["Max cpu time"][0] == "unlimited"
        assert limits["Max file size"][0] == "unlimited"
        if os.geteuid() == 0:  # others may not take their priority back
            assert os.getpriority(os.PRIO_PROCESS, daemon) == 0
            assert Path(f"/proc/{daemon}/oom_score_adj").read_text().strip() == "0"
    finally:
        _ = rig.wk("daemon", "stop", check=False)


def test_it_is_approved_shown_and_kept(rig: Rig) -> None:
    """What is unusual stands in `show`; a retry by another caller keeps it, and does not ask for the same rights again."""
    rig.keep_daemon()
    done = call(rig, odd, "run", "--json", "--wait", "--", "sh", "-c", LOOK)
    task_id = json.loads(done.stdout.splitlines()[0])["id"]
    shown = " ".join(rig.wk("show", task_id).stdout.decode().split())
    assert "inherits umask 077, nice 11, oom_score_adj 700, CPU time at most 900 s" in shown
    profile = json.loads(rig.wk("show", "--json", task_id).stdout)["authorisation"]["profile"]
    assert (profile["inherits"]["umask"], profile["inherits"]["nice"]) == ("077", 11)
    assert profile["inherits"]["limits"]["cpu"][0] == 900
    again = call(rig, usual, "retry", task_id)
    assert b"Sandbox" not in again.stderr
    assert rig.wk("wait", task_id, check=False).returncode == 0
    assert rig.log(rig.runs(task_id)[-1]).decode().split() == ODD


def _set_umask(umask: int) -> None:
    _ = os.umask(umask)


@pytest.mark.parametrize("umask", [0o000, 0o777, 0o277, 0o022], ids=oct)
def test_the_state_directory_is_ours_alone_under_any_umask(rig: Rig, umask: int) -> None:
    """With all that is missing above it. The agent gets the very umask."""
    above = rig.root / "above"
    rig.settings = {"WATCHKEEPER_HOME": str(above / "deep" / "state")}
    done = call(rig, partial(_set_umask, umask), "run", "--json", "--wait", "--", "sh", "-c", "umask")
    try:
        assert json.loads(done.stdout.splitlines()[-1])["state"] == "done"
        log = next((above / "deep" / "state" / "executions").glob("*/stdout.log"))
        assert int(log.read_text(), 8) == umask
        for path in (above, *above.rglob("*")):
            mode = path.lstat().st_mode & 0o777
            if path.is_dir():
                assert mode == 0o700, path
            elif path.is_file() and not path.is_symlink():
                assert mode & 0o677 == 0o600, path
    finally:
        _ = rig.wk("daemon", "stop", check=False)


def _hopeless() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    if os.geteuid() == 0:
        import ctypes

        ctypes.CDLL(None).prctl(24, 24, 0, 0, 0)  # the right to raise a hard limit is given up


def test_a_daemon_does_not_begin_what_would_end_it(rig: Rig) -> None:
    """Under a hard limit that would end it soon it says so at once; what was handed over waits for a daemon from elsewhere."""
    task_id = json.loads(rig.wk("add", "--json", "--", "true").stdout)["id"]
    _ = rig.wk("daemon", "stop", check=False)
    done = subprocess.run(
        [sys.executable, "-m", "watchkeeper", "daemon", "run"], env=rig.environment, cwd=rig.repo,
        preexec_fn=_hopeless, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert b"cannot work under the limits of this shell: CPU time (ulimit -t) 20" in done.stderr
    assert b"wk daemon start" in done.stderr
    rig.keep_daemon()
    assert rig.wk("wait", task_id, check=False).returncode == 0


def test_only_what_is_unusual_is_told() -> None:
    plain: dict[str, Any] = {"umask": 0o022, "nice": 0, "oom_score_adj": 0}
    usual_limits = (("core", 0, -1), ("nofile", 1024, 524288), ("cpu", -1, -1), ("nproc", 60000, 60000))
    assert unusual(Inheritance(limits=usual_limits, **plain)) == ""
    odd_limits = (("as", 4096, -1), ("fsize", 0, 0), ("nofile", 20, 20))
    said = unusual(Inheritance(limits=odd_limits, **plain | {"umask": 0o007, "nice": -1}))
    assert said == "umask 007, nice -1, memory at most 4096 bytes, file size at most 0 bytes, at most 20 open files"


def test_what_is_captured_is_what_this_process_has() -> None:
    was = os.umask(0o031)
    try:
        assert inherited().umask == 0o031
        assert inherited(0o007).umask == 0o007
    finally:
        _ = os.umask(was)
    limits = {name: (soft, hard) for name, soft, hard in inherited().limits}
    assert limits["nofile"] == resource.getrlimit(resource.RLIMIT_NOFILE)
    assert {"cpu", "fsize", "as", "core", "nproc", "stack", "memlock"} <= limits.keys()
