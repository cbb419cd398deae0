"""Costs in words. Known and claimed money are never added up, and what is unknown is said."""

from typing import TYPE_CHECKING

from watchkeeper.cli import render

if TYPE_CHECKING:
    from watchkeeper.domain.cost import CostTotal


def money(usd: float) -> str:
    """An amount of US dollars."""
    return f"${usd:,.2f}"


def words(total: "CostTotal") -> str:
    """What some runs cost, in one line: `$1.20 known · at least $0.30 claimed (1 run) · unknown for 2 runs`."""
    if not total.runs:
        return "no run was settled"
    parts: list[str] = []
    if total.known_runs:
        parts.append(f"{money(total.known_usd)} known")
    if total.claimed_runs:
        parts.append(f"at least {money(total.claimed_usd)} claimed ({render.counted(total.claimed_runs, 'run')})")
    if total.unknown_runs:
        alone = "unknown" if total.unknown_runs == total.runs == 1 else f"unknown for {total.unknown_runs}"
        runs = "" if alone == "unknown" else " run" if total.unknown_runs == 1 else " runs"
        parts.append(alone + runs)
    return " · ".join(parts)


def tokens(total: "CostTotal") -> str:
    """How many tokens some runs used, as far as they said so."""
    if total.without_tokens == total.runs:
        return "tokens unknown"
    least = "at least " if total.without_tokens else ""
    return f"{least}{total.input_tokens:,} tokens in, {least}{total.output_tokens:,} out"
