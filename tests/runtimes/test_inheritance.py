"""What a daemon puts off of what it inherited. Each case is a process of its own, because limits and niceness cannot always be taken back."""

import json

import pytest
from runtimes.stage import Script

TRIES = """
import json, os, resource, sys
from pathlib import Path
from watchkeeper.runtimes import inheritance
INFINITE, MIB = resource.RLIM_INFINITY, 1024 * 1024
told = {}
exec(sys.argv[1])
print(json.dumps(told))
"""


def run(script: Script, code: str) -> dict[str, object]:
    done = script(TRIES, code)
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(done.stdout)
    return told


def test_limits_are_raised(script: Script) -> None:
    """All that could end a daemon, as far as the system lets it; files to the hard limit, and the former limit is in the answer."""
    told = run(
        script,
        """
names = ("CPU", "FSIZE", "DATA", "NPROC", "MEMLOCK", "CORE")
numbers = {name: getattr(resource, f"RLIMIT_{name}") for name in names}
hard = {name: resource.getrlimit(number)[1] for name, number in numbers.items()}
for name, number in numbers.items():
    resource.setrlimit(number, (1 << 16 if name in {"CPU", "NPROC", "MEMLOCK"} else 1 << 30, hard[name]))
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
told["own"] = inheritance.put_off(priority=False)
told["now"] = {name: resource.getrlimit(number) for name, number in numbers.items()}
told["files"] = resource.getrlimit(resource.RLIMIT_NOFILE)
told["raised"] = {name: INFINITE if os.geteuid() == 0 and resource.getrlimit(number)[1] == INFINITE else hard[name] for name, number in numbers.items()}
""",
    )
    own, now, raised = told["own"], told["now"], told["raised"]
    assert isinstance(own, list) and isinstance(now, dict) and isinstance(raised, dict)
    assert (own[0], own[2], told["files"]) == (100, [], [200, 200])
    assert now.pop("CORE")[0] == 1 << 30, "which ends no daemon"
    assert now == {name: [raised[name]] * 2 for name in now}


def test_what_the_system_refuses_is_told(script: Script) -> None:
    """As far as it matters to a daemon, and apart if it cannot work with that; each is raised as far as it goes."""
    told = run(
        script,
        """
limits = {name: (10, 2000) for name in (resource.RLIMIT_CPU, resource.RLIMIT_NPROC)} | {
    resource.RLIMIT_FSIZE: (1, 63 * MIB), resource.RLIMIT_DATA: (1, 512 * MIB), resource.RLIMIT_NOFILE: (64, 128)}
resource.getrlimit = lambda number: limits.get(number, (INFINITE, INFINITE))
def setrlimit(number, wanted):
    if wanted[1] > limits.get(number, (INFINITE, INFINITE))[1] or (wanted[1] == INFINITE and number in limits):
        raise ValueError("not allowed to raise maximum limit")
    limits[number] = wanted
resource.setrlimit = setrlimit
told["own"] = inheritance.put_off(priority=False)
told["limits"] = [limits[each] for each in (resource.RLIMIT_CPU, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_DATA, resource.RLIMIT_NOFILE)]
""",
    )
    mib = 1024 * 1024
    cpu, size, data = "CPU time (ulimit -t) 2000", f"file size (ulimit -f) {63 * mib}", f"data (ulimit -d) {512 * mib}"
    assert told["own"] == [64, [cpu, size, data], [size]]
    assert told["limits"] == [[each, each] for each in (2000, 2000, 63 * mib, 512 * mib, 128)]


def test_a_daemon_takes_the_usual_priority(script: Script) -> None:
    """If a command started it; a person who starts it may have chosen another."""
    told = run(
        script,
        """
own = Path("/proc/self/oom_score_adj")
before = int(own.read_text())
os.setpriority(os.PRIO_PROCESS, 0, 7)
try:
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    os.setpriority(os.PRIO_PROCESS, 0, 7)
    told["able"] = before == 0
except PermissionError:
    told["able"] = False
own.write_text(str(before + 1))
told["kept"] = inheritance.put_off(priority=False).kept
told["chosen"] = os.getpriority(os.PRIO_PROCESS, 0), int(own.read_text()) - before
told["own"] = inheritance.put_off(priority=True).kept
told["usual"] = os.getpriority(os.PRIO_PROCESS, 0), int(own.read_text())
""",
    )
    if not told["able"]:
        pytest.skip("the system lets this user lower no niceness")
    assert (told["kept"], told["chosen"], told["own"], told["usual"]) == ([], [7, 1], [], [0, 0])


def test_a_priority_that_cannot_be_put_off_is_told(script: Script) -> None:
    told = run(
        script,
        """
def refuse(*_): raise PermissionError
os.getpriority, os.setpriority = lambda *_: 7, refuse
inheritance._OOM = Path("/nonexistent/oom")
inheritance.oom_score_adj = lambda: 300
told["kept"] = inheritance.put_off(priority=True).kept[-2:]
inheritance.oom_score_adj = lambda: 0
told["without"] = inheritance.put_off(priority=True).kept[-1:]
""",
    )
    assert (told["kept"], told["without"]) == (["nice 7", "oom_score_adj 300"], ["nice 7"])
