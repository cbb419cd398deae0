"""Inside an agent every order is refused, whichever command and option it is, and does nothing."""

from pathlib import Path

import click
import pytest

from watchkeeper.cli import gate
from watchkeeper.cli.command import WkCommand
from watchkeeper.cli.main import main, wk
from watchkeeper.errors import Exit


def _leaves(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        return [(path, command)]
    context = click.Context(command)
    found = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
    return [leaf for name, each in found if each is not None for leaf in _leaves(each, (*path, name))]


LEAVES = _leaves(wk)
NAMES = [" ".join(path) for path, _ in LEAVES]
ORDERS = [name for name in NAMES if name not in gate.ALLOWED]
MARKERS = ["WATCHKEEPER_RUN", "WATCHKEEPER_EXECUTION"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": "/nowhere", "WATCHKEEPER_HOME": str(tmp_path / "state")}


def test_every_command_passes_the_gate() -> None:
    """And nothing is allowed that is not there, nor an option that is not."""
    assert [name for name, (_, leaf) in zip(NAMES, LEAVES, strict=True) if not isinstance(leaf, WkCommand)] == []
    assert set(NAMES) >= set(gate.ALLOWED)
    options = {name: {each.name for each in leaf.params} for name, (_, leaf) in zip(NAMES, LEAVES, strict=True)}
    assert all(set(refused) <= options[name] for name, refused in gate.ALLOWED.items())


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("name", ORDERS)
def test_an_order_is_refused(name: str, marker: str, environ: dict[str, str], tmp_path: Path, capsys) -> None:
    """With its exit code, before anything of it is looked at, also with what only looks like a wish for help."""
    code = Exit.INSIDE_AGENT if name in {"daemon run", "daemon start"} else Exit.REFUSED
    words = name.split()
    assert main(words, environ | {marker: "somebody.1"}) == code
    told = capsys.readouterr()
    assert told.out == "" and "agent" in told.err
    assert main([*words, "--json", "--", "--help"], environ | {marker: "x"}) in {code, Exit.USAGE}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["rm", "--help"], ["daemon", "install", "-h"], ["run", "--help"], ["--help"]])
def test_help_may_be_read(words: list[str], environ: dict[str, str], capsys) -> None:
    assert main(words, environ | {"WATCHKEEPER_RUN": "somebody.1"}) == Exit.OK
    assert "Usage" in capsys.readouterr().out


def test_a_wish_for_help_that_is_a_value_opens_nothing(environ: dict[str, str], tmp_path: Path) -> None:
    words = ["run", "--title", "--help", "--cwd", str(tmp_path), "hello"]
    assert main(words, environ | {"WATCHKEEPER_RUN": "somebody.1"}) == Exit.REFUSED
    assert list(tmp_path.iterdir()) == []


_VALUES = {"do": ("drop",)}
"""What an option takes; those that are not here take nothing."""


@pytest.mark.parametrize("name", sorted(gate.ALLOWED))
def test_looking_is_free(name: str, environ: dict[str, str], tmp_path: Path, capsys) -> None:
    """It is not refused, whatever else is wrong with it; what in it is an order is."""
    inside = environ | {"WATCHKEEPER_RUN": "somebody.1"}
    _ = main(name.split(), inside)
    assert "An agent may not" not in capsys.readouterr().err
    for option in gate.ALLOWED[name]:
        assert main([*name.split(), f"--{option}", *_VALUES.get(option, ())], inside) == Exit.REFUSED
    assert list(tmp_path.iterdir()) == []
