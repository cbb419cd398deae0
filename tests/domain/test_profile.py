"""The launch profile: its line, its fingerprint, and what it makes of an environment."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import make_profile

from watchkeeper.domain.inheritance import Inheritance
from watchkeeper.domain.profile import WIDTH, LaunchProfile, RightsLevel, differences, environment_changes, line, table

WORDS = st.text(alphabet="abcdefghij -/.,", min_size=1, max_size=90)
INHERITS = Inheritance(umask=0o077, nice=0, oom_score_adj=0, limits=())
ENVIRONMENTS = st.dictionaries(st.sampled_from(list("ABCDEF")), st.text(max_size=3))


@given(
    brief=st.tuples(st.text("abc ", min_size=1, max_size=26), st.text("abc ", min_size=1, max_size=14), WORDS),
    version=st.none() | st.text("0123456789.", max_size=20),
    account=st.text("abcdefgh", min_size=1, max_size=64),
    tasks=st.integers(1, 10**6),
)
def test_the_line_fits_and_begins_with_sandbox_and_network(
    brief: tuple[str, str, str], version: str | None, account: str, tasks: int
) -> None:
    profile = make_profile(harness="claude", brief=brief, version=version, account=f"claude:{account}")
    said = line(profile, tasks)
    assert len(said) <= WIDTH
    assert said.lower().startswith(f"{brief[0]}, {brief[1]}: claude".lower())
    assert tasks == 1 or f"×{tasks}" in said


def test_every_field_counts_for_the_fingerprint() -> None:
    """A profile in which only one field differs is another one."""
    others = {
        "version": "2",
        "rights": RightsLevel.READ,
        "options": (("a", "b"),),
        "brief": ("a", "b", "c"),
        "argv": ("true", None),
        "environment": (("A", None),),
        "grace_s": 3.0,
        "log_limit_bytes": 65536,
        "model": "m",
        "inherits": INHERITS,
    }
    profile = make_profile()
    prints = {profile.fingerprint}
    for field in fields(LaunchProfile):
        other = replace(profile, **{field.name: others.get(field.name, "other")})
        assert differences(profile, other) == (field.name,)
        prints.add(other.fingerprint)
    assert len(prints) == len(fields(LaunchProfile)) + 1
    assert make_profile().fingerprint == profile.fingerprint


def test_a_profile_of_an_older_version_keeps_its_fingerprint() -> None:
    """It was stored without what is inherited. With another fingerprint it could not be read, and nothing could be launched from it."""
    assert make_profile().fingerprint == "e0454901c46ec109"


def test_another_umask_asks_nobody_for_the_same_rights_again() -> None:
    """It is another profile of the same scope, and in full it is shown where it is unusual."""
    profile, other = make_profile(inherits=INHERITS), make_profile(inherits=replace(INHERITS, umask=0o022))
    assert profile.scope == other.scope == make_profile().scope
    assert "umask 077" in dict(table(profile, "/here"))["inherits"]
    assert "inherits" not in dict(table(other, "/here"))


def test_a_sentence_of_an_earlier_version_is_the_same_permission() -> None:
    """Another wording must not ask a person again, or keep a queued task of another machine from its launch."""
    was, now, other = (
        make_profile(harness="claude", permits=permits)
        for permits in ("may read; asks nobody", "may read; never asks", "may write; never asks")
    )
    assert was.scope == now.scope != other.scope


@given(before=ENVIRONMENTS, after=ENVIRONMENTS)
def test_the_changes_of_an_environment_give_it_again(before: dict[str, str], after: dict[str, str]) -> None:
    assert make_profile(environment=environment_changes(before, after)).applied(before) == after


def test_in_full_nothing_is_left_out() -> None:
    profile = make_profile(
        program="/bin/true", version="1.2", account="command:work", home="/h", model="m", reads="nothing", host="h:1",
        host_source="the default", options=(("config", "a = 1\nb = 2"),),
    )  # fmt: skip
    assert table(profile, "/here") == [
        ("sandbox", profile.sandbox),
        ("network", profile.network),
        ("rights", "full: true runs as you"),
        ("directory", "/here"),
        ("reads", "nothing"),
        ("requests", "go to h:1 (the default)"),
        ("program", "command 1.2 (/bin/true)"),
        ("account", "command:work, home /h"),
        ("model", "m"),
        ("options", "config=a = 1 b = 2"),
    ]
    assert profile.sandbox and profile.network


@pytest.mark.parametrize(
    ("rights", "version", "account", "tasks", "detail"),
    [
        ("edits files", "2.1", "own", 1, "No sandbox, open network: claude 2.1 edits files."),
        ("edits files", None, "own", 12, "No sandbox, open network: claude edits files (×12)."),
        ("edits files", "2.1", "key", 1, "No sandbox, open network: claude 2.1 edits files, your key."),
        ("edits files", "2.1", "work", 1, "No sandbox, open network: claude 2.1 edits files, account work."),
        ("edits files without end", "2.1.207", "elsewhere", 1, "No sandbox, open network: claude edits files without end, account elsewhere."),
        ("edits files without end", "2.1", "w" * 30, 1, "No sandbox, open network: claude edits files without end."),
        ("runs " + "x" * 60, "2.1", "own", 1, "No sandbox, open network: claude runs " + "x" * 41 + "…"),
        ("runs " + "x" * 60, "2.1", "own", 12, "No sandbox, open network: claude runs " + "x" * 35 + "… (×12)"),
    ],
)  # fmt: skip
def test_the_line_leaves_out_the_least_important_first(
    rights: str, version: str | None, account: str, tasks: int, detail: str
) -> None:
    """First the version, then the account, and only then a part of the rights."""
    brief = ("no sandbox", "open network", rights)
    profile = make_profile(harness="claude", brief=brief, version=version, account=f"claude:{account}")
    assert line(profile, tasks) == detail
    assert line(profile) == line(profile, 1)


def test_no_sign_in_is_claimed_for_a_command_line() -> None:
    assert "account" not in dict(table(make_profile(account="command:own"), "/here"))
