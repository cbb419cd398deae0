"""The daemon as a service of the user's systemd, for which a script stands that records its calls and starts what units say."""

import json
import sys
from pathlib import Path

import pytest
from support.flow_words import healthy, let_go, refused, working
from support.rig import Rig

from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit

FAKE = Path(__file__).parents[1] / "support" / "fake_systemctl.py"


class Systemd:
    """The stand-in, and what it saw."""

    def __init__(self, rig: Rig) -> None:
        self.home = rig.root / "systemd"
        self.home.mkdir()
        program = self.home / "systemctl"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        rig.settings = {"PATH": f"{self.home}:{rig.environment['PATH']}", "FAKE_SYSTEMD": str(self.home)}
        self.units = rig.root / "home" / ".config" / "systemd" / "user"

    @property
    def calls(self) -> list[str]:
        """How it was called, without `--user`, and forgotten then."""
        file = self.home / "calls"
        found = (
            [line.removeprefix("--user ") for line in file.read_text(encoding="utf-8").splitlines()]
            if file.exists()
            else []
        )
        file.unlink(missing_ok=True)
        return found

    def break_(self) -> None:
        """From now on it fails, as without a session bus."""
        (self.home / "broken").touch()

    @property
    def unit(self) -> Path:
        """The one unit that is there."""
        (found,) = self.units.glob("*.service")
        return found

    @property
    def started(self) -> list[int]:
        """Pids of what it started."""
        file = self.home / "pids"
        return [int(pid) for pid in file.read_text(encoding="utf-8").split()] if file.exists() else []


@pytest.fixture
def systemd(rig: Rig) -> Systemd:
    """One for the rig's user."""
    return Systemd(rig)


def daemon_pid(rig: Rig) -> int | None:
    return json.loads(rig.wk("daemon", "status", "--json", check=False).stdout)["pid"]


def test_it_is_installed_once_however_often_it_is_typed(rig: Rig, systemd: Systemd) -> None:
    said = rig.wk("daemon", "install").stdout.decode()
    name = systemd.unit.name
    assert "was installed" in said
    assert "loginctl enable-linger" in said
    assert systemd.calls == ["show-environment", "daemon-reload", f"enable {name}"]
    first = (systemd.unit.stat().st_ino, systemd.unit.stat().st_mtime_ns)
    assert "is installed already" in rig.wk("daemon", "install").stdout.decode()
    assert (systemd.unit.stat().st_ino, systemd.unit.stat().st_mtime_ns) == first
    assert not systemd.started
    assert systemd.unit.read_text(encoding="utf-8") == rig.wk("daemon", "install", "--print").stdout.decode()


def test_the_unit_lets_agents_outlive_the_daemon_and_holds_nothing_that_is_not_needed(
    rig: Rig, systemd: Systemd
) -> None:
    rig.settings = {**rig.settings, "SECRET_TOKEN": "s3cret", "XDG_DATA_HOME": "/x"}
    rig.wk("daemon", "install")
    lines = systemd.unit.read_text(encoding="utf-8").splitlines()
    for line in (
        "KillMode=process", "Delegate=yes", "OOMPolicy=continue", "Restart=on-failure", "WantedBy=default.target",
        f'ExecStart="{sys.executable}" "-m" "watchkeeper" "daemon" "run"', f'Environment="WATCHKEEPER_HOME={rig.state}"',
    ):  # fmt: skip
        assert line in lines
    assert [line.split("=")[1].strip('"') for line in lines if line.startswith("Environment=")] == [
        "PATH",
        "WATCHKEEPER_HOME",
    ]


def test_where_systemd_cannot_be_reached_nothing_is_written(rig: Rig, systemd: Systemd) -> None:
    systemd.break_()
    refused(rig, "daemon", "install", code=Exit.DAEMON, says="cannot be reached (Failed to connect to bus")
    assert not systemd.units.exists()
    rig.settings = {"PATH": str(rig.root / "nothing")}
    refused(rig, "daemon", "install", code=Exit.DAEMON, says="there is no systemctl")
    assert b"KillMode=process" in rig.wk("daemon", "install", "--print").stdout
    assert not systemd.units.exists()


