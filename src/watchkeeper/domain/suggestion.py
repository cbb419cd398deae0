"""A suggestion for a name that is mistyped."""

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'NAME'?` with the known name that is closest; "" if none is close."""
    import difflib  # noqa: PLC0415 - only a mistake needs it

    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f" Did you mean '{close[0]}'?" if close else ""
