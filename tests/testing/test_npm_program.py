"""Fetching the real program: once, whole or not at all, by whichever way works."""

import subprocess
import sys
from pathlib import Path

import pytest

from watchkeeper_testing import npm_program
from watchkeeper_testing.claude_code import CLAUDE_CODE, VERSION, claude_program
from watchkeeper_testing.codex import CODEX, codex_program
from watchkeeper_testing.npm_program import ProgramUnavailable

FAKE_NPM = f"""#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
while [ "$1" != --prefix ]; do shift; done
one="$2/node_modules/{CLAUDE_CODE.package}-linux-x64"
mkdir -p "$one" "$one-musl"
printf '#!/bin/sh\\necho "%s (Claude Code)"\\n' "$SAID" > "$one/claude"
chmod +x "$one/claude"
echo broken > "$one-musl/claude"
vendor="$2/node_modules/{CODEX.package}-linux-x64/vendor/x86_64-unknown-linux-musl"
mkdir -p "$vendor/bin" "$vendor/beside"
printf '#!/bin/sh\\necho "codex-cli {CODEX.version}"\\n' > "$vendor/bin/codex"
chmod +x "$vendor/bin/codex"
"""


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npm that brings a program which says its version, and no pip."""
    directory = tmp_path / "bin"
    directory.mkdir()
    _ = (directory / "npm").write_text(FAKE_NPM)
    (directory / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    monkeypatch.setenv("SAID", VERSION)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return directory


def test_the_program_is_fetched_once_and_left_alone_in_the_cache(npm: Path, tmp_path: Path) -> None:
    """The second call asks no server; nothing but the program is kept."""
    cache = tmp_path / "cache"
    program = claude_program(cache)
    assert claude_program(cache) == program
    assert len((npm / "calls").read_text().splitlines()) == 1
    assert sorted(each.name for each in (cache / "claude-code").iterdir()) == [VERSION, "lock"]
    assert [each.name for each in program.parent.iterdir()] == ["claude"]


def test_what_a_program_needs_beside_it_is_kept_with_it(npm: Path, tmp_path: Path) -> None:
    """Codex brings its own sandbox in another directory."""
    program = codex_program(tmp_path / "cache")
    assert program == tmp_path / "cache" / "codex" / CODEX.version / "bin" / "codex"
    assert (program.parents[1] / "beside").is_dir()
    assert codex_program(tmp_path / "cache") == program
    assert len((npm / "calls").read_text().splitlines()) == 1


def test_two_at_once_fetch_once(npm: Path, tmp_path: Path) -> None:
    """The second waits for the first and takes what it brought."""
    code = (
        "import sys, pathlib; from watchkeeper_testing.claude_code import claude_program;"
        "print(claude_program(pathlib.Path(sys.argv[1])))"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "cache")], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [each.communicate(timeout=60)[0] for each in both]
    assert said[0] == said[1]
    assert Path(said[0].strip()).exists()
    assert len((npm / "calls").read_text().splitlines()) == 1


def test_a_program_of_another_version_is_not_kept(
    npm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every way is tried, then one sentence says what each said; nothing is left under the final name."""
    assert npm.exists()
    monkeypatch.setenv("SAID", "0.0.1")
    # Making a real environment takes seconds; this one's pip may ask no server either.
    monkeypatch.setattr(npm_program, "make_venv", lambda _: Path(sys.executable))
    with pytest.raises(ProgramUnavailable) as failed:
        _ = claude_program(tmp_path / "cache")
    message = str(failed.value)
    assert "npm on path: npm brought no program that runs" in message
    assert "npm from wheel: python failed" in message
    assert "wheel: python failed" in message
    assert "\n" not in message
    assert [each.name for each in (tmp_path / "cache" / "claude-code").iterdir()] == ["lock"]
    assert f"Fetching Claude Code {VERSION} (about 400 MB, once): npm install" in capsys.readouterr().err
