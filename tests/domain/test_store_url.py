"""What may be the URL of a database, and how it is shown."""

import pytest

from watchkeeper.domain.store_url import masked, mistyped, read_store

HIDDEN = "something that is not shown, because a password may be in it"
URLS = [
    "postgresql://ada@db.example/wk",
    "postgres://ada:secret@db.example:5433/wk",
    "postgresql:///wk?host=/run/postgresql&user=ada",
    "postgresql://ada:p%40ss@h1,h2:5432/wk?sslmode=require",
    "postgresql://",
]


@pytest.mark.parametrize("url", URLS)
def test_a_url_is_taken_as_it_is(url: str) -> None:
    assert read_store(url) == url


def test_the_word_for_the_database_in_the_state_directory_is_no_url() -> None:
    assert read_store("sqlite") is None


@pytest.mark.parametrize("written", ["", "SQLite", "mysql://h/wk", "db.example", None, 5, "sqlite://"])
def test_another_text_is_refused_with_what_it_must_be(written: object) -> None:
    with pytest.raises(ValueError, match=r"^`sqlite` or a URL such as postgresql://user@host/database$"):
        _ = read_store(written)


@pytest.mark.parametrize(
    "written",
    ["postgresql://ada:p@ss@h/wk", "postgresql://ada:p/s@h/wk", "postgresql://ada:p#s@h/wk", "postgresql://ada:50%@h/wk",
     "postgresql://h/wk?Host=a", "postgresql://h/my wk"],
)  # fmt: skip
def test_a_url_that_may_hold_a_bare_password_is_refused_with_what_to_write(written: str) -> None:
    wanted = "a URL such as postgresql://user@host/database; in it @ is %40, / is %2F, ? is %3F, # is %23, % is %25"
    with pytest.raises(ValueError, match="a URL such as") as caught:
        _ = read_store(written)
    assert str(caught.value) == wanted


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("postgresql://ada:secret@h/wk", "postgresql://ada:***@h/wk"),
        ("postgresql://ada:se@cr:et@h/wk", "postgresql://ada:***@h/wk"),
        ("postgresql://h/wk?password=s1&sslmode=require&sslpassword=s2", "postgresql://h/wk?password=***&sslmode=require&sslpassword=***"),
        ("postgresql://h/wk?user=ada&oauth_client_secret=s", "postgresql://h/wk?user=ada&oauth_client_secret=***"),
        ("postgresql://ada@h/wk", "postgresql://ada@h/wk"),
        ("ada:secret@h", "ada:secret@h"),
        (7, 7),
    ],
)  # fmt: skip
def test_a_password_in_a_url_is_not_shown(value: object, shown: object) -> None:
    assert masked(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [("postgres", "'postgres'"), (5, "5"), ("a:b", HIDDEN), ("b@h", HIDDEN), ("a:b@h", HIDDEN)]
)
def test_what_is_not_a_url_is_shown_unless_it_may_hold_a_password(value: object, shown: str) -> None:
    assert mistyped(value) == shown
