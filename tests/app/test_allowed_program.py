"""The program that was allowed, by harnesses that know the option `program` and by those that do not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.plans import spec_of

from watchkeeper.app.profiles import at_its_place
from watchkeeper.errors import BadTask, ProgramMissing
from watchkeeper.harnesses.claude import Claude
from watchkeeper.harnesses.command import CommandHarness
from watchkeeper.harnesses.program import Programs
from watchkeeper.ports.harness import Program


class Strict:
    """A user's own harness that has one option, and refuses others as it should."""

    def find(self, environment: Mapping[str, str], options: Mapping[str, str]) -> Program:
        """On the PATH."""
        if set(options) - {"loud"}:
            msg = f"There is no option {sorted(options)}."
            raise BadTask(msg)
        return Programs().find("agent", environment)


class Heedless:
    """One that looks at no option."""

    def find(self, environment: Mapping[str, str], options: Mapping[str, str]) -> Program:
        """On the PATH."""
        del options
        return Programs().find("agent", environment)


def program(folder: Path, name: str, version: str) -> Path:
    """An agent program that says its version."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    _ = file.write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("harness", "name"), [(Strict(), "agent"), (Heedless(), "agent"), (Claude(), "claude"), (CommandHarness(), "agent")]
)
def test_another_one_on_the_path_is_not_taken_for_it(tmp_path: Path, harness: Any, name: str) -> None:
    spec = spec_of(tmp_path, "p", argv=("agent",))
    old = program(tmp_path / "old", name, "1.0")
    new = program(tmp_path / "new", name, "2.0")
    environment = {"PATH": f"{new.parent}:{old.parent}:/usr/bin:/bin"}
    found = at_its_place(harness, spec, str(old), environment, {})
    assert (found.path, found.version) in {(str(old), "1.0"), (str(old), None)}
    assert at_its_place(harness, spec, str(new), environment, {}).path == str(new)
    old.unlink()
    with pytest.raises(ProgramMissing, match=str(old)):
        _ = at_its_place(harness, spec, str(old), environment, {})


@pytest.mark.parametrize("harness", [Strict(), Heedless()])
def test_where_it_is_the_one_on_the_path_its_version_is_known(tmp_path: Path, harness: Any) -> None:
    file = program(tmp_path / "bin", "agent", "1.0")
    found = at_its_place(harness, spec_of(tmp_path, "p"), str(file), {"PATH": f"{file.parent}:/usr/bin:/bin"}, {})
    assert found == Program(path=str(file), version="1.0")


def test_an_option_that_is_not_declared_any_more_does_not_stop_what_was_allowed(tmp_path: Path) -> None:
    """The harness changed after the hand-over. The approved command line is launched all the same, with its program."""
    spec = spec_of(tmp_path, "p", argv=("agent",))
    agent = program(tmp_path / "bin", "agent", "1.0")
    environment = {"PATH": f"{agent.parent}:/usr/bin:/bin"}
    harness: Any = Strict()
    found = at_its_place(harness, spec, str(agent), environment, {"effort": "high"})
    assert (found.path, found.version) == (str(agent), None)
