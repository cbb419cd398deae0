"""What is wrong with a bundle, by its manifest."""

import pytest

from watchkeeper.domain.bundle import Member, faults, manifest

ONE, TWO = Member(name="a", size=1, sha256="11"), Member(name="b/c", size=2, sha256="22")
WHOLE = manifest({"run": "t.1"}, [ONE, TWO])


def test_a_bundle_as_it_was_made_has_no_fault() -> None:
    """In any order."""
    assert faults(WHOLE, [TWO, ONE]) == []


@pytest.mark.parametrize(
    ("found", "detail"),
    [
        ([ONE], "b/c is missing."),
        ([ONE, TWO, Member(name="d", size=0, sha256="")], "d is not in the manifest."),
        ([ONE, Member(name="b/c", size=3, sha256="22")], "b/c was changed."),
        ([ONE, Member(name="b/c", size=2, sha256="23")], "b/c was changed."),
        ([ONE, TWO, TWO], "b/c is there 2 times."),
    ],
)
def test_each_difference_is_named(found: list[Member], detail: str) -> None:
    """Missing, added, changed, doubled."""
    assert faults(WHOLE, found) == [detail]


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {},
        {"format": 2, "files": []},
        {"format": 1},
        {"format": 1, "files": [1]},
        {"format": 1, "files": [{"name": "a", "size": "1", "sha256": ""}]},
        {"format": 1, "files": [{"name": "a", "size": 1, "sha256": "11"}] * 2},
    ],
)
def test_a_broken_manifest_is_one_fault(broken: object) -> None:
    """Nothing else can then be said."""
    assert len(faults(broken, [ONE])) == 1
