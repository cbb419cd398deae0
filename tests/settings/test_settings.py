"""Where a setting comes from, and what is refused."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.errors import SettingsError
from watchkeeper.settings import KEYS, REPOSITORY_FILE, Key, Settings, duration, load, repository_file, size, user_file

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


class SettingsHome:
    """A home with a settings file, and a checkout in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.top = home / "code" / "project"
        (self.top / ".git").mkdir(parents=True)
        (self.top / ".git" / "HEAD").touch()
        self.cwd = self.top / "src" / "deep"
        self.cwd.mkdir(parents=True)
        self.environ = {"HOME": str(home)}
        self.user = home / ".config" / "watchkeeper" / "config.toml"
        self.repository = self.top / REPOSITORY_FILE

    def write_user(self, text: str) -> None:
        """Write the user's file."""
        self.user.parent.mkdir(parents=True, exist_ok=True)
        self.user.write_text(text, encoding="utf-8")

    def load(self, flags: dict[str, object] | None = None, **environ: str) -> Settings:
        """Read everything."""
        return load(self.cwd, {**self.environ, **environ}, flags)


@pytest.fixture
def home(tmp_path: Path) -> SettingsHome:
    return SettingsHome(tmp_path)


def _origin(settings: Settings, key: str) -> str:
    return next(value.origin for value in settings.values if value.key == key)


def test_defaults(home: SettingsHome) -> None:
    """Without any file everything has its default and says so."""
    settings = home.load()
    assert {value.origin for value in settings.values} == {"default"}
    assert [value.key for value in settings.values] == sorted(KEYS)
    assert (settings.run_harness, settings.run_deadline_s, settings.run_retries) == (None, None, 2)
    assert (settings.queue_limit, settings.queue_retry_cap_s, settings.logs_limit_bytes) == (4, 600.0, 64 * 1024**2)
    assert (settings.prune_keep_days, settings.environment_names) == (30, ())


def test_each_wins_over_the_next(home: SettingsHome) -> None:
    """Flag, environment, repository, user, default: in this order, each with its origin."""
    key, order = "run.model", []
    for step in range(5):
        if step == 1:
            home.write_user('[run]\nmodel = "m1"\n')
        elif step == 2:
            home.repository.write_text('[run]\nmodel = "m2"\n', encoding="utf-8")
        environ = {"WATCHKEEPER_RUN_MODEL": "m3"} if step >= 3 else {}
        flags: dict[str, object] = {key: "m4"} if step >= 4 else {}
        settings = home.load(flags, **environ)
        order.append((settings.run_model, _origin(settings, key)))
    assert order == [
        (None, "default"),
        ("m1", f"user {home.user}"),
        ("m2", f"repository {home.repository}"),
        ("m3", "environment WATCHKEEPER_RUN_MODEL"),
        ("m4", "flag"),
    ]


def test_a_higher_place_can_take_a_deadline_away(home: SettingsHome) -> None:
    """`none` is a value, not the absence of one."""
    home.write_user('[run]\ndeadline = "1m"\n')
    assert home.load({"run.deadline": "none"}).run_deadline_s is None


def test_options_of_harnesses(home: SettingsHome) -> None:
    """Strings, numbers and booleans arrive as strings, for ours and for users' own."""
    home.write_user('[harness.claude]\nprogram = "~/bin/claude"\nmax_turns = 3\n[harness.my-own]\nloud = true\n')
    settings = home.load(WATCHKEEPER_HARNESS_DEMO_PACE="0.1")
    assert settings.harness_options("claude") == {"program": "~/bin/claude", "max_turns": "3"}
    assert settings.harness_options("my-own") == {"loud": "true"}
    assert settings.harness_options("demo") == {"pace": "0.1"}
    assert settings.harness_options("none") == {}


def test_an_option_that_its_harness_does_not_declare(home: SettingsHome) -> None:
    """It is refused where the harness is used, with the one that comes close; the account is not an option of the harness."""
    home.write_user("[harness.claude]\nisolaton = 'x'\naccount = 'work'\n")
    with pytest.raises(SettingsError, match=r"Did you mean 'harness\.claude\.isolation'\?") as refusal:
        home.load().harness_options("claude", ("program", "isolation"))
    assert f"user {home.user}" in str(refusal.value)


