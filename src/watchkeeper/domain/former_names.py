"""Names that earlier versions stored or sent, beside today's: what they wrote stays readable.

`docs/glossary.md` lists every former word. Here are those that stand in records: the journal, exit records, the daemon's last words, and the requests that
a shim of an earlier version understands.
"""

from collections.abc import Mapping

EARLY_FAIL = "condemned"
"""What earlier versions called the reason `early_fail`. A shim of an earlier version does not know another word for it."""

END_REASONS: Mapping[str, str] = {EARLY_FAIL: "early_fail"}
"""Reasons for the end of an agent."""

_KINDS: Mapping[str, str] = {"run.condemned": "run.early_fail_seen"}
_FIELDS: Mapping[str, str] = {
    "says": "detail",
    "condemnation_kind": "early_fail_kind",
    "condemnation_reason": "early_fail_reason",
}


def kind(stored: str) -> str:
    """Today's name of a kind of journal entry."""
    return _KINDS.get(stored, stored)


def fields(stored: Mapping[str, object]) -> dict[str, object]:
    """A flat record under today's names of its fields. Where it has both names, today's wins."""
    return {_FIELDS.get(name, name): value for name, value in stored.items()} | {
        name: value for name, value in stored.items() if name not in _FIELDS
    }


def for_any_shim(request: Mapping[str, object]) -> dict[str, object]:
    """A request to a shim in words that every version understands: this one takes the former words, too."""
    how = request.get("how")
    former = {today: word for word, today in END_REASONS.items()}
    return {**request, "how": former.get(how, how)} if isinstance(how, str) else dict(request)


def for_earlier_shim(request: Mapping[str, object]) -> dict[str, object]:
    """A request to stop whose reason a shim of an earlier version refused: it knows `early_fail` by another name, and `answered` not at all."""
    return {**request, "how": EARLY_FAIL}
