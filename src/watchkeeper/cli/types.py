"""Kinds of arguments, each with its own complaint and its own completion."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import cast

import click
from click.shell_completion import CompletionItem

from watchkeeper.cli.render import clean
from watchkeeper.domain.duration import parse_duration
from watchkeeper.domain.local_time import instant, last_time_of_day, next_time_of_day

_OFFERED = 50
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}", re.ASCII)
_DAYS = frozenset({"today", "yesterday"})
"""The local midnight at which that day began."""
_NUMBER = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


class DurationType(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic only in newer versions of click
    """A length of time: `90`, `90s`, `15m`, `1h30m`, `2d`. The value is in seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse it."""
        if isinstance(value, int | float):
            return float(value)
        seconds = parse_duration(str(value))
        if not seconds:
            self.fail(f"'{clean(str(value))[:60]}' is not a length of time such as 90s, 15m or 1h30m.", param, ctx)
        return seconds


class SinceType(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic only in newer versions of click
    """A time that has passed: how long ago (`15m`), when (`2026-01-31T14:00`), a time of day (`14:00`, the last one), `today` or `yesterday`."""

    name = "when"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check that it can be read; what it means depends on what time it is, see `until_now`."""
        text = str(value).strip()
        if until_now(text, _ANY_TIME) is None:
            self.fail(
                f"'{clean(text)[:60]}' is neither how long ago (15m) nor a time (14:00, 2026-01-31T14:00).", param, ctx
            )
        return text


class OptionType(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic only in newer versions of click
    """An option of a harness, `NAME=VALUE`."""

    name = "option"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split it at the first equals sign."""
        if isinstance(value, tuple):
            return cast("tuple[str, str]", value)
        name, equals, text = str(value).partition("=")
        if not equals or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            self.fail(f"'{clean(name)[:60]}' is not an option and its value, such as max_turns=20.", param, ctx)
        return name, text


class TaskIdType(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic only in newer versions of click
    """The id of a task, or its beginning."""

    name = "id"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Ids that start like this, newest first, with their titles. Looks only."""
        del ctx, param
        from watchkeeper.cli.completions import ids

        return [CompletionItem(task_id, help=title) for task_id, title in ids(incomplete, _OFFERED)]


class RunType(TaskIdType):
    """A run, `ID.N`, or a task, whose newest run is meant."""

    name = "run"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the number behind the dot."""
        text = str(value).strip()
        _, dot, number = text.rpartition(".")
        if dot and not _NUMBER.fullmatch(number):
            self.fail(f"'{clean(text)[:60]}' is not a run such as 4k2j.1: a task's id, a dot and a number.", param, ctx)
        return text


def split_run(typed: str) -> tuple[str, int | None]:
    """The typed id of a task, and the number of the run; None: the newest."""
    task_id, dot, number = typed.rpartition(".")
    return (task_id, int(number)) if dot else (typed, None)


class HarnessType(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic only in newer versions of click
    """The name of a harness."""

    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names that start like this."""
        del ctx, param
        from watchkeeper.cli.completions import harness_names

        return [CompletionItem(name) for name in harness_names() if name.startswith(incomplete)]


class IsolationType(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic only in newer versions of click
    """A word for what an agent reads of the user's and the project's configuration; its harness declares which there are."""

    name = "word"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Words of the harness that was named, or of every harness."""
        del param
        from watchkeeper.cli.completions import isolations

        return [CompletionItem(each) for each in isolations(ctx.params.get("harness")) if each.startswith(incomplete)]


class AccountType(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic only in newer versions of click
    """An account, `NAME` or `HARNESS:NAME`."""

    name = "account"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Ids that start like this. Looks only."""
        del ctx, param
        from watchkeeper.cli.completions import accounts

        return [CompletionItem(each) for each in accounts() if each.startswith(incomplete)]


class MachineType(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic only in newer versions of click
    """The name of a machine."""

    name = "machine"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names that start like this. Looks only."""
        del ctx, param
        from watchkeeper.cli.completions import machines

        return [CompletionItem(each) for each in machines() if each.startswith(incomplete)]


class LabelType(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic only in newer versions of click
    """A label."""

    name = "label"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Labels that start like this. Looks only."""
        del ctx, param
        from watchkeeper.cli.completions import labels

        return [CompletionItem(each) for each in labels(incomplete, _OFFERED)]


class KeyType(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic only in newer versions of click
    """The caller's own name for a hand-over."""

    name = "key"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check that it can be one."""
        from watchkeeper.domain.handover import LONGEST_KEY, is_key

        text = str(value)
        if not is_key(text):
            self.fail(
                f"A key has 1 to {LONGEST_KEY} printable characters and neither begins nor ends with a blank.",
                param,
                ctx,
            )
        return text


class WhenType(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic only in newer versions of click
    """A time to come: how long from now (`+2h`), when (`2026-01-31T14:00`), or a time of day (`14:00`, the next one)."""

    name = "when"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check that it can be read; what it means depends on what time it is, see `from_now`."""
        text = str(value).strip()
        if from_now(text, _ANY_TIME) is None:
            self.fail(f"'{clean(text)[:60]}' is no time to come such as +2h, 14:00 or 2026-01-31T14:00.", param, ctx)
        return text


def from_now(text: str, now: datetime) -> datetime | None:
    """The time to come that a text means at a time; None if it means none. Without a zone it is the caller's own, see `domain.local_time`."""
    if text.startswith("+"):
        seconds = parse_duration(text[1:])
        return now + timedelta(seconds=seconds) if seconds else None
    return _at(text, now, next_time_of_day)


def until_now(text: str, now: datetime) -> datetime | None:
    """The time that has passed which a text means at a time, `15m` being 15 minutes ago; None if it means none."""
    if text in _DAYS:
        midnight = last_time_of_day(0, 0, now)
        return midnight if text == "today" else last_time_of_day(0, 0, midnight - timedelta(seconds=1))
    seconds = parse_duration(text)
    if seconds is not None:
        return now - timedelta(seconds=seconds)
    return _at(text, now, last_time_of_day)


def _at(text: str, now: datetime, of_day: Callable[[int, int, datetime], datetime]) -> datetime | None:
    try:
        if _TIME_OF_DAY.fullmatch(text):
            day = time.fromisoformat(text.zfill(5))
            return of_day(day.hour, day.minute, now)
        at = datetime.fromisoformat(text)
        return instant(at) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


DURATION = DurationType()
SINCE = SinceType()
TASK_ID = TaskIdType()
RUN = RunType()
HARNESS = HarnessType()
ISOLATION = IsolationType()
ACCOUNT = AccountType()
MACHINE = MachineType()
LABEL = LabelType()
WHEN = WhenType()
OPTION = OptionType()
KEY = KeyType()
