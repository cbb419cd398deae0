"""The unit for the user's systemd: what is written, what lies under its name, and which commands systemd gets. `systemctl` is a script that keeps a list."""

import os
import sys
from pathlib import Path

import pytest

from watchkeeper.errors import DaemonError
from watchkeeper.ports.unit import UnitState
from watchkeeper.runtimes import systemd
from watchkeeper.runtimes.systemd import MARK, SystemdUnit

FAILS_ON = "fails-on"
BODY = """\
[Unit]
Description=Watchkeeper, which runs coding agents in the background
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
ExecStart="{python}" "-m" "watchkeeper" "daemon" "run"
Environment="PATH={path}"
Environment="WATCHKEEPER_HOME=/a \\\\ \\"b\\" %%c $d\\n"
WorkingDirectory=/
UMask=0077
# Agents outlive the daemon: only the daemon itself is ever ended.
KillMode=process
Delegate=yes
OOMPolicy=continue
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
"""


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A home and a `systemctl` that keeps a list of its arguments; it fails at words that `fails-on` holds."""
    (tmp_path / "bin").mkdir()
    said, fails = tmp_path / "said", tmp_path / FAILS_ON
    script = tmp_path / "bin" / "systemctl"
    script.write_text(
        f'#!/bin/sh\necho "$*" >> {said}\n[ -e {fails} ] && grep -qxF -- "$2" {fails} || exit 0\ncat {tmp_path}/complaint >&2\nexit 4\n',
        encoding="utf-8",
    )
    script.chmod(0o700)
    (tmp_path / "complaint").write_text("It is off.\nMore.\n", encoding="utf-8")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.setattr(systemd.sys, "executable", "/opt/$p/python")
    return {"HOME": str(tmp_path), "PATH": path, "GH_TOKEN": "x", "XDG_STATE_HOME": ""}


def unit(environ: dict[str, str], *, usual: bool = True) -> SystemdUnit:
    return SystemdUnit(Path("/state"), environ, usual=usual)


def said(environ: dict[str, str]) -> list[str]:
    path = Path(environ["HOME"], "said")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def fail(environ: dict[str, str], *words: str) -> None:
    Path(environ["HOME"], FAILS_ON).write_text("".join(f"{word}\n" for word in words), encoding="utf-8")


def test_each_state_directory_has_a_unit_of_its_own(environ: dict[str, str], tmp_path: Path) -> None:
    """In the directory for the user's units; a relative XDG_CONFIG_HOME counts for nothing."""
    usual, own = unit(environ), unit(environ, usual=False)
    assert usual.name == "watchkeeper.service"
    assert own.name == "watchkeeper-7ac1387d.service"
    assert usual.path == tmp_path / ".config" / "systemd" / "user" / usual.name
    assert unit(environ | {"XDG_CONFIG_HOME": "/c"}).path == Path("/c/systemd/user", usual.name)
    assert unit(environ | {"XDG_CONFIG_HOME": "c"}).path == usual.path
    assert unit({"HOME": ""}).path == Path("~").expanduser() / ".config" / "systemd" / "user" / usual.name


def test_the_text_of_a_unit(environ: dict[str, str]) -> None:
    """Its daemon gets what it needs to find its files and programs, quoted as systemd wants it; agents outlive it."""
    first, _, body = unit(environ | {"WATCHKEEPER_HOME": '/a \\ "b" %c $d\n'}).text().partition("\n")
    assert body == BODY.format(python="/opt/$$p/python", path=environ["PATH"])
    assert first.startswith(MARK) and len(first) == len(MARK) + 64
    plain = unit({"XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c", "GH_TOKEN": "x"}).text()
    assert [line for line in plain.splitlines() if line.startswith("Environment")] == [
        'Environment="XDG_STATE_HOME=/s"', 'Environment="XDG_CONFIG_HOME=/c"',
    ]  # fmt: skip