def test_lists_from_files_and_variables(home: SettingsHome) -> None:
    """A list in TOML, words or commas elsewhere; each name once."""
    home.write_user('[environment]\nnames = ["A", "B", "A"]\n')
    assert home.load().environment_names == ("A", "B")
    assert home.load(WATCHKEEPER_ENVIRONMENT_NAMES="C, D E").environment_names == ("C", "D", "E")


def test_variables_that_are_no_settings_are_left_alone(home: SettingsHome) -> None:
    """What marks a run or a place is not taken for a setting."""
    home.load(WATCHKEEPER_HOME="/x", WATCHKEEPER_RUN="1", WATCHKEEPER_EXECUTION="e", WATCHKEEPER_CRASH_AT="y")


@pytest.mark.parametrize("key", sorted(name for name, key in KEYS.items() if key.user_only))
def test_a_repository_sets_nothing_that_matters(home: SettingsHome, key: str) -> None:
    """An agent that writes the repository's file gains nothing by it: even the default is refused from there."""
    section, _, name = key.partition(".")
    home.repository.write_text(f"[{section}]\n{name} = 3\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=f"'{key}' cannot be set by a repository") as refusal:
        home.load()
    assert str(home.repository) in str(refusal.value)
    assert refusal.value.hint
    assert load(home.cwd, home.environ, repository=False).queue_limit == 4


@pytest.mark.parametrize(
    "text", ['[harness.claude]\nprogram = "/tmp/evil"\n', '"harness.claude.program" = "/tmp/evil"\n']
)
def test_a_repository_names_no_programs(home: SettingsHome, text: str) -> None:
    """Programs and rights are the user's alone, however the key is written."""
    home.repository.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match="cannot be set by a repository"):
        home.load()


def test_what_a_repository_may_set(home: SettingsHome) -> None:
    """The list is short, and a change of it is a decision."""
    assert sorted(name for name, key in KEYS.items() if not key.user_only) == [
        "run.harness",
        "run.model",
        "run.worktree",
    ]


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("[queue]\nlimt = 3\n", "no setting 'queue.limt' .* Did you mean 'queue.limit'?"),
        ("[que]\nlimit = 3\n", "no setting 'que.limit' .* Did you mean 'queue.limit'?"),
        ("limit = 3\n", "no setting 'limit'"),
        ("[run]\nmodel.name = 'x'\n", "'run.model' .* must be a word"),
        ("run = 3\n", "no setting 'run'"),
        ("[harness.claude.deep]\nx = 'x'\n", "'harness.claude.deep' .* must be a string"),
        ("[harness]\nclaude = 'x'\n", "no setting 'harness.claude'"),
        ("[queue]\nlimit = '4 or so'\n", "'queue.limit' .* is '4 or so'; it must be a whole number from 1 to 1000"),
        ("[queue]\nlimit = 0\n", "must be a whole number from 1 to 1000"),
        ("[queue]\nlimit = true\n", "is True; it must be a whole number"),
        ("[run]\nretries = 21\n", "from 0 to 20"),
        ("[run]\ndeadline = '1 week'\n", "must be a duration such as"),
        ("[run]\ndeadline = 0\n", "must be a duration above zero"),
        ("[run]\non_lost = 'shrug'\n", "must be one of hold, retry, fail"),
        ("[run]\nharness = ['a']\n", "must be a word"),
        ("[logs]\nlimit = '1K'\n", "must be a size of at least 64K"),
        ("[environment]\nnames = ['a-b']\n", "must be a list of names of variables"),
        ("[environment]\nnames = [3]\n", "must be a list of names of variables"),
        ("[harness.x]\ny = []\n", "must be a string"),
        ("[run\n", "are not valid TOML: .*line 1"),
        ("\xff", "are not valid TOML"),
    ],
)
def test_what_is_refused(home: SettingsHome, text: str, detail: str) -> None:
    """Unknown keys and wrong values are refused with the file, the key and what it must be."""
    home.user.parent.mkdir(parents=True)
    home.user.write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsError, match=detail) as refusal:
        home.load()
    assert str(home.user) in str(refusal.value)


