"""Harnesses by name: ours are loaded when asked for, users' own are entry points, and a broken one is one sentence."""

import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from support.plans import run, spec_of

from watchkeeper.domain.failure import FailureKind
from watchkeeper.errors import HarnessError, ProgramMissing, UnknownHarness
from watchkeeper.harnesses.program import Programs
from watchkeeper.harnesses.registry import BUILT_IN, GROUP, Registry

ROOT = Path(__file__).parents[2]


def _points(**values: str) -> Iterable[EntryPoint]:
    return [EntryPoint(name=name, value=value, group=GROUP) for name, value in values.items()]


def _refuse() -> Iterable[EntryPoint]:
    pytest.fail("the metadata of every distribution was read for a name of ours")


def test_ours_are_loaded_by_name() -> None:
    """Each calls itself by its name, is made once, and needs no look at installed packages."""
    registry = Registry(_refuse)
    for name in BUILT_IN:
        assert registry.get(name).name == name
        assert registry.get(name) is registry.get(name)
    assert set(BUILT_IN) <= set(Registry().names())


def test_importing_the_registry_loads_no_harness() -> None:
    """A command that lists tasks does not pay for harnesses."""
    code = (
        "import sys, watchkeeper.harnesses.registry\n"
        "print([n for n in sys.modules if n.startswith('watchkeeper.harnesses.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "['watchkeeper.harnesses.registry']"


def test_an_unknown_name_gets_a_suggestion_and_the_list() -> None:
    """A typo is answered with what was probably meant."""
    with pytest.raises(UnknownHarness, match=r"no harness 'cluade'\. Did you mean 'claude'\?") as refusal:
        Registry(_points).get("cluade")
    assert refusal.value.hint == f"There are: {', '.join(sorted(BUILT_IN))}."


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of a user's on the path."""
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("own_package")]:
        monkeypatch.delitem(sys.modules, name)
    return package


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("raise RuntimeError('no luck')", "cannot be loaded: RuntimeError: no luck"),
        ("def Made(needed): ...", "cannot be loaded: TypeError"),
        ("class Made: name = 'broken'", "has no method find"),
        ("from watchkeeper.harnesses.demo import Demo as Made", "calls itself 'demo'"),
        ("", "cannot be loaded: AttributeError"),
    ],
)
def test_a_broken_one_spoils_no_other(own: Path, source: str, detail: str) -> None:
    """It is one sentence where it is asked for, and in the list; the others work."""
    (own / "broken.py").write_text(source, encoding="utf-8")
    registry = Registry(lambda: _points(broken="own_package.broken:Made"))
    with pytest.raises(HarnessError, match=detail):
        registry.get("broken")
    listed = {row.name: row for row in registry.listed()}
    assert detail in listed.pop("broken").problem
    assert set(listed) == set(BUILT_IN)
    assert all(row.harness is not None for row in listed.values())


def test_a_name_of_ours_cannot_be_taken_over() -> None:
    """An installed package does not become `claude`; two packages of one name are refused."""
    registry = Registry(lambda: [*_points(demo="own_package.x:Made"), *_points(two="a:A"), *_points(two="b:B")])
    assert type(registry.get("demo")).__name__ == "Demo"
    with pytest.raises(HarnessError, match="Several installed packages"):
        registry.get("two")


def test_the_example_of_the_page_works(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness in docs/harnesses/own.md finds, starts and reads a program, as written there."""
    page = (ROOT / "docs" / "harnesses" / "own.md").read_text(encoding="utf-8")
    example = re.search(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert example is not None
    (own / "shout.py").write_text(example[1], encoding="utf-8")
    program = tmp_path / "shout"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo shout 3.2.1 && exit\nread line\n'
        'echo "{\\"type\\": \\"call\\", \\"name\\": \\"ls\\"}"\n'
        'echo "{\\"type\\": \\"text\\", \\"text\\": \\"$line\\"}"\n'
        '[ "$line" = busy ] && ok=false || ok=true\nprintf \'{"type": "done", "ok": %s, "why": "%s"}\' $ok "$line"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    harness = Registry(lambda: _points(shout="own_package.shout:Shout")).get("shout")
    assert harness.find({"PATH": str(tmp_path)}, {}).version == "3.2.1"
    good, busy = (run(harness, spec_of(tmp_path, f"{prompt}\n")) for prompt in ("hello", "busy"))
    assert (good.trace.ok, good.trace.text, good.trace.tool_calls) == (True, "hello", 1)
    assert (busy.trace.ok, busy.trace.kind) == (False, FailureKind.OVERLOADED)


def _program(path: Path, said: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{said}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("echo 2.1.332 '(Claude Code)'", "2.1.332"),
        ("echo codex-cli 0.171.0-alpha.3", "0.171.0-alpha.3"),
        ("echo hello", None),
        ("echo 1.0; exit 1", None),
        ("exec sleep 60", None),
        ("sleep 60 & echo 1.2.3", "1.2.3"),
    ],
)
def test_versions(tmp_path: Path, said: str, version: str | None) -> None:
    """A version is what looks like one; a program that fails, hangs or leaves children behind costs no more than the limit."""
    program = _program(tmp_path / "agent", said.replace("sleep 60", "sleep 2"))
    found = Programs(timeout_s=1.0).find("agent", {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert (found.path, found.version) == (str(program), version)


def test_a_version_is_asked_once_until_the_file_changes(tmp_path: Path) -> None:
    """The answer is kept for the same file, and asked for again when it was replaced."""
    asked = tmp_path / "asked"
    _program(tmp_path / "agent", f"echo x >> {asked}; echo 1.0")
    programs, environment = Programs(), {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert [programs.find("agent", environment).version for _ in range(3)] == ["1.0"] * 3
    assert asked.read_text(encoding="utf-8") == "x\n"
    _program(tmp_path / "agent", "echo 10.0.1")
    assert programs.find("agent", environment).version == "10.0.1"


def test_where_programs_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the caller's PATH, without its relative directories; or exactly where the settings say."""
    _program(tmp_path / "bin" / "agent", "echo 1.0")
    _program(tmp_path / "other" / "mine", "echo 2.0")
    monkeypatch.chdir(tmp_path / "bin")
    programs = Programs()
    for path in (".", "", "bin:.", "relative/bin"):
        with pytest.raises(ProgramMissing, match="not on your PATH") as refusal:
            programs.find("agent", {"PATH": path}, hint="Get it.")
        assert refusal.value.hint == "Get it."
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    assert programs.find("agent", environment, configured="~/other/mine").version == "2.0"
    with pytest.raises(ProgramMissing, match="'~/none' is not an executable file"):
        programs.find("agent", environment, configured="~/none")