def test_what_lies_under_the_name_of_a_unit_is_told(environ: dict[str, str], tmp_path: Path) -> None:
    it = unit(environ)
    assert it.state() is UnitState.ABSENT
    it.install()
    assert it.state() is UnitState.SAME
    assert unit(environ | {"WATCHKEEPER_HOME": "/other"}).state() is UnitState.OURS, "an earlier install wrote it"
    written = it.path.read_text(encoding="utf-8")
    it.path.write_text(written.replace("RestartSec=5", "RestartSec=6"), encoding="utf-8")
    assert it.state() is UnitState.CHANGED
    it.path.write_text(written.partition("\n")[2], encoding="utf-8")
    assert it.state() is UnitState.FOREIGN
    it.path.unlink()
    it.path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match="symbolic links"):
        _ = it.state()


def test_an_install_is_told_to_systemd(environ: dict[str, str]) -> None:
    """In order; a file that is as it should be is not written again, and one of an earlier install is."""
    it = unit(environ)
    it.install()
    assert said(environ) == ["--user daemon-reload", "--user enable watchkeeper.service"]
    before = it.path.stat()
    it.install()
    assert it.path.stat().st_ino == before.st_ino
    it.start()
    assert said(environ)[2:] == [
        "--user daemon-reload",
        "--user enable watchkeeper.service",
        "--user start watchkeeper.service",
    ]
    other = unit(environ | {"WATCHKEEPER_HOME": "/other"})
    other.install()
    assert other.state() is UnitState.SAME


def test_what_systemd_complains_of_is_told(environ: dict[str, str], tmp_path: Path) -> None:
    """Its first line, or the code with which it ended."""
    it = unit(environ)
    assert it.unreachable() == ""
    fail(environ, "show-environment", "start", "enable")
    assert it.unreachable() == "It is off."
    with pytest.raises(
        DaemonError, match=r"^`systemctl --user start watchkeeper\.service` did not work: It is off\.$"
    ) as refused:
        it.start()
    assert (
        refused.value.hint
        == "`systemctl --user status watchkeeper.service` tells more; `wk daemon install` may be typed again."
    )
    with pytest.raises(DaemonError, match="systemctl --user enable watchkeeper"):
        it.install()
    (tmp_path / "complaint").write_text("", encoding="utf-8")
    assert it.unreachable() == "systemctl ended with 4"


def test_a_systemctl_that_cannot_be_run_is_told(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, script = unit(environ), tmp_path / "bin" / "systemctl"
    script.write_text("#!/bin/sh\nread line\nexec sleep 60\n", encoding="utf-8")
    monkeypatch.setattr(systemd, "_WAIT_S", 0.2)
    assert it.unreachable() == "systemctl said nothing for 0.2 s"
    script.write_text("no program\n", encoding="utf-8")
    own = SystemdUnit(Path("/state"), environ | {"PATH": str(script.parent)}, usual=True)
    assert own.unreachable() == "systemctl cannot be run (Exec format error)"
    only = SystemdUnit(Path("/state"), environ | {"PATH": str(tmp_path / "none")}, usual=True)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert only.unreachable() == "there is no systemctl"


def test_a_unit_is_removed_with_what_starts_it(environ: dict[str, str]) -> None:
    """Even where systemd does not answer; the answer is its complaint. Gone already is fine."""
    it = unit(environ)
    it.install()
    wanted = it.path.parent / "default.target.wants" / it.name
    wanted.parent.mkdir()
    wanted.symlink_to(it.path)
    assert it.remove() == ""
    assert said(environ)[2:] == ["--user disable --now watchkeeper.service", "--user daemon-reload"]
    assert not os.path.lexists(wanted) and not it.path.exists()
    fail(environ, "disable")
    assert it.remove() == "It is off."
    fail(environ, "daemon-reload")
    assert it.remove() == "It is off."


def test_whether_services_continue_after_logout(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "LINGER", tmp_path)
    monkeypatch.setattr(systemd.getpass, "getuser", lambda: "ada")
    assert unit(environ).lingers() is False
    (tmp_path / "ada").touch()
    assert unit(environ).lingers() is True

    def unknown() -> str:
        raise KeyError

    monkeypatch.setattr(systemd.getpass, "getuser", unknown)
    assert unit(environ).lingers() is False


def test_the_python_of_a_unit_is_the_one_that_installs_it(tmp_path: Path) -> None:
    assert f'ExecStart="{sys.executable}" "-m"' in SystemdUnit(tmp_path, {}, usual=True).text()