def test_refusals_name_the_variable(home: SettingsHome) -> None:
    """A wrong variable is named as the user typed it."""
    with pytest.raises(SettingsError, match="environment WATCHKEEPER_QUEUE_LIMIT"):
        home.load(WATCHKEEPER_QUEUE_LIMIT="many")
    with pytest.raises(SettingsError, match=r"environment WATCHKEEPER_QUEUE_LIMT.*Did you mean 'queue\.limit'"):
        home.load(WATCHKEEPER_QUEUE_LIMT="3")


def test_a_file_that_cannot_be_used(home: SettingsHome) -> None:
    """Unreadable and endless files are a sentence."""
    home.user.mkdir(parents=True)
    with pytest.raises(SettingsError, match="cannot be read"):
        home.load()
    home.user.rmdir()
    home.write_user("#" * (1024 * 1024 + 1))
    with pytest.raises(SettingsError, match="larger than"):
        home.load()


def test_which_files_count(home: SettingsHome) -> None:
    """The nearest file up to the top of the checkout; outside git only the directory itself."""
    above = home.top.parent / REPOSITORY_FILE
    above.write_text("", encoding="utf-8")
    assert repository_file(home.cwd) is None
    assert repository_file(above.parent) == above
    (above.parent / "beside").mkdir()
    assert repository_file(above.parent / "beside") is None
    home.repository.write_text("", encoding="utf-8")
    assert repository_file(home.cwd) == home.repository
    nearer = home.cwd / REPOSITORY_FILE
    nearer.write_text("", encoding="utf-8")
    assert repository_file(home.cwd) == nearer
    assert user_file({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}) == Path("/c/watchkeeper/config.toml")
    assert user_file({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}) == Path("/h/.config/watchkeeper/config.toml")
    assert user_file({}) is None


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(90, 90), (1.5, 1.5), ("90", 90), (" 90s ", 90), ("1h30m", 5400), ("1d", 86400), ("1w", 604800)],
)
def test_durations(written: object, seconds: float) -> None:
    """Numbers are seconds; texts are read as on the command line."""
    assert duration(written) == seconds


@pytest.mark.parametrize(("written", "seconds"), [("1h30m", 5400), ("1w", 604800)])
def test_a_deadline_of_several_parts_and_of_weeks(home: SettingsHome, written: str, seconds: float) -> None:
    assert home.load(WATCHKEEPER_RUN_DEADLINE=written).run_deadline_s == seconds
    home.write_user(f'[run]\ndeadline = "{written}"\n')
    assert home.load().run_deadline_s == seconds


@pytest.mark.parametrize("written", [float("nan"), float("inf"), 10**400, -1, True])
def test_numbers_that_are_no_duration(written: object) -> None:
    with pytest.raises(ValueError, match="a duration such as"):
        duration(written)


@pytest.mark.parametrize(
    ("written", "count"), [(65536, 65536), ("64K", 65536), ("64M", 64 * 1024**2), ("1.5G", 3 * 2**29)]
)
def test_sizes(written: object, count: int) -> None:
    """K, M and G are powers of 1024."""
    assert size(written) == count


@given(st.one_of(st.text(), st.floats(), st.integers(), st.booleans(), st.none(), st.lists(st.text())))
def test_readers_refuse_with_a_sentence(written: object) -> None:
    """Whatever is written, a reader returns a value or raises ValueError, nothing else."""
    refused = [str(error) for key in KEYS.values() if (error := _refusal(key, written)) is not None]
    assert all(refused)


def _refusal(key: Key, written: object) -> ValueError | None:
    try:
        key.read(written)
    except ValueError as error:
        return error
    return None


def test_the_page_lists_every_setting() -> None:
    """docs/settings.md has the keys as they are."""
    rows = re.findall(
        r"^\| `([^`]+)` \| (.+) \| (.+) \| (.+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rows == [
        (key.name, key.kind, key.default_says, "no" if key.user_only else "yes", key.detail) for key in KEYS.values()
    ]
