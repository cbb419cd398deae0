"""What earlier versions stored is read under today's names."""

from watchkeeper.domain import former_names
from watchkeeper.domain.run_record import EndReason


def test_a_stored_reason_is_read_under_its_name_of_today() -> None:
    assert EndReason("condemned") is EndReason.EARLY_FAIL
    assert EndReason("early_fail") is EndReason.EARLY_FAIL
    assert {EndReason(word).value for word in former_names.END_REASONS} == set(former_names.END_REASONS.values())


def test_a_word_that_was_never_one_is_refused() -> None:
    try:
        reason = EndReason("whim")
    except ValueError:
        reason = None
    assert reason is None


def test_an_entry_of_the_journal_is_read_under_the_names_of_today() -> None:
    assert former_names.kind("run.condemned") == "run.early_fail_seen"
    assert former_names.kind("run.lost") == "run.lost"
    stored = {"state": "running", "condemnation_kind": "quota", "condemnation_reason": "used up", "says": "at 9:00"}
    assert former_names.fields(stored) == {
        "state": "running", "early_fail_kind": "quota", "early_fail_reason": "used up", "detail": "at 9:00",
    }  # fmt: skip


def test_a_record_with_both_names_keeps_the_one_of_today() -> None:
    assert former_names.fields({"detail": "new", "says": "old"}) == {"detail": "new"}


def test_a_request_for_any_shim_has_words_that_an_earlier_one_knows() -> None:
    request: dict[str, object] = {"do": "stop", "how": "early_fail", "grace_s": 1.0}
    assert former_names.for_any_shim(request) == {**request, "how": "condemned"}
    assert former_names.for_any_shim({"do": "stop", "how": "answered"}) == {"do": "stop", "how": "answered"}
    assert former_names.for_any_shim({"do": "kill"}) == {"do": "kill"}
