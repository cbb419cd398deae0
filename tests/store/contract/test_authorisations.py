"""What every database promises of authorisations, their launch profiles, and launches."""

from dataclasses import replace

import pytest
from support.records import NOON, add, make_profile, make_task, reserve

from watchkeeper.domain.inheritance import Inheritance
from watchkeeper.domain.profile import LaunchProfile, RightsLevel
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.errors import DatabaseCorrupt
from watchkeeper.ports.store import Authorisation, Store, Tx
from watchkeeper.store.moving import OpenStore
from watchkeeper.store.values import to_json

PROFILE = make_profile(
    harness="claude", program="/bin/cläude", version=None, model="m", rights=RightsLevel.READ, isolation="strict",
    options=(("allowed_tools", "Read"), ("tools", "")), argv=("/bin/cläude", None, "\udcff"), prompt_by="argument",
    environment=(("A", "1"), ("B", None)), grace_s=2.5, log_limit_bytes=70000,
    inherits=Inheritance(umask=0o077, nice=-5, oom_score_adj=None, limits=(("cpu", 10, 1 << 62), ("as", -1, -1))),
)  # fmt: skip


def allowed(number: int, profile: LaunchProfile | None = PROFILE, directory: str | None = "/here") -> Authorisation:
    """An authorisation of task t1."""
    return Authorisation(
        id=f"a{number}", task_id="t1", kind="person", by="ada", detail="a line", at=NOON, profile=profile,
        directory=directory,
    )  # fmt: skip


PLACE = WorkingDirectory(
    machine="m1", boot="b", path="/hä\ufffdre", device=1 << 63, inode=(1 << 64) - 1, generation=7, top="/hä", repository=(1, 2, None),
    ref="refs/heads/fix/search", head="1" * 40, head_file="/hä/.git/HEAD",
)  # fmt: skip


def authorise(store: Store, *each: Authorisation) -> None:
    """Record them for a new task t1."""

    def work(tx: Tx) -> None:
        _ = add(tx, make_task())
        for one in each:
            tx.outcomes.authorise(one)

    store.transact("add", work)


def test_a_profile_is_stored_as_it_was_allowed(store: Store) -> None:
    authorise(store, allowed(1, make_profile()), allowed(2))
    assert store.read(lambda tx: tx.outcomes.authorisation("t1")) == allowed(2)


def test_the_working_directory_is_stored_as_it_was_looked_at(store: Store) -> None:
    for number, place in enumerate((PLACE, replace(PLACE, repository=None, ref=None, unknown="why"), None)):
        one = replace(allowed(number), place=place)
        if number == 0:
            authorise(store, one)
        else:
            store.transact("more", lambda tx, one=one: tx.outcomes.authorise(one))
        assert store.read(lambda tx: tx.outcomes.authorisation("t1")) == one


@pytest.mark.parametrize("place", ['{"path": "/p"}', '{"path": 1, "strange": 2}', "[]", '{"repository": [1]}'])
def test_a_working_directory_that_cannot_be_read_is_not_taken_for_none(
    store: Store, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr("watchkeeper.store.outcomes.to_json", lambda value: place if value is PLACE else to_json(value))
    authorise(store, replace(allowed(1), place=PLACE))
    with pytest.raises(DatabaseCorrupt):
        _ = store.read(lambda tx: tx.outcomes.authorisation("t1"))


def test_an_authorisation_of_an_older_version_has_no_profile(store: Store) -> None:
    authorise(store, allowed(1, None, None))
    assert store.read(lambda tx: tx.outcomes.authorisation("t1")) == allowed(1, None, None)
    assert store.read(lambda tx: tx.outcomes.allowed_in("/here")) is None


def test_the_newest_profile_of_a_directory_is_found(store: Store) -> None:
    newer = allowed(2, replace(PROFILE, version="9"))
    authorise(store, allowed(1), newer, allowed(3, directory="/elsewhere"), allowed(4, None))
    assert store.read(lambda tx: tx.outcomes.allowed_in("/here")) == newer
    assert store.read(lambda tx: tx.outcomes.allowed_in("/nowhere")) is None


def test_a_launch_keeps_what_it_was_allowed_by(store: Store) -> None:
    """A later authorisation of the task changes nothing about a run that was reserved under an earlier one."""

    def work(tx: Tx) -> str:
        run = reserve(tx, tx.tasks.get("t1"))
        tx.outcomes.record_launch(run, "a1")
        tx.outcomes.authorise(allowed(2, make_profile()))
        return run.id

    authorise(store, allowed(1))
    run_id = store.transact("reserve", work)
    launch = store.read(lambda tx: tx.outcomes.launch(run_id))
    assert launch is not None and (launch.authorisation, launch.version) == (allowed(1), None)
    store.transact("version", lambda tx: tx.outcomes.record_version(run_id, "1.2"))
    launch = store.read(lambda tx: tx.outcomes.launch(run_id))
    assert launch is not None and launch.version == "1.2"
    assert store.read(lambda tx: tx.outcomes.launch("t9.1")) is None


@pytest.mark.parametrize(
    "statement", ["UPDATE authorisation SET detail = 'more'", "UPDATE authorisation SET profile = NULL"]
)
def test_what_was_allowed_never_changes(store: OpenStore, statement: str) -> None:
    authorise(store, allowed(1))
    with pytest.raises(Exception, match="never changes"):
        store.transact("tamper", lambda tx: tx.rows.query(statement))
    assert store.read(lambda tx: tx.outcomes.authorisation("t1")) == allowed(1)


def test_a_profile_that_does_not_fit_its_fingerprint_is_not_read(store: Store) -> None:
    """Nothing is launched from a torn or edited row (R13)."""

    class Torn(LaunchProfile):
        __slots__ = ()

        @property
        def fingerprint(self) -> str:
            return "0" * 16

    torn = Torn(**{name: getattr(PROFILE, name) for name in PROFILE.__dataclass_fields__})
    authorise(store, allowed(1, torn))
    with pytest.raises(DatabaseCorrupt, match="authorisation"):
        _ = store.read(lambda tx: tx.outcomes.authorisation("t1"))