def test_a_unit_that_somebody_wrote_or_changed_is_left_alone(rig: Rig, systemd: Systemd) -> None:
    rig.wk("daemon", "install")
    unit = systemd.unit
    ours = unit.read_text(encoding="utf-8")
    unit.write_text(ours.replace("RestartSec=5", "RestartSec=50"), encoding="utf-8")
    refused(rig, "daemon", "install", code=Exit.REFUSED, says="was changed since")
    unit.write_text("[Service]\nExecStart=/bin/true\n", encoding="utf-8")
    refused(rig, "daemon", "install", code=Exit.REFUSED, says="was not written by Watchkeeper")
    refused(rig, "daemon", "uninstall", code=Exit.REFUSED, says="was not written by Watchkeeper")
    assert unit.read_text(encoding="utf-8") == "[Service]\nExecStart=/bin/true\n"
    rig.wk("daemon", "install", "--force")
    assert unit.read_text(encoding="utf-8") == ours


def test_an_older_unit_of_ours_is_brought_up_to_date(rig: Rig, systemd: Systemd) -> None:
    rig.wk("daemon", "install")
    rig.settings = {**rig.settings, "PATH": f"{rig.settings['PATH']}:/new/50%/$bin"}
    rig.wk("daemon", "install")
    assert ':/new/50%%/$bin"' in systemd.unit.read_text(encoding="utf-8")


def test_with_now_the_service_takes_over_from_a_running_daemon(rig: Rig, systemd: Systemd) -> None:
    """An agent works on meanwhile; later commands start the service, not a daemon of their own."""
    rig.start_daemon()
    task_id, run = working(rig)
    rig.wk("daemon", "install", "--now")
    assert rig.daemons[-1].wait(timeout=20) == 0
    rig.wk("daemon", "start")
    assert daemon_pid(rig) == systemd.started[0]
    assert f"as the service {systemd.unit.name}." in rig.wk("daemon", "status").stdout.decode()
    let_go(rig)
    assert rig.wait_resting(task_id, keep=False).state is TaskState.DONE
    assert rig.started_runs() == [run.id]
    rig.wk("daemon", "stop")
    healthy(rig)
    assert daemon_pid(rig) == systemd.started[1]
    rig.wk("daemon", "restart")
    assert daemon_pid(rig) == systemd.started[2]


def test_a_service_that_does_not_start_is_not_waited_for(rig: Rig, systemd: Systemd) -> None:
    rig.wk("daemon", "install")
    systemd.break_()
    healthy(rig)
    assert not systemd.started


@pytest.mark.parametrize(
    "point",
    ["unit.write.before", "unit.rename.before", "unit.rename.after", "unit.systemctl.before", "unit.systemctl.after"],
)
def test_an_installation_that_is_killed_is_finished_by_the_next(rig: Rig, systemd: Systemd, point: str) -> None:
    rig.arm(point)
    rig.open_gate()
    assert rig.wk("daemon", "install", check=False).returncode == -9
    rig.disarm()
    assert systemd.calls[-1:] != ["enable"]
    rig.wk("daemon", "install")
    assert (systemd.units / "default.target.wants" / systemd.unit.name).resolve() == systemd.unit.resolve()


def test_uninstalling_lists_what_is_left_and_ends_no_agent(rig: Rig, systemd: Systemd) -> None:
    rig.wk("daemon", "install", "--now")
    task_id, _ = working(rig)
    name = systemd.unit.name
    _ = systemd.calls
    said = rig.wk("daemon", "uninstall").stdout.decode()
    assert systemd.calls == [f"disable --now {name}", "daemon-reload"]
    assert not list(systemd.units.rglob("*.service"))
    assert f"The service {name} was taken away." in said
    for word in ("1 agent", "wk stop", str(rig.state), f"rm -r {rig.state}", "uninstall watchkeeper"):
        assert word in said
    left = json.loads(rig.wk("daemon", "uninstall", "--json").stdout)
    assert left["removed"] is False
    assert rig.task(task_id).state is TaskState.RUNNING
    assert rig.survivors()
    let_go(rig)


def test_uninstalling_without_systemd_still_deletes_the_unit(rig: Rig, systemd: Systemd) -> None:
    rig.wk("daemon", "install")
    systemd.break_()
    done = rig.wk("daemon", "uninstall")
    assert b"did not take part" in done.stderr
    assert not list(systemd.units.rglob("*.service"))


@pytest.mark.parametrize("point", ["unit.remove.before", "unit.remove.after"])
def test_an_uninstallation_that_is_killed_is_finished_by_the_next(rig: Rig, systemd: Systemd, point: str) -> None:
    rig.wk("daemon", "install")
    rig.arm(point)
    rig.open_gate()
    assert rig.wk("daemon", "uninstall", check=False).returncode == -9
    rig.disarm()
    rig.wk("daemon", "uninstall")
    assert not list(systemd.units.rglob("*.service"))
